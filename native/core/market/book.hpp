// Threads: one thread owns a book, or a set of books.
//
// Order books fed with events (market/event.hpp), whatever feed they are from.
//
//   Books<> books;      // all symbols of a feed, on ladders; or <MapSide>, <ArraySide> (market/sides.hpp)
//   const Effect effect = books.apply(event);  // O(1) amortised, no allocation once warm
//   if (effect.changed) use(books.inside(effect.locate));  // {bid_px, bid_qty, offer_px, offer_qty}
//   books.apply(events, [](const Event&, const Effect&) { ... });  // a batch: several times as fast
//
//   OrderBook<> book;                              // one symbol alone, with its own order-by-order state
//   if (book.apply(event)) use(book.inside());     // true: the inside changed
//
// Semantics: the inside is compared before and after the *whole* message, so that a replacement is one change
// or none; an execution reduces at the resting order's price; trades and crosses never touch a book; locked
// and crossed books are kept as they are. What can't be applied (an unknown order, an execution beyond the
// order's quantity, a reference that stands already) is counted in Anomalies, never silently absorbed.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <span>
#include <utility>
#include <vector>

#include "market/anomalies.hpp"
#include "market/event.hpp"
#include "market/ladder.hpp"
#include "market/orders.hpp"
#include "market/sides.hpp"

namespace latlab::market {

struct Inside {
  std::uint32_t bid_px = 0;  // 1/10,000; an empty side is 0 0
  std::uint32_t offer_px = 0;
  std::uint64_t bid_qty = 0;
  std::uint64_t offer_qty = 0;
  friend bool operator==(const Inside&, const Inside&) = default;
};

// What a message did.
struct Effect {
  std::uint32_t price = 0;      // of the order that it concerned (a replacement: the new price)
  std::uint32_t qty = 0;        // shares that left by an execution or reduction, or that entered
  std::uint32_t old_price = 0;  // of the order as it stood
  std::uint32_t old_qty = 0;    // the shares that left its price
  std::uint16_t locate = 0;
  Side side = Side::bid;
  bool applied = false;  // a book was touched
  bool changed = false;  // and its inside is another than before
  bool left = false;     // an order of some shares is no longer at the old price
  bool entered = false;  // an order of some shares is now at the price
};

template <class S>
class SymbolBook {
 public:
  explicit SymbolBook(const SideOptions& options = {})
      : sides_{S(Side::bid, options), S(Side::offer, options)} {}

  [[nodiscard]] S& side(Side which) noexcept { return sides_[static_cast<std::size_t>(which)]; }
  [[nodiscard]] const S& side(Side which) const noexcept { return sides_[static_cast<std::size_t>(which)]; }
  [[nodiscard]] Inside inside() const {
    const Level bid = sides_[0].best();
    const Level offer = sides_[1].best();
    return {.bid_px = bid.price, .offer_px = offer.price, .bid_qty = bid.qty, .offer_qty = offer.qty};
  }
  void clear() {
    for (auto& side : sides_) side.clear();
  }

