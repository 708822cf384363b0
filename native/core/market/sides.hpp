// Threads: one thread owns a side.
//
// One side of a book at the level of prices, in four designs with one interface:
//
//   MapSide     an ordered map of price -> quantity: the plain one
//   ArraySide   quantities in a contiguous array of ticks around the inside, an ordered map for what is far
//   SortedSide  a sorted vector whose best price is at its end: most events are within a few levels of it
//   LadderSide  (market/ladder.hpp) a small array in the object itself: a whole market's fit in the caches
//
//   void add(price, qty);      void remove(price, qty);      // qty shares join or leave a price
//   bool change(price, shares);  // so many join, or leave where negative, not 0: is the best level another?
//   Level best() const;        std::size_t levels() const;   // {0, 0}: empty
//   bool behind(price) const;                                // true only when a better price stands
//   void visit(f) const;                                     // f(Level) -> bool: from the best on, while
//   true void clear();              SideCounts counts() const;    // what the array had to move void
//   prefetch(which, price) const;                       // touches nothing of the side itself
//
// Over 400 lines: four designs of one interface, which are compared line by line.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory_resource>
#include <utility>
#include <vector>

#include "market/event.hpp"
#include "market/memory.hpp"

namespace latlab::market {

struct Level {
  std::uint32_t price = 0;  // 1/10,000
  std::uint64_t qty = 0;    // 64 bits: a level's sum of hostile 32-bit quantities must not wrap
  friend bool operator==(const Level&, const Level&) = default;
};

struct SideCounts {
  std::uint64_t flushes = 0;   // a better price beyond the array's capacity: the array went into the map
  std::uint64_t refills = 0;   // the array was exhausted and refilled from the map
  std::uint64_t far = 0;       // a worse price than the array holds went to the map
  std::uint64_t off_tick = 0;  // a price between two ticks

  SideCounts& operator+=(const SideCounts& more) noexcept {
    flushes += more.flushes;
    refills += more.refills;
    far += more.far;
    off_tick += more.off_tick;
    return *this;
  }
};

inline constexpr std::size_t kDefaultCapacity = 8192;

struct SideOptions {
  std::size_t capacity = kDefaultCapacity;  // ArraySide's number of ticks, a multiple of 64
  std::pmr::memory_resource* memory = std::pmr::get_default_resource();
};

// change() where a design has no shorter way. What happens behind the inside, as most does, can't change it:
// nothing is compared then.
template <class S>
bool change_by_parts(S& side, std::uint32_t price, std::int64_t shares) {
  const bool behind = side.behind(price);
  const Level before = behind ? Level{} : side.best();
  if (shares > 0) {
    side.add(price, static_cast<std::uint64_t>(shares));
  } else {
    side.remove(price, static_cast<std::uint64_t>(-shares));
  }
  return !behind && before != side.best();
}

namespace detail {
// Prices as keys of which the greater is the better, on both sides.
[[nodiscard]] constexpr std::uint32_t flip(Side side) noexcept {
  return side == Side::bid ? 0U : UINT32_MAX;
}

// Ticks: 1/10,000 below a dollar, a cent from there on.
inline constexpr std::uint32_t kDollar = 10'000;
inline constexpr std::uint32_t kCent = 100;
inline constexpr std::uint32_t kLastTick = kDollar + (UINT32_MAX - kDollar) / kCent;

[[nodiscard]] constexpr std::uint32_t tick_of(std::uint32_t price) noexcept {
  return price < kDollar ? price : kDollar + (price - kDollar) / kCent;
}
[[nodiscard]] constexpr std::uint32_t price_of(std::uint32_t tick) noexcept {
  return tick < kDollar ? tick : kDollar + (tick - kDollar) * kCent;
}
// Takes quantity off the level with this key of a map of levels; one that is emptied goes.
template <class Levels>
void take_off(Levels& levels, std::uint32_t key, std::uint64_t qty) {
  const auto at = levels.find(key);
  if (at == levels.end()) return;
  if (at->second > qty) {
    at->second -= qty;
  } else {
    levels.erase(at);
  }
}
}  // namespace detail

class MapSide {
 public:
  explicit MapSide(Side side, const SideOptions& options = {})
      : levels_(options.memory), flip_(detail::flip(side)) {}

