// What a class may hold: for the test of `latlab stubs spec`, which writes what it can and marks the rest.
#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <complex>
#include <concepts>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>
typedef struct {
  int a;
  double b;
} CStyle;
namespace outer {
inline namespace v1 {
namespace deep {
template <class T>
concept Num = std::integral<T>;
template <Num T, int N>
class Ring {
  T data_[N]{};
  std::vector<T> more_;
  int at_ = 0;

 public:
  void push(T v) {
    data_[at_++ % N] = v;
    more_.push_back(v);
  }
  bool operator==(const Ring&) const = default;
};
struct Abstract {
  virtual ~Abstract() = default;
  virtual int f() = 0;
  int base = 1;
};
struct V {
  int v = 1;
};
struct L : virtual V {
  int l = 2;
};
struct R : virtual V {
  int r = 3;
};
struct ByLength {
  bool operator()(const std::string& a, const std::string& b) const { return a.size() < b.size(); }
};
enum class Side : unsigned char { kBuy, kSell };
struct Item {
  Side side = Side::kBuy;
  std::string tag;
  bool operator==(const Item&) const = default;
};
class All : public L, protected R, private Abstract {
  int f() override { return 0; }
  Ring<int, 4> ring_;
  Ring<long, 2> ring2_;
  CStyle c_{};
  Item items_[2][2];
  struct {
    int x = 0;
  } nameless_;
  struct Priv {
    int p = 0;
    std::vector<std::pair<int, std::string>> q;
    bool operator==(const Priv&) const = default;
  };
  std::vector<Priv> privs_;
  std::map<std::string, Item, ByLength> by_length_;
  std::unordered_map<std::string, std::vector<Item>> um_;
  std::unordered_set<int> us_;
  std::multiset<int> ms_;
  std::tuple<int, std::string, Item> tup_;
  std::variant<int, std::string, Item> var_;
  std::shared_ptr<Item> sp_;
  std::unique_ptr<Abstract> up_;
  std::unique_ptr<int[]> ua_;
  std::vector<Item*> vp_;
  std::string_view sv_;
  std::function<void()> fn_;
  std::mutex mu_;
  std::atomic<int> at_{0};
  std::chrono::nanoseconds ns_{0};
  std::complex<double> z_;
  std::optional<std::optional<int>> oo_;
  std::array<std::array<Item, 2>, 2> aa_;
  volatile int vol_ = 0;
  const int co_ = 2;
  unsigned b_ : 3 = 1;
  union {
    int i;
    float fl;
  } un_{};
  std::span<int> span_;
  std::vector<std::shared_ptr<Item>> vs_;
  std::vector<bool> vb_;
  std::list<std::set<std::string>> ls_;
  std::chrono::system_clock::time_point tp_;
  std::wstring ws_;
  int* ptr_ = nullptr;
  char name_[16]{};

 public:
  void fill() {
    v = 11;
    l = 12;
    r = 13;
    base = 14;
    ring_.push(5);
    ring2_.push(6);
    c_ = {7, 8.5};
    items_[1][0] = {Side::kSell, "it"};
    privs_ = {{3, {{4, "q"}}}};
    by_length_["ab"] = {Side::kSell, "m"};
    um_["k"] = {{Side::kSell, "u"}};
    us_ = {1, 2};
    ms_ = {3, 3};
    tup_ = {1, "t", {Side::kSell, "x"}};
    var_ = Item{Side::kSell, "v"};
    sp_ = std::make_shared<Item>(Item{Side::kSell, "s"});
    ns_ = std::chrono::nanoseconds(99);
    z_ = {1, 2};
    oo_ = std::optional<int>(5);
    aa_[1][1].tag = "aa";
    vs_ = {sp_, nullptr};
    vb_ = {true, false, true};
    ls_ = {{"a"}};
    tp_ += std::chrono::seconds(5);
    name_[0] = 'n';
  }
  bool filled() const {
    return v == 11 && l == 12 && r == 13 && base == 14 && items_[1][0].tag == "it" &&
           privs_.at(0).q.at(0).second == "q" && by_length_.at("zz").tag == "m" &&
           um_.at("k").at(0).tag == "u" && us_.count(2) && ms_.count(3) == 2 &&
           std::get<2>(tup_).tag == "x" && std::get<Item>(var_).tag == "v" && sp_->tag == "s" &&
           ns_.count() == 99 && z_.imag() == 2 && **oo_ == 5 && aa_[1][1].tag == "aa" && vs_.size() == 2 &&
           vs_[0]->tag == "s" && !vs_[1] && vb_[2] && ls_.front().count("a") &&
           tp_.time_since_epoch().count() > 0 && name_[0] == 'n' && c_.b == 8.5 && !(ring_ == Ring<int, 4>{});
  }
};
}  // namespace deep
}  // namespace v1
}  // namespace outer