 private:
  std::array<S, 2> sides_;
};

namespace detail {

// What a message does to the prices of a side, once the order that it concerns is known: shares that leave a
// price, shares that enter one, or both (a replacement, which is one change of the inside or none).
struct Move {
  std::uint32_t entering = 0;
  Effect effect;
};
static_assert(sizeof(Move) == 28);

// The first half of a message: what becomes of its order. Orders never depend on prices' levels, so that a
// batch's orders may all be seen to before the first level is touched.
template <class Table>
[[gnu::always_inline]] inline Move settle_order(const Event& event, Table& orders, Anomalies& anomalies) {
  Move move;
  if (event.kind == Kind::none || event.kind >= Kind::trade) return move;
  Effect& effect = move.effect;
  if (event.kind == Kind::add) {
    const Order order{
        .price = event.price, .qty = event.qty, .locate = event.locate, .side = event.side, .used = true};
    if (orders.insert(event.ref, order) == nullptr) [[unlikely]] {
      ++anomalies.duplicate_order;
      return move;
    }
    anomalies.zero_quantity += order.qty == 0;
    effect = {
        .price = order.price, .qty = order.qty, .locate = order.locate, .side = order.side, .applied = true};
    move.entering = order.qty;
    effect.entered = order.qty != 0;
    return move;
  }

  Order* const standing = orders.find(event.ref);
  if (standing == nullptr) [[unlikely]] {
    ++anomalies.unknown_order;
    return move;
  }
  const Order order = *standing;
  anomalies.other_symbol += event.locate != 0 && order.locate != event.locate;
  effect = {.price = order.price,
            .old_price = order.price,
            .locate = order.locate,
            .side = order.side,
            .applied = true,
            .left = order.qty != 0};

  if (event.kind <= Kind::remove && event.kind != Kind::execute_left) {
    const bool removed = event.kind == Kind::remove;
    anomalies.beyond_quantity += !removed & (event.qty > order.qty);
    const std::uint32_t wanted = removed ? UINT32_MAX : event.qty;
    effect.old_qty = effect.qty = std::min(wanted, order.qty);
    if (wanted >= order.qty) {
      orders.erase(event.ref, standing);
    } else {
      standing->qty -= event.qty;
      effect.left = false;
    }
    return move;
  }

  // The order leaves, and one enters in its stead.
  Order entering = order;
  std::uint64_t ref = event.ref;
  if (event.kind == Kind::execute_left) {
    anomalies.beyond_quantity += event.qty > order.qty;
    entering.qty = static_cast<std::uint32_t>(event.new_ref);
    effect.qty = event.qty;
  } else {
    entering.price = effect.price = event.price;
    entering.qty = effect.qty = event.qty;
    if (event.kind == Kind::replace) ref = event.new_ref;
  }
  effect.old_qty = order.qty;
  orders.erase(event.ref, standing);
  // Executed to nothing, or by a PITCH modification: it is gone.
  if (event.kind != Kind::replace && entering.qty == 0) return move;
  if (orders.insert(ref, entering) == nullptr) {
    ++anomalies.duplicate_order;
    return move;
  }
  anomalies.zero_quantity += entering.qty == 0;
  move.entering = entering.qty;
  effect.entered = entering.qty != 0;
  return move;
}

// At which price shares leave, or enter where none leave.
[[nodiscard, gnu::always_inline]] inline std::uint32_t first_price(const Move& move) noexcept {
  return move.effect.old_qty == 0 ? move.effect.price : move.effect.old_price;
}
[[nodiscard, gnu::always_inline]] inline bool twofold(const Move& move) noexcept {
  return move.effect.old_qty != 0 && move.entering != 0;
}

// What a side may know of a price before it is looked at (see LadderSide).
template <class S>
[[nodiscard, gnu::always_inline]] inline std::uint32_t spot_of(Side which, std::uint32_t price) noexcept {
  if constexpr (requires { S::spot(which, price); }) {
    return S::spot(which, price);
  } else {
    return price;
  }
}

// The second half: the levels. True when the side's best price, or its quantity, is another than before.
// spot: of the first price.
template <class S>
[[gnu::always_inline]] inline bool settle_levels(const Move& move, S& side, std::uint32_t spot) {
  const Effect& effect = move.effect;
  const std::uint32_t leaving = effect.old_qty;
  if (!twofold(move)) [[likely]] {
    if (leaving == move.entering) return false;  // no shares at all
    const std::int64_t shares = std::int64_t{move.entering} - leaving;
    if constexpr (requires { S::spot(effect.side, 0U); }) {
      return side.change(spot, first_price(move), shares);
    } else {
      return side.change(first_price(move), shares);
    }
  }
  // What happens behind the inside, as most does, can't change it: nothing is compared then.
  const bool behind = side.behind(effect.old_price) && side.behind(effect.price);
  const Level before = behind ? Level{} : side.best();
  side.remove(effect.old_price, leaving);
  side.add(effect.price, move.entering);
  return !behind && before != side.best();
}
template <class S>
[[gnu::always_inline]] inline bool settle_levels(const Move& move, S& side) {
  return settle_levels(move, side, spot_of<S>(move.effect.side, first_price(move)));
}

}  // namespace detail

template <class S = LadderSide>
class OrderBook {
 public:
  explicit OrderBook(const SideOptions& options = {}) : book_(options), orders_(64) {}