  void add(std::uint32_t price, std::uint64_t qty) { levels_[price ^ flip_] += qty; }

  void remove(std::uint32_t price, std::uint64_t qty) { detail::take_off(levels_, price ^ flip_, qty); }

  bool change(std::uint32_t price, std::int64_t shares) { return change_by_parts(*this, price, shares); }

  [[nodiscard]] Level best() const {
    if (levels_.empty()) return {};
    return {levels_.begin()->first ^ flip_, levels_.begin()->second};
  }
  [[nodiscard]] std::size_t levels() const { return levels_.size(); }
  template <class F>
  void visit(F&& f) const {
    for (const auto& [key, qty] : levels_) {
      if (!f(Level{key ^ flip_, qty})) return;
    }
  }
  void clear() { levels_.clear(); }
  [[nodiscard]] bool behind(std::uint32_t price) const {
    return !levels_.empty() && levels_.begin()->first > (price ^ flip_);
  }
  void prefetch(Side, std::uint32_t) const noexcept { prefetch_line(this); }
  [[nodiscard]] SideCounts counts() const noexcept { return {}; }

 private:
  std::pmr::map<std::uint32_t, std::uint64_t, std::greater<>> levels_;
  std::uint32_t flip_;
};

class SortedSide {
 public:
  explicit SortedSide(Side side, const SideOptions& options = {})
      : far_(options.memory), flip_(detail::flip(side)) {}

  void add(std::uint32_t price, std::uint64_t qty) {
    const std::uint32_t key = price ^ flip_;
    const std::size_t above = position(key);
    if (above != 0 && near_[above - 1].price == key) {
      near_[above - 1].qty += qty;
      return;
    }
    if (above == 0 && !far_.empty()) {
      far_[key] += qty;
      ++counts_.far;
      return;
    }
    near_.insert(near_.begin() + static_cast<std::ptrdiff_t>(above), Level{key, qty});
    if (near_.size() > kMaxNear) spill();
  }

  void remove(std::uint32_t price, std::uint64_t qty) {
    const std::uint32_t key = price ^ flip_;
    const std::size_t above = position(key);
    if (above != 0 && near_[above - 1].price == key) {
      Level& level = near_[above - 1];
      if (level.qty > qty) {
        level.qty -= qty;
        return;
      }
      near_.erase(near_.begin() + static_cast<std::ptrdiff_t>(above - 1));
      if (near_.empty() && !far_.empty()) refill();
      return;
    }
    detail::take_off(far_, key, qty);
  }

  bool change(std::uint32_t price, std::int64_t shares) { return change_by_parts(*this, price, shares); }

  [[nodiscard]] Level best() const {
    if (near_.empty()) return {};
    return {near_.back().price ^ flip_, near_.back().qty};
  }
  [[nodiscard]] std::size_t levels() const { return near_.size() + far_.size(); }
  template <class F>
  void visit(F&& f) const {
    for (auto level = near_.rbegin(); level != near_.rend(); ++level) {
      if (!f(Level{level->price ^ flip_, level->qty})) return;
    }
    for (const auto& [key, qty] : far_) {
      if (!f(Level{key ^ flip_, qty})) return;
    }
  }
  void clear() {
    near_.clear();
    far_.clear();
  }
  [[nodiscard]] bool behind(std::uint32_t price) const noexcept {
    return !near_.empty() && near_.back().price > (price ^ flip_);
  }
  void prefetch(Side, std::uint32_t) const noexcept { prefetch_line(this); }
  [[nodiscard]] SideCounts counts() const noexcept { return counts_; }

 private:
  // A bound for hostile books of millions of levels, which would move megabytes at each insertion.
  static constexpr std::size_t kMaxNear = 8192;
  static constexpr std::size_t kLinear = 8;

  // How many levels are not better than the key.
  [[nodiscard]] std::size_t position(std::uint32_t key) const noexcept {
    std::size_t n = near_.size();
    const std::size_t stop = n > kLinear ? n - kLinear : 0;
    while (n > stop) {
      if (near_[n - 1].price <= key) return n;
      --n;
    }
    const auto end = near_.begin() + static_cast<std::ptrdiff_t>(n);
    const auto at = std::upper_bound(near_.begin(), end, key,
                                     [](std::uint32_t k, const Level& level) { return k < level.price; });
    return static_cast<std::size_t>(at - near_.begin());
  }

