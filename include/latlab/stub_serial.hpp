// Threads: pure functions on the value and the buffer that they are given.
//
// How a C++ value is written into a trace and read from it: bytes as they lie in memory where that is
// possible, members one by one where it isn't. Classes with members that are no plain bytes need a Serial<T>,
// which `latlab stubs spec HEADER --class NAME` writes. Included by latlab/stub.hpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

namespace latlab::stub {

struct StateError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

using Bytes = std::vector<char>;

class Reader {
 public:
  Reader(const char* data, std::size_t size) noexcept : at_(data), end_(data + size) {}
  void take(void* to, std::size_t size) {
    if (static_cast<std::size_t>(end_ - at_) < size)
      throw StateError("a recorded value is shorter than its type");
    std::memcpy(to, at_, size);
    at_ += size;
  }
  template <class T>
  T take() {
    T value;
    take(&value, sizeof value);
    return value;
  }
  [[nodiscard]] bool done() const noexcept { return at_ == end_; }

 private:
  const char* at_;
  const char* end_;
};

inline void put(Bytes& out, const void* from, std::size_t size) {
  const char* bytes = static_cast<const char*>(from);
  out.insert(out.end(), bytes, bytes + size);
}

// How a type is written: layout() as in the trace format, save() and load(). Specialised by generated
// headers.
template <class T>
struct Serial {
  static_assert(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>,
                "this class has members that are no plain bytes: write its Serial with `latlab stubs spec`");
  static constexpr bool raw = true;  // written as it lies in memory
  static std::string layout() {
    if constexpr (std::is_same_v<T, bool>) return "b";
    if constexpr (std::is_floating_point_v<T> && sizeof(T) <= 8) return "f" + std::to_string(sizeof(T));
    if constexpr (std::is_enum_v<T>) return Serial<std::underlying_type_t<T>>::layout();
    if constexpr (std::is_integral_v<T>) return (std::is_signed_v<T> ? "i" : "u") + std::to_string(sizeof(T));
    return "r" + std::to_string(sizeof(T));
  }
  static void save(const T& value, Bytes& out) { put(out, &value, sizeof value); }
  static void load(T& value, Reader& in) { in.take(&value, sizeof value); }
};

template <class T, std::size_t N>
struct Serial<std::array<T, N>> {
  static constexpr bool raw = requires { requires Serial<T>::raw; };
  static std::string layout() { return std::to_string(N) + "[" + Serial<T>::layout() + "]"; }
  static void save(const std::array<T, N>& values, Bytes& out) {
    for (const T& value : values) Serial<T>::save(value, out);
  }
  static void load(std::array<T, N>& values, Reader& in) {
    for (T& value : values) Serial<T>::load(value, in);
  }
};

template <class T, std::size_t N>
struct Serial<T[N]> {
  static constexpr bool raw = requires { requires Serial<T>::raw; };
  static std::string layout() { return std::to_string(N) + "[" + Serial<T>::layout() + "]"; }
  static void save(const T (&values)[N], Bytes& out) {
    for (const T& value : values) Serial<T>::save(value, out);
  }
  static void load(T (&values)[N], Reader& in) {
    for (T& value : values) Serial<T>::load(value, in);
  }
};

template <class C, class A>
struct Serial<std::basic_string<char, C, A>> {
  using Text = std::basic_string<char, C, A>;
  static std::string layout() { return "s"; }
  static void save(const Text& text, Bytes& out) {
    const auto size = static_cast<std::uint32_t>(text.size());
    put(out, &size, sizeof size);
    put(out, text.data(), text.size());
  }
  static void load(Text& text, Reader& in) {
    text.resize(in.template take<std::uint32_t>());
    in.take(text.data(), text.size());
  }
};

// A count, and so many elements.
template <class Elements>
struct SerialElements {
  using T = typename Elements::value_type;
  static std::string layout() { return "v(" + Serial<T>::layout() + ")"; }
  static void save(const Elements& values, Bytes& out) {
    const auto size = static_cast<std::uint32_t>(values.size());
    put(out, &size, sizeof size);
    for (const T& value : values) Serial<T>::save(value, out);
  }
};

template <class Sequence>
struct SerialSequence : SerialElements<Sequence> {
  using T = typename Sequence::value_type;
  static void load(Sequence& values, Reader& in) {
    values.resize(in.template take<std::uint32_t>());
    for (T& value : values) Serial<T>::load(value, in);  // elements that exist are overwritten in place
  }
};
template <class T, class A>
struct Serial<std::vector<T, A>> : SerialSequence<std::vector<T, A>> {};
template <class T, class A>
struct Serial<std::list<T, A>> : SerialSequence<std::list<T, A>> {};
template <class T, class A>
struct Serial<std::deque<T, A>> : SerialSequence<std::deque<T, A>> {};

// Elements one by one: they have no address, and no reference.
template <>
struct Serial<std::vector<bool>> {
  static std::string layout() { return "v(b)"; }
  static void save(const std::vector<bool>& values, Bytes& out) {
    const auto size = static_cast<std::uint32_t>(values.size());
    put(out, &size, sizeof size);
    for (const bool value : values) Serial<bool>::save(value, out);
  }
  static void load(std::vector<bool>& values, Reader& in) {
    values.resize(in.take<std::uint32_t>());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = in.take<bool>();
  }
};

template <class Set>
struct SerialSet : SerialElements<Set> {
  using T = typename Set::value_type;
  static void load(Set& values, Reader& in) {
    values.clear();
    for (auto left = in.template take<std::uint32_t>(); left > 0; --left) {
      T value{};
      Serial<T>::load(value, in);
      values.insert(std::move(value));
    }
  }
};
template <class T, class C, class A>
struct Serial<std::set<T, C, A>> : SerialSet<std::set<T, C, A>> {};
template <class T, class C, class A>
struct Serial<std::multiset<T, C, A>> : SerialSet<std::multiset<T, C, A>> {};
template <class T, class H, class E, class A>
struct Serial<std::unordered_set<T, H, E, A>> : SerialSet<std::unordered_set<T, H, E, A>> {};

template <class A, class B>
struct Serial<std::pair<A, B>> {
  static std::string layout() { return "{" + Serial<A>::layout() + Serial<B>::layout() + "}"; }
  static void save(const std::pair<A, B>& value, Bytes& out) {
    Serial<A>::save(value.first, out);
    Serial<B>::save(value.second, out);
  }
  static void load(std::pair<A, B>& value, Reader& in) {
    Serial<A>::load(value.first, in);
    Serial<B>::load(value.second, in);
  }
};

template <class Map>
struct SerialMap {
  using K = typename Map::key_type;
  using V = typename Map::mapped_type;
  static std::string layout() { return "m(" + Serial<K>::layout() + "," + Serial<V>::layout() + ")"; }
  static void save(const Map& values, Bytes& out) {
    const auto size = static_cast<std::uint32_t>(values.size());
    put(out, &size, sizeof size);
    for (const auto& [key, value] : values) {
      Serial<K>::save(key, out);
      Serial<V>::save(value, out);
    }
  }
  static void load(Map& values, Reader& in) {
    Map old;
    old.swap(values);
    for (auto left = in.template take<std::uint32_t>(); left > 0; --left) {
      K key{};
      Serial<K>::load(key, in);
      // The node of a key that exists is kept, so that references into the map stay good.
      auto node = old.extract(key);
      auto where =
          node.empty() ? values.emplace(std::move(key), V{}).first : values.insert(std::move(node)).position;
      Serial<V>::load(where->second, in);
    }
  }
};
template <class K, class V, class C, class A>
struct Serial<std::map<K, V, C, A>> : SerialMap<std::map<K, V, C, A>> {};
template <class K, class V, class H, class E, class A>
struct Serial<std::unordered_map<K, V, H, E, A>> : SerialMap<std::unordered_map<K, V, H, E, A>> {};

template <class... T>
struct Serial<std::tuple<T...>> {
  static std::string layout() { return "{" + (Serial<T>::layout() + ... + std::string("}")); }
  static void save(const std::tuple<T...>& values, Bytes& out) {
    std::apply([&](const T&... each) { (Serial<T>::save(each, out), ...); }, values);
  }
  static void load(std::tuple<T...>& values, Reader& in) {
    std::apply([&](T&... each) { (Serial<T>::load(each, in), ...); }, values);
  }
};

// Which one it holds, and that one. A trace's layout can't say "one of these": decoding shows the bytes.
template <class... T>
struct Serial<std::variant<T...>> {
  static std::string layout() { return "v(u1)"; }
  static void save(const std::variant<T...>& value, Bytes& out) {
    if (value.valueless_by_exception()) throw StateError("a variant holds nothing");
    Bytes inside;
    const auto which = static_cast<std::uint32_t>(value.index());
    put(inside, &which, sizeof which);
    std::visit([&](const auto& held) { Serial<std::remove_cvref_t<decltype(held)>>::save(held, inside); },
               value);
    const auto size = static_cast<std::uint32_t>(inside.size());
    put(out, &size, sizeof size);
    put(out, inside.data(), inside.size());
  }
  static void load(std::variant<T...>& value, Reader& in) {
    in.take<std::uint32_t>();
    const auto which = in.take<std::uint32_t>();
    if (which >= sizeof...(T)) throw StateError("a recorded variant holds what its type doesn't have");
    pick(value, which, in, std::index_sequence_for<T...>{});
  }