  bool apply(const Event& event) {
    if (event.kind >= Kind::clear) {
      const bool changed = inside() != Inside{};
      orders_.clear();
      book_.clear();
      return changed;
    }
    const detail::Move move = detail::settle_order(event, orders_, anomalies_);
    return move.effect.applied && detail::settle_levels(move, book_.side(move.effect.side));
  }
  [[nodiscard]] Inside inside() const { return book_.inside(); }
  [[nodiscard]] const S& side(Side which) const noexcept { return book_.side(which); }
  [[nodiscard]] const Anomalies& anomalies() const noexcept { return anomalies_; }
  [[nodiscard]] std::size_t orders() const noexcept { return orders_.size(); }

 private:
  SymbolBook<S> book_;
  OrderMap orders_;
  Anomalies anomalies_;
};

template <class S = LadderSide>
class Books {
 public:
  // shares: into how many such sets a feed's symbols go.
  explicit Books(std::size_t capacity = kDefaultCapacity, std::size_t shares = 1)
      : memory_(std::make_unique<std::pmr::unsynchronized_pool_resource>()),
        options_{.capacity = capacity, .memory = memory_.get()},
        orders_(shares) {}

  Effect apply(const Event& event) {
    if (event.kind == Kind::clear) return clear(event.locate);
    if (event.kind == Kind::clear_all || event.kind == Kind::new_day) return clear_all();
    return levels(detail::settle_order(event, orders_, anomalies_));
  }

  // Apply some events, on(event, effect) after each. Every look-up of a whole market's books misses the
  // caches, so that their memory is asked for ahead: the orders of the next chunk of events while those of
  // this one are seen to, and their levels as soon as the order says which.
  template <class F>
  void apply(std::span<const Event> events, F&& on) {
    apply(events, on, [](std::size_t) {});
  }

  // chunk(n): the orders of the next n events have been seen to, and their levels come now.
  template <class F, class C>
  void apply(std::span<const Event> events, F&& on, C&& chunk) {
    for (const Event& event : events.first(std::min(kChunk, events.size()))) orders_.prefetch(event.ref);
    std::array<detail::Move, kChunk> moves;
    std::array<Place, kChunk> places;
    while (!events.empty()) {
      const auto some = events.first(std::min(kChunk, events.size()));
      const std::size_t ahead = std::min(2 * kChunk, events.size());
      std::size_t count = 0;
      for (; count < some.size() && some[count].kind < Kind::clear; ++count) {
        if (count + kChunk < ahead) orders_.prefetch(events[count + kChunk].ref);
        moves[count] = detail::settle_order(some[count], orders_, anomalies_);
        places[count] = fetch_levels(moves[count]);
      }
      chunk(count);
      for (std::size_t i = 0; i < count; ++i) {
        if (i + kNear < count) fetch_rest(places[i + kNear]);
        Effect& effect = moves[i].effect;
        if (effect.applied) effect.changed = detail::settle_levels(moves[i], *places[i].side, places[i].spot);
        on(some[i], std::as_const(effect));
      }
      if (count < some.size()) {  // it empties books: rare
        on(some[count], apply(some[count]));
        ++count;
      }
      events = events.subspan(count);
    }
  }

  // Make ready for a feed of these references and locates, before its first message is late for it.
  void expect(std::uint64_t first_ref, std::uint64_t last_ref, std::uint16_t last_locate) {
    for (std::size_t chunk = 0; chunk <= last_locate / kChunk; ++chunk) {
      if (chunks_[chunk].empty()) make(chunk);
    }
    orders_.expect(first_ref, last_ref);
  }