  void spill() {
    ++counts_.flushes;
    const auto half = near_.begin() + kMaxNear / 2;
    for (auto level = near_.begin(); level != half; ++level) far_[level->price] += level->qty;
    near_.erase(near_.begin(), half);
  }

  void refill() {
    ++counts_.refills;
    auto end = far_.begin();
    for (std::size_t i = 0; i < kMaxNear / 2 && end != far_.end(); ++i, ++end)
      near_.push_back({end->first, end->second});
    far_.erase(far_.begin(), end);
    std::reverse(near_.begin(), near_.end());
  }

  std::vector<Level> near_;  // Level.price is the key here; ascending, the best is last
  std::pmr::map<std::uint32_t, std::uint64_t, std::greater<>> far_;  // worse than all of near_
  SideCounts counts_;
  std::uint32_t flip_;
};

class ArraySide {
 public:
  explicit ArraySide(Side side, const SideOptions& options = {})
      : far_(options.memory),
        odd_(options.memory),
        flip_(detail::flip(side)),
        mirror_(side == Side::bid ? 0 : detail::kLastTick),
        capacity_(static_cast<std::uint32_t>(std::max<std::size_t>(options.capacity / 64 * 64, 64))) {}

  void add(std::uint32_t price, std::uint64_t qty) {
    const std::uint32_t tick = detail::tick_of(price);
    if (detail::price_of(tick) != price) {
      odd_[price ^ flip_] += qty;
      ++counts_.off_tick;
      return;
    }
    const std::uint32_t key = key_of(tick);
    if (best_ < 0) {
      open(key);
    } else if (key < base_) {
      far_[key] += qty;
      ++counts_.far;
      return;
    } else if (key - base_ >= capacity_) {
      flush(key);
    }
    put(key - base_, qty);
  }

  void remove(std::uint32_t price, std::uint64_t qty) {
    const std::uint32_t tick = detail::tick_of(price);
    if (detail::price_of(tick) != price) {
      detail::take_off(odd_, price ^ flip_, qty);
      return;
    }
    const std::uint32_t key = key_of(tick);
    if (best_ < 0) return;
    if (key < base_) {
      detail::take_off(far_, key, qty);
      return;
    }
    const std::uint32_t at = key - base_;
    if (at >= capacity_ || quantities()[at] == 0) return;
    if (quantities()[at] > qty) {
      quantities()[at] -= qty;
      return;
    }
    quantities()[at] = 0;
    bits()[at / 64] &= ~(std::uint64_t{1} << (at % 64));
    if (static_cast<std::int32_t>(at) == best_) fall();
  }

  bool change(std::uint32_t price, std::int64_t shares) { return change_by_parts(*this, price, shares); }

  [[nodiscard]] Level best() const {
    Level level;
    if (best_ >= 0) level = {price_at(base_ + static_cast<std::uint32_t>(best_)), quantities()[best_]};
    if (odd_.empty()) return level;
    const auto& [key, qty] = *odd_.begin();
    if (best_ >= 0 && (level.price ^ flip_) > key) return level;
    return {key ^ flip_, qty};
  }

  [[nodiscard]] std::size_t levels() const {
    std::size_t count = far_.size() + odd_.size();
    for (std::uint32_t word = 0; best_ >= 0 && word < capacity_ / 64; ++word) {
      count += static_cast<std::size_t>(std::popcount(bits()[word]));
    }
    return count;
  }

  template <class F>
  void visit(F&& f) const {
    auto odd = odd_.begin();
    // Off-tick levels are merged in: they are few, and never decide where the array stands.
    const auto emit = [&](const Level& level) {
      for (; odd != odd_.end() && odd->first > (level.price ^ flip_); ++odd) {
        if (!f(Level{odd->first ^ flip_, odd->second})) return false;
      }
      return static_cast<bool>(f(level));
    };
    for (std::int32_t at = best_; at >= 0; at = below(at)) {
      if (!emit({price_at(base_ + static_cast<std::uint32_t>(at)), quantities()[at]})) return;
    }
    for (const auto& [key, qty] : far_) {
      if (!emit({price_at(key), qty})) return;
    }
    for (; odd != odd_.end(); ++odd) {
      if (!f(Level{odd->first ^ flip_, odd->second})) return;
    }
  }

