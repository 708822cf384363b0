// Threads: one thread owns a side.
//
// A book side (see market/sides.hpp for the interface) made for a whole market: 64 ticks around the inside as
// quantities in the object itself, one bit for each that is occupied, and sorted vectors for what is further
// away and for what is between two ticks. 96 % of a day's events are in the ladder (published depths: p90 14
// ticks from the inside, p99 203). The place of a tick in the ladder is its number modulo 64, whatever the
// inside, so that its memory can be asked for before the side itself has been read.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "market/sides.hpp"

namespace latlab::market {

class alignas(64) LadderSide {
 public:
  explicit LadderSide(Side side, const SideOptions& options = {})
      : mirror_(side == Side::bid ? 0 : detail::kLastTick),
        flip_(detail::flip(side)),
        far_(Side::bid, options),
        options_(options) {}

  void add(std::uint32_t price, std::uint64_t qty) {
    const std::uint32_t tick = detail::tick_of(price);
    const std::uint32_t key = key_of(tick);
    if (detail::price_of(tick) != price || top_ - key >= kTicks) [[unlikely]] {
      add_elsewhere(price, key, qty);
    } else {
      put(key, qty);
    }
  }

  void remove(std::uint32_t price, std::uint64_t qty) {
    const std::uint32_t tick = detail::tick_of(price);
    const std::uint32_t key = key_of(tick);
    if (detail::price_of(tick) != price || top_ - key >= kTicks) [[unlikely]] {
      remove_elsewhere(price, key, qty);
      return;
    }
    std::uint64_t& standing = qty_[key % kTicks];
    if (standing > qty) {
      standing -= qty;
      return;
    }
    standing = 0;
    bits_ &= ~bit(key);
    if (below_top() > kDrift && far_.levels() != 0) [[unlikely]]
      move_down();
  }

  // True when a level stands that is better than the price: nothing that happens there changes the inside.
  [[nodiscard, gnu::always_inline]] bool behind(std::uint32_t price) const noexcept {
    return bits_ != 0 && key_of(detail::tick_of(price)) < top_ - below_top();
  }

  [[nodiscard, gnu::always_inline]] Level best() const {
    Level level;
    if (bits_ != 0) level = level_at(top_ - below_top());
    if (between_ == nullptr) [[likely]]
      return level;
    const Level odd = between_->best();
    return odd.qty != 0 && (level.qty == 0 || (odd.price ^ flip_) > (level.price ^ flip_)) ? odd : level;
  }

  [[nodiscard]] std::size_t levels() const {
    return static_cast<std::size_t>(std::popcount(bits_)) + far_.levels() +
           (between_ == nullptr ? 0 : between_->levels());
  }

  template <class F>
  void visit(F&& f) const {
    if (between_ == nullptr) {
      visit_ticks(f);
      return;
    }
    // Levels between two ticks are merged in: they are few.
    std::vector<Level> odd;
    between_->visit([&](const Level& level) {
      odd.push_back(level);
      return true;
    });
    auto next = odd.begin();
    bool more = true;
    visit_ticks([&](const Level& level) {
      for (; more && next != odd.end() && (next->price ^ flip_) > (level.price ^ flip_); ++next) {
        more = f(*next);
      }
      return more = more && f(level);
    });
    for (; more && next != odd.end(); ++next) more = f(*next);
  }

  void clear() {
    qty_.fill(0);
    bits_ = 0;
    far_.clear();
    between_.reset();
  }
  void prefetch(Side which, std::uint32_t price) const noexcept {
    const std::uint32_t tick = detail::tick_of(price);
    prefetch_line(this);
    prefetch_line(&qty_[(which == Side::bid ? tick : detail::kLastTick - tick) % kTicks]);
  }
  [[nodiscard]] SideCounts counts() const noexcept { return counts_; }

 private:
  static constexpr std::uint32_t kTicks = 64;
  static constexpr std::uint32_t kAbove = 8;   // ticks that are kept free above a new best
  static constexpr std::uint32_t kDrift = 40;  // how far below the top the best may fall