  [[nodiscard]] Inside inside(std::uint16_t locate) const {
    const auto* book = find(locate);
    return book == nullptr ? Inside{} : book->inside();
  }
  [[nodiscard]] const SymbolBook<S>* find(std::uint16_t locate) const noexcept {
    const auto& chunk = chunks_[locate / kBooks];
    return chunk.empty() ? nullptr : &chunk[locate % kBooks];
  }
  [[nodiscard]] std::size_t symbols() const noexcept { return symbols_; }
  [[nodiscard]] std::size_t orders() const noexcept { return orders_.size(); }
  [[nodiscard]] const OrderTable& table() const noexcept { return orders_; }
  [[nodiscard]] const Anomalies& anomalies() const noexcept { return anomalies_; }

 private:
  static constexpr std::size_t kBooks = 1024;  // that are made at once: locates are given in sequence
  // Events. What a chunk asks for must stay in the first cache beside the orders of the next one: of 128 a
  // message took 10 % longer than of 64, of 32 some 5 % less.
  static constexpr std::size_t kChunk = 32;
  static constexpr std::size_t kNear = 12;  // events ahead of which a side itself has come

  [[gnu::always_inline]] Effect levels(const detail::Move& move) {
    Effect effect = move.effect;
    if (effect.applied) effect.changed = detail::settle_levels(move, at(effect.locate).side(effect.side));
    return effect;
  }
  struct Place {  // where a message's shares leave or enter
    S* side;
    std::uint32_t spot;
  };

  [[gnu::always_inline]] Place fetch_levels(const detail::Move& move) {
    const Side which = move.effect.side;
    S& side = at(move.effect.locate).side(which);
    const std::uint32_t spot = detail::spot_of<S>(which, detail::first_price(move));
    if constexpr (requires { side.prefetch(spot); }) {
      side.prefetch(spot);
    } else {
      side.prefetch(which, spot);
    }
    if (detail::twofold(move)) side.prefetch(which, move.effect.price);
    return {&side, spot};
  }
  [[gnu::always_inline]] static void fetch_rest(const Place& place) noexcept {
    if constexpr (requires { place.side->prefetch_rest(place.spot); }) place.side->prefetch_rest(place.spot);
  }

  SymbolBook<S>& at(std::uint16_t locate) {
    auto& chunk = chunks_[locate / kBooks];
    if (chunk.empty()) [[unlikely]]
      make(locate / kBooks);
    return chunk[locate % kBooks];
  }
  [[gnu::noinline]] void make(std::size_t number) {
    auto& chunk = chunks_[number];
    chunk.reserve(kBooks);
    while (chunk.size() < kBooks) chunk.emplace_back(options_);
    symbols_ = std::max(symbols_, (number + 1) * kBooks);
  }

  Effect clear(std::uint16_t locate) {
    const bool changed = inside(locate) != Inside{};
    at(locate).clear();
    std::vector<std::uint64_t> gone;
    orders_.for_each([&](std::uint64_t ref, const Order& order) {
      if (order.locate == locate) gone.push_back(ref);
    });
    for (const auto ref : gone) orders_.erase(ref, orders_.find(ref));
    return {.locate = locate, .applied = true, .changed = changed};
  }

  Effect clear_all() {
    if (orders_.size() == 0) return {.applied = true};  // no order, no level
    orders_.clear();
    bool changed = false;
    for (auto& chunk : chunks_) {
      for (auto& book : chunk) {
        changed |= book.inside() != Inside{};
        book.clear();
      }
    }
    return {.applied = true, .changed = changed};
  }

  std::unique_ptr<std::pmr::unsynchronized_pool_resource> memory_;  // outlives the books that stand in it
  SideOptions options_;
  std::array<std::vector<SymbolBook<S>, detail::HugePages<SymbolBook<S>>>, 65'536 / kBooks> chunks_;
  std::size_t symbols_ = 0;
  OrderTable orders_;
  Anomalies anomalies_;
};

}  // namespace latlab::market