  void clear() {
    for (std::int32_t at = best_; at >= 0; at = below(at)) quantities()[at] = 0;
    if (best_ >= 0) std::fill_n(bits(), capacity_ / 64, 0);
    best_ = -1;
    far_.clear();
    odd_.clear();
  }
  [[nodiscard]] bool behind(std::uint32_t price) const noexcept {
    return best_ >= 0 && key_of(detail::tick_of(price)) < base_ + static_cast<std::uint32_t>(best_);
  }
  void prefetch(Side, std::uint32_t) const noexcept { prefetch_line(this); }
  [[nodiscard]] SideCounts counts() const noexcept { return counts_; }

 private:
  using Map = std::pmr::map<std::uint32_t, std::uint64_t, std::greater<>>;

  // Ticks as keys of which the greater is the better, on both sides.
  [[nodiscard]] std::uint32_t key_of(std::uint32_t tick) const noexcept {
    return mirror_ == 0 ? tick : mirror_ - tick;
  }
  [[nodiscard]] std::uint32_t price_at(std::uint32_t key) const noexcept {
    return detail::price_of(mirror_ == 0 ? key : mirror_ - key);
  }
  // One block: a bit for each tick that holds quantity, then the quantities.
  [[nodiscard]] std::uint64_t* bits() const noexcept { return block_.data(); }
  [[nodiscard]] std::uint64_t* quantities() const noexcept { return block_.data() + capacity_ / 64; }

  void put(std::uint32_t at, std::uint64_t qty) noexcept {
    if (qty == 0) return;
    quantities()[at] += qty;
    bits()[at / 64] |= std::uint64_t{1} << (at % 64);
    best_ = std::max(best_, static_cast<std::int32_t>(at));
  }

  // The next occupied place below, or -1.
  [[nodiscard]] std::int32_t below(std::int32_t at) const noexcept {
    std::int32_t word = at / 64;
    std::uint64_t left = bits()[word] & ((std::uint64_t{1} << (at % 64)) - 1);
    while (left == 0) {
      if (--word < 0) return -1;
      left = bits()[word];
    }
    return word * 64 + 63 - std::countl_zero(left);
  }

  void centre(std::uint32_t key) noexcept { base_ = key > capacity_ / 2 ? key - capacity_ / 2 : 0; }

  void open(std::uint32_t key) {
    if (block_.data() == nullptr) block_ = detail::LazyZeros(capacity_ + capacity_ / 64);
    centre(key);
  }

  // Take back from the map what the array now covers.
  void draw() {
    auto end = far_.begin();
    for (; end != far_.end() && end->first >= base_; ++end) put(end->first - base_, end->second);
    far_.erase(far_.begin(), end);
  }

  void flush(std::uint32_t key) {
    ++counts_.flushes;
    for (std::int32_t at = best_; at >= 0; at = below(at)) {
      far_[base_ + static_cast<std::uint32_t>(at)] += std::exchange(quantities()[at], 0);
    }
    std::fill_n(bits(), capacity_ / 64, 0);
    best_ = -1;
    centre(key);
    draw();
  }

  // The best level is gone: find the next in the array, else refill half of it from the map.
  void fall() {
    best_ = below(best_);
    if (best_ >= 0 || far_.empty()) return;
    ++counts_.refills;
    centre(far_.begin()->first);
    draw();
  }

  detail::LazyZeros block_;
  Map far_;  // by tick key: worse than everything in the array
  Map odd_;  // by price key: between two ticks
  SideCounts counts_;
  std::uint32_t flip_;
  std::uint32_t mirror_;
  std::uint32_t capacity_;
  std::uint32_t base_ = 0;  // the key of the array's first place
  std::int32_t best_ = -1;  // the best occupied place, or -1
};

}  // namespace latlab::market