  [[nodiscard]] Side side() const noexcept { return mirror_ == 0 ? Side::bid : Side::offer; }
  // Ticks as keys of which the greater is the better, on both sides.
  [[nodiscard]] std::uint32_t key_of(std::uint32_t tick) const noexcept {
    return mirror_ == 0 ? tick : mirror_ - tick;
  }
  [[nodiscard]] Level level_at(std::uint32_t key) const noexcept {
    return {detail::price_of(key_of(key)), qty_[key % kTicks]};
  }
  [[nodiscard]] static std::uint64_t bit(std::uint32_t key) noexcept {
    return std::uint64_t{1} << (key % kTicks);
  }
  // The bits with the top's as the highest.
  [[nodiscard]] std::uint64_t from_top() const noexcept {
    return std::rotr(bits_, static_cast<int>((top_ + 1) % kTicks));
  }
  // How many ticks the best is below the top; 64 when there is none.
  [[nodiscard]] std::uint32_t below_top() const noexcept {
    return static_cast<std::uint32_t>(std::countl_zero(from_top()));
  }

  void put(std::uint32_t key, std::uint64_t qty) noexcept {
    qty_[key % kTicks] += qty;
    bits_ |= qty != 0 ? bit(key) : 0;
  }

  template <class F>
  void visit_ticks(F&& f) const {
    for (std::uint64_t left = from_top(); left != 0;) {
      const auto below = static_cast<std::uint32_t>(std::countl_zero(left));
      if (!f(level_at(top_ - below))) return;
      left &= ~(std::uint64_t{1} << (63 - below));
    }
    far_.visit(
        [&](const Level& level) { return f(Level{detail::price_of(key_of(level.price)), level.qty}); });
  }

  [[gnu::noinline]] void add_elsewhere(std::uint32_t price, std::uint32_t key, std::uint64_t qty) {
    if (detail::price_of(key_of(key)) != price) {
      if (between_ == nullptr) between_ = std::make_unique<SortedSide>(side(), options_);
      between_->add(price, qty);
      ++counts_.off_tick;
    } else if (key < top_ && bits_ != 0) {
      far_.add(key, qty);
      ++counts_.far;
    } else {
      // Where nothing stands, the ladder is put around the newcomer.
      move_up(std::max(key + kAbove, kTicks - 1));
      put(key, qty);
    }
  }

  [[gnu::noinline]] void remove_elsewhere(std::uint32_t price, std::uint32_t key, std::uint64_t qty) {
    if (detail::price_of(key_of(key)) != price) {
      if (between_ != nullptr) between_->remove(price, qty);
    } else if (key < top_) {
      far_.remove(key, qty);
    }
  }

  // A better price than the ladder holds, or an empty ladder: what falls out at its end is far.
  [[gnu::noinline]] void move_up(std::uint32_t top) {
    ++counts_.flushes;
    for (std::uint32_t below = kTicks; below-- > 0 && bits_ != 0;) {
      const std::uint32_t key = top_ - below;
      if ((bits_ & bit(key)) == 0) continue;
      if (key + kTicks > top) break;
      far_.add(key, std::exchange(qty_[key % kTicks], 0));
      bits_ &= ~bit(key);
    }
    top_ = top;
  }

  // The best has fallen: take back what the ladder now reaches.
  [[gnu::noinline]] void move_down() {
    ++counts_.refills;
    const std::uint32_t best = bits_ != 0 ? top_ - below_top() : far_.best().price;
    top_ = std::max(best + kAbove, kTicks - 1);
    while (far_.levels() != 0) {
      const Level level = far_.best();
      if (top_ - level.price >= kTicks) break;
      put(level.price, level.qty);
      far_.remove(level.price, level.qty);
    }
  }

  std::uint64_t bits_ = 0;
  std::uint32_t top_ = kTicks - 1;  // the key of the best tick that the ladder holds
  std::uint32_t mirror_;
  std::uint32_t flip_;
  std::unique_ptr<SortedSide> between_;  // by price: what is between two ticks
  SideCounts counts_;
  alignas(64) std::array<std::uint64_t, kTicks> qty_{};
  SortedSide far_;  // by key: worse than all of the ladder
  SideOptions options_;
};

}  // namespace latlab::market