 private:
  template <std::size_t... I>
  static void pick(std::variant<T...>& value, std::uint32_t which, Reader& in,
                   std::index_sequence<I...> /**/) {
    ((which == I ? one<I>(value, in) : void()), ...);
  }
  template <std::size_t I>
  static void one(std::variant<T...>& value, Reader& in) {
    if (value.index() != I) value.template emplace<I>();
    Serial<std::variant_alternative_t<I, std::variant<T...>>>::load(std::get<I>(value), in);
  }
};
template <>
struct Serial<std::monostate> {
  static std::string layout() { return "{}"; }
  static void save(const std::monostate& /**/, Bytes& /**/) {}
  static void load(std::monostate& /**/, Reader& /**/) {}
};

// What it owns is one object, or none. Whether two shared pointers share it isn't recorded: one that exists
// is overwritten in place, and stays shared with whoever shares it.
template <class Pointer>
struct SerialOwner {
  using T = typename Pointer::element_type;
  static std::string layout() { return "o(" + Serial<T>::layout() + ")"; }
  static void save(const Pointer& value, Bytes& out) {
    const char present = value != nullptr ? 1 : 0;
    put(out, &present, 1);
    if (value) Serial<T>::save(*value, out);
  }
  static void load(Pointer& value, Reader& in) {
    if (in.take<char>() == 0) {
      value.reset();
      return;
    }
    if (!value) value = Pointer(new T());
    Serial<T>::load(*value, in);
  }
};
template <class T>
struct Serial<std::unique_ptr<T>> : SerialOwner<std::unique_ptr<T>> {};
template <class T>
struct Serial<std::shared_ptr<T>> : SerialOwner<std::shared_ptr<T>> {};

template <class T>
struct Serial<std::optional<T>> {
  static std::string layout() { return "o(" + Serial<T>::layout() + ")"; }
  static void save(const std::optional<T>& value, Bytes& out) {
    const char present = value.has_value() ? 1 : 0;
    put(out, &present, 1);
    if (value) Serial<T>::save(*value, out);
  }
  static void load(std::optional<T>& value, Reader& in) {
    if (in.take<char>() == 0) {
      value.reset();
      return;
    }
    if (!value) value.emplace();
    Serial<T>::load(*value, in);
  }
};

template <class T>
inline constexpr bool kRaw = requires { requires Serial<T>::raw; };

}  // namespace latlab::stub
