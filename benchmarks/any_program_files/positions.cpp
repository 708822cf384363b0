// limit: lock | Ledger|ledger|post
// Accounts behind one recursive mutex; most of a posting's work happens inside of it.
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>
#include "now.h"
namespace {
class Ledger {
  std::recursive_mutex mutex_;
  std::unordered_map<std::string, long> accounts_;

 public:
  void post(int from, int to, long amount) {
    std::lock_guard hold(mutex_);
    for (int leg = 0; leg < 40; ++leg) add(from + leg, -amount), add(to + leg, amount);
  }
  void add(int account, long amount) {
    std::lock_guard hold(mutex_);
    accounts_["account-number-" + std::to_string(account % 500)] += amount;
  }
};
[[gnu::noinline]] unsigned check_limits(unsigned x) {
  return mixed(x, 4000);
}
}  // namespace
int main(int argc, char** argv) {
  begin(argc, argv);
  Ledger ledger;
  std::vector<std::thread> clerks;
  for (unsigned id = 1; id <= 3; ++id)
    clerks.emplace_back([&ledger, id] {
      for (unsigned x = id; !over();)
        x = check_limits(x), ledger.post(static_cast<int>(x % 500), static_cast<int>(x >> 20), 5);
    });
  for (auto& c : clerks) c.join();
}
