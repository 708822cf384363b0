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
#include <vector>

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

struct Anomalies {
  std::uint64_t unknown_order = 0;    // E, C, X, D, U of a reference that does not stand: ignored
  std::uint64_t beyond_quantity = 0;  // E, C, X of more than stands: the order leaves
  std::uint64_t duplicate_order = 0;  // a reference that stands already: the newcomer is ignored
  std::uint64_t zero_quantity = 0;    // an order of no shares: it stands, and makes no level
  std::uint64_t other_symbol = 0;     // the message names another symbol than its order: the order's holds

  [[nodiscard]] std::uint64_t total() const noexcept {
    return unknown_order + beyond_quantity + duplicate_order + zero_quantity + other_symbol;
  }
};

// What a message did.
struct Effect {
  std::uint32_t price = 0;  // of the order that it concerned (a replacement: the new price)
  std::uint32_t qty = 0;    // shares that left by an execution or reduction, or that entered
  std::uint16_t locate = 0;
  Side side = Side::bid;
  bool applied = false;  // a book was touched
  bool changed = false;  // and its inside is another than before
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

// book_at(locate) -> SymbolBook<S>&
template <class Table, class BookAt>
Effect apply(const Event& event, Table& orders, Anomalies& anomalies, BookAt&& book_at) {
  if (event.kind == Kind::none || event.kind >= Kind::trade) return {};
  // What happens behind the inside, as most does, can't change it: nothing is compared then.
  const auto compare = [](const auto& side, bool behind, auto&& change) {
    if (behind) {
      change();
      return false;
    }
    const Level before = side.best();
    change();
    return before != side.best();
  };

  if (event.kind == Kind::add) {
    const Order order{
        .price = event.price, .qty = event.qty, .locate = event.locate, .side = event.side, .used = true};
    if (orders.insert(event.ref, order) == nullptr) [[unlikely]] {
      ++anomalies.duplicate_order;
      return {};
    }
    Effect effect{
        .price = order.price, .qty = order.qty, .locate = order.locate, .side = order.side, .applied = true};
    if (order.qty == 0) [[unlikely]] {
      ++anomalies.zero_quantity;
      return effect;
    }
    auto& side = book_at(order.locate).side(order.side);
    effect.changed = compare(side, side.behind(order.price), [&] { side.add(order.price, order.qty); });
    return effect;
  }

  Order* const standing = orders.find(event.ref);
  if (standing == nullptr) [[unlikely]] {
    ++anomalies.unknown_order;
    return {};
  }
  const Order order = *standing;
  if (event.locate != 0 && order.locate != event.locate) ++anomalies.other_symbol;
  auto& side = book_at(order.locate).side(order.side);
  Effect effect{.price = order.price, .locate = order.locate, .side = order.side, .applied = true};

  if (event.kind <= Kind::remove && event.kind != Kind::execute_left) {
    const bool all = event.kind == Kind::remove || event.qty >= order.qty;
    if (event.kind != Kind::remove && event.qty > order.qty) ++anomalies.beyond_quantity;
    effect.qty = all ? order.qty : event.qty;
    if (all) {
      orders.erase(event.ref, standing);
    } else {
      standing->qty -= event.qty;
    }
    if (effect.qty == 0) return effect;
    effect.changed = compare(side, side.behind(order.price), [&] { side.remove(order.price, effect.qty); });
    return effect;
  }

  // The order leaves, and one enters in its stead, in one message: the inside is compared around both.
  Order entering = order;
  std::uint64_t ref = event.ref;
  if (event.kind == Kind::execute_left) {
    if (event.qty > order.qty) ++anomalies.beyond_quantity;
    entering.qty = static_cast<std::uint32_t>(event.new_ref);
    effect.qty = event.qty;
  } else {
    entering.price = effect.price = event.price;
    entering.qty = effect.qty = event.qty;
    if (event.kind == Kind::replace) ref = event.new_ref;
  }
  const bool behind = side.behind(order.price) && side.behind(entering.price);
  effect.changed = compare(side, behind, [&] {
    if (order.qty != 0) side.remove(order.price, order.qty);
    orders.erase(event.ref, standing);
    // Executed to nothing, or by a PITCH modification: it is gone.
    if (event.kind != Kind::replace && entering.qty == 0) return;
    if (orders.insert(ref, entering) == nullptr) {
      ++anomalies.duplicate_order;
    } else if (entering.qty == 0) {
      ++anomalies.zero_quantity;
    } else {
      side.add(entering.price, entering.qty);
    }
  });
  return effect;
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
    return detail::apply(event, orders_, anomalies_, [this](std::uint16_t) -> auto& { return book_; })
        .changed;
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
  explicit Books(std::size_t capacity = kDefaultCapacity)
      : memory_(std::make_unique<std::pmr::unsynchronized_pool_resource>()),
        options_{.capacity = capacity, .memory = memory_.get()} {}

  Effect apply(const Event& event) {
    if (event.kind == Kind::clear) return clear(event.locate);
    if (event.kind == Kind::clear_all || event.kind == Kind::new_day) return clear_all();
    return detail::apply(event, orders_, anomalies_,
                         [this](std::uint16_t locate) -> auto& { return at(locate); });
  }

  // Apply some events, on(event, effect) after each. Every look-up of a whole market's books misses the
  // caches, so that their memory is asked for ahead: orders first, and when they have arrived, their levels.
  template <class F>
  void apply(std::span<const Event> events, F&& on) {
    const std::size_t count = events.size();
    for (std::size_t i = 0; i < std::min(kOrdersAhead, count); ++i) fetch_order(events[i]);
    for (std::size_t i = 0; i < std::min(kLevelsAhead, count); ++i) fetch_level(events[i]);
    for (std::size_t i = 0; i < count; ++i) {
      if (i + kOrdersAhead < count) fetch_order(events[i + kOrdersAhead]);
      if (i + kLevelsAhead < count) fetch_level(events[i + kLevelsAhead]);
      on(events[i], apply(events[i]));
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
    const auto& chunk = chunks_[locate / kChunk];
    return chunk.empty() ? nullptr : &chunk[locate % kChunk];
  }
  [[nodiscard]] std::size_t symbols() const noexcept { return symbols_; }
  [[nodiscard]] std::size_t orders() const noexcept { return orders_.size(); }
  [[nodiscard]] const OrderTable& table() const noexcept { return orders_; }
  [[nodiscard]] const Anomalies& anomalies() const noexcept { return anomalies_; }

 private:
  static constexpr std::size_t kChunk = 1024;  // books that are made at once: locates are given in sequence
  static constexpr std::size_t kOrdersAhead = 64;
  static constexpr std::size_t kLevelsAhead = 32;

  void fetch_order(const Event& event) const noexcept { orders_.prefetch(event.ref); }
  void fetch_level(const Event& event) noexcept {
    if (event.kind == Kind::none || event.kind >= Kind::trade) return;
    std::uint16_t locate = event.locate;
    Side which = event.side;
    std::uint32_t price = event.price;
    if (event.kind != Kind::add) {
      const Order* order = orders_.find(event.ref);
      if (order == nullptr) return;  // perhaps it enters just before
      locate = order->locate;
      which = order->side;
      price = order->price;
    }
    const auto& chunk = chunks_[locate / kChunk];
    if (chunk.empty()) return;
    const auto& side = chunk[locate % kChunk].side(which);
    side.prefetch(which, price);
    if (event.kind == Kind::replace) side.prefetch(which, event.price);
  }

  SymbolBook<S>& at(std::uint16_t locate) {
    auto& chunk = chunks_[locate / kChunk];
    if (chunk.empty()) [[unlikely]]
      make(locate / kChunk);
    return chunk[locate % kChunk];
  }
  [[gnu::noinline]] void make(std::size_t number) {
    auto& chunk = chunks_[number];
    chunk.reserve(kChunk);
    while (chunk.size() < kChunk) chunk.emplace_back(options_);
    symbols_ = std::max(symbols_, (number + 1) * kChunk);
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
  std::array<std::vector<SymbolBook<S>, detail::HugePages<SymbolBook<S>>>, 65'536 / kChunk> chunks_;
  std::size_t symbols_ = 0;
  OrderTable orders_;
  Anomalies anomalies_;
};

}  // namespace latlab::market
