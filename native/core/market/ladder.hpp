// Threads: one thread owns a side.
//
// A book side (see market/sides.hpp for the interface) made for a whole market: 256 ticks around the inside
// as quantities in the object itself, one bit for each that is occupied, and sorted vectors for what is
// further away and for what is between two ticks. 99 % of a day's events are in the ladder (published depths:
// p90 16 ticks from the inside, p99 203). The place of a tick in the ladder is its number modulo 256,
// whatever the inside, so that its memory can be asked for before the side itself has been read.
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
      : mirror_(side == Side::bid ? 0 : detail::kLastTick), rest_(std::make_unique<Rest>(side, options)) {}

  void add(std::uint32_t price, std::uint64_t qty) {
    const std::uint32_t tick = detail::tick_of(price);
    const std::uint32_t key = key_of(tick);
    if (detail::price_of(tick) != price || top_ - key >= kTicks || best_ < 0) [[unlikely]] {
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
    word(key) &= ~bit(key);
    if (static_cast<std::int32_t>(key) == best_) fall();
  }

  // Where a price stands in any side's ladder, which needs no look at one: its key, or one that no ladder
  // reaches where it is between two ticks.
  [[nodiscard, gnu::always_inline]] static std::uint32_t spot(Side which, std::uint32_t price) noexcept {
    const std::uint32_t tick = detail::tick_of(price);
    if (detail::price_of(tick) != price) [[unlikely]]
      return kNowhere;
    return which == Side::bid ? tick : detail::kLastTick - tick;
  }
  bool change(std::uint32_t price, std::int64_t shares) { return change(spot(side(), price), price, shares); }

  // Without a branch for what can't be foretold: whether shares join or leave, on which level, and, but for
  // the best, whether it is empty afterwards.
  [[gnu::always_inline]] bool change(std::uint32_t key, std::uint32_t price, std::int64_t shares) {
    if (top_ - key >= kTicks || between_ || best_ < 0) [[unlikely]]
      return change_elsewhere(price, shares);
    std::uint64_t& standing = qty_[key % kTicks];
    const bool behind = static_cast<std::int32_t>(key) < best_;
    const std::uint64_t left = standing + static_cast<std::uint64_t>(shares);
    standing = shares < 0 && left > standing ? 0 : left;
    word(key) = (word(key) & ~bit(key)) | (std::uint64_t{standing != 0} << (key % 64));
    best_ = std::max(best_, static_cast<std::int32_t>(key));
    if (standing == 0 && !behind) fall();
    return !behind;
  }

  // True when a level stands that is better than the price: nothing that happens there changes the inside.
  [[nodiscard, gnu::always_inline]] bool behind(std::uint32_t price) const noexcept {
    return static_cast<std::int32_t>(key_of(detail::tick_of(price))) < best_;
  }

  [[nodiscard, gnu::always_inline]] Level best() const {
    Level level;
    if (best_ >= 0) level = level_at(static_cast<std::uint32_t>(best_));
    if (!between_) [[likely]]
      return level;
    const Level odd = rest_->between.best();
    return odd.qty != 0 && (level.qty == 0 || better(odd, level)) ? odd : level;
  }

  [[nodiscard]] std::size_t levels() const {
    std::size_t count = rest_->far.levels() + rest_->between.levels();
    for (const auto word : bits_) count += static_cast<std::size_t>(std::popcount(word));
    return count;
  }

  template <class F>
  void visit(F&& f) const {
    if (!between_) {
      visit_ticks(f);
      return;
    }
    // Levels between two ticks are merged in: they are few.
    std::vector<Level> odd;
    rest_->between.visit([&](const Level& level) {
      odd.push_back(level);
      return true;
    });
    auto next = odd.begin();
    bool more = true;
    visit_ticks([&](const Level& level) {
      for (; more && next != odd.end() && better(*next, level); ++next) {
        more = f(*next);
      }
      return more = more && f(level);
    });
    for (; more && next != odd.end(); ++next) more = f(*next);
  }

  void clear() {
    qty_.fill(0);
    bits_.fill(0);
    best_ = -1;
    rest_->far.clear();
    rest_->between.clear();
    between_ = false;
  }
  void prefetch(Side which, std::uint32_t price) const noexcept { prefetch(spot(which, price)); }
  [[gnu::always_inline]] void prefetch(std::uint32_t spot) const noexcept {
    prefetch_line(this);
    prefetch_line(&qty_[spot % kTicks]);
  }
  // Later, when that has come: a level that is not in the ladder.
  [[gnu::always_inline]] void prefetch_rest(std::uint32_t spot) const noexcept {
    if (top_ - spot >= kTicks) [[unlikely]]
      prefetch_line(rest_.get());
  }
  [[nodiscard]] SideCounts counts() const noexcept { return rest_->counts; }

 private:
  static constexpr std::uint32_t kTicks = 256;
  static constexpr std::uint32_t kWords = kTicks / 64;
  static constexpr std::uint32_t kAbove = 32;            // ticks that are kept free above a new best
  static constexpr std::uint32_t kDrift = 128;           // how far below the top the best may fall
  static constexpr std::uint32_t kNowhere = UINT32_MAX;  // top_ is at least kTicks - 1: it is out of reach

  [[nodiscard]] Side side() const noexcept { return mirror_ == 0 ? Side::bid : Side::offer; }
  struct Rest {  // what few messages touch
    Rest(Side side, const SideOptions& options) : far(Side::bid, options), between(side, options) {}
    SortedSide far;      // by key: worse than all of the ladder
    SortedSide between;  // by price: what is between two ticks
    SideCounts counts;
  };

  [[nodiscard]] bool better(const Level& a, const Level& b) const noexcept {
    return mirror_ == 0 ? a.price > b.price : a.price < b.price;
  }
  // Ticks as keys of which the greater is the better, on both sides.
  [[nodiscard]] std::uint32_t key_of(std::uint32_t tick) const noexcept {
    return mirror_ == 0 ? tick : mirror_ - tick;
  }
  [[nodiscard]] Level level_at(std::uint32_t key) const noexcept {
    return {detail::price_of(key_of(key)), qty_[key % kTicks]};
  }
  [[nodiscard]] static std::uint64_t bit(std::uint32_t key) noexcept {
    return std::uint64_t{1} << (key % 64);
  }
  [[nodiscard]] std::uint64_t& word(std::uint32_t key) noexcept { return bits_[key % kTicks / 64]; }
  // The next occupied key that is worse, or -1.
  [[nodiscard]] std::int32_t below(std::int32_t key) const noexcept {
    const auto place = static_cast<std::uint32_t>(key) % kTicks;
    const std::uint64_t worse = (std::uint64_t{1} << (place % 64)) - 1;  // in the key's own word
    std::uint32_t at = place / 64;
    std::uint64_t left = bits_[at] & worse;
    for (std::uint32_t i = 1; left == 0 && i <= kWords; ++i) {
      at = (at - 1) % kWords;
      left = bits_[at];
      if (i == kWords) left &= ~(worse | bit(place));  // once round: the rest of its word
    }
    if (left == 0) return -1;
    const auto found = at * 64 + 63 - static_cast<std::uint32_t>(std::countl_zero(left));
    const std::int64_t next = std::int64_t{key} - (place - found) % kTicks;
    return next + kTicks > top_ ? static_cast<std::int32_t>(next)
                                : -1;  // further round than the ladder's end are the better ones
  }

  void put(std::uint32_t key, std::uint64_t qty) noexcept {
    if (qty == 0) return;
    qty_[key % kTicks] += qty;
    word(key) |= bit(key);
    best_ = std::max(best_, static_cast<std::int32_t>(key));
  }

  template <class F>
  void visit_ticks(F&& f) const {
    for (std::int32_t key = best_; key >= 0; key = below(key)) {
      if (!f(level_at(static_cast<std::uint32_t>(key)))) return;
    }
    rest_->far.visit(
        [&](const Level& level) { return f(Level{detail::price_of(key_of(level.price)), level.qty}); });
  }

  [[gnu::noinline]] bool change_elsewhere(std::uint32_t price, std::int64_t shares) {
    return change_by_parts(*this, price, shares);
  }

  [[gnu::noinline]] void add_elsewhere(std::uint32_t price, std::uint32_t key, std::uint64_t qty) {
    if (detail::price_of(key_of(key)) != price) {
      between_ = true;
      rest_->between.add(price, qty);
      ++rest_->counts.off_tick;
    } else if (key < top_ && best_ >= 0) {
      rest_->far.add(key, qty);
      ++rest_->counts.far;
    } else {
      // Where nothing stands, the ladder is put around the newcomer.
      move_up(std::max(key + kAbove, kTicks - 1));
      put(key, qty);
    }
  }

  [[gnu::noinline]] void remove_elsewhere(std::uint32_t price, std::uint32_t key, std::uint64_t qty) {
    if (detail::price_of(key_of(key)) != price) {
      rest_->between.remove(price, qty);
    } else if (key < top_) {
      rest_->far.remove(key, qty);
    }
  }

  // A better price than the ladder holds, or an empty ladder: what falls out at its end is far.
  [[gnu::noinline]] void move_up(std::uint32_t top) {
    if (best_ >= 0) {
      ++rest_->counts.flushes;
      for (std::uint32_t key = top_ - kTicks + 1;
           key + kTicks <= top && static_cast<std::int32_t>(key) <= best_; ++key) {
        if ((word(key) & bit(key)) == 0) continue;
        rest_->far.add(key, std::exchange(qty_[key % kTicks], 0));
        word(key) &= ~bit(key);
      }
      if (static_cast<std::uint32_t>(best_) + kTicks <= top) best_ = -1;
    }
    top_ = top;
  }

  // The best level is gone.
  [[gnu::noinline]] void fall() {
    best_ = below(best_);
    if ((best_ < 0 || top_ - static_cast<std::uint32_t>(best_) > kDrift) && rest_->far.levels() != 0)
      move_down();
  }

  // The best has fallen: take back what the ladder now reaches.
  void move_down() {
    ++rest_->counts.refills;
    const auto best = best_ >= 0 ? static_cast<std::uint32_t>(best_) : rest_->far.best().price;
    top_ = std::max(best + kAbove, kTicks - 1);
    while (rest_->far.levels() != 0) {
      const Level level = rest_->far.best();
      if (top_ - level.price >= kTicks) break;
      put(level.price, level.qty);
      rest_->far.remove(level.price, level.qty);
    }
  }

  // One line that every message reads, then the quantities. 33 lines in all: with an even number of them, the
  // first lines of a market's sides would share a fraction of the caches' sets.
  std::int32_t best_ = -1;          // the key of the best level, or -1
  std::uint32_t top_ = kTicks - 1;  // the key of the best tick that the ladder holds
  std::uint32_t mirror_;
  bool between_ = false;  // a level between two ticks stood since the side was cleared
  std::array<std::uint64_t, kWords> bits_{};
  std::unique_ptr<Rest> rest_;
  alignas(64) std::array<std::uint64_t, kTicks> qty_{};
};
static_assert(sizeof(LadderSide) == std::size_t{33} * 64);

}  // namespace latlab::market
