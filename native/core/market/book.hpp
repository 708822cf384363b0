// Threads: one thread owns a book, or a set of books.
//
// Order books fed with events (market/event.hpp), whatever feed they are from.
//
//   Books<SortedSide> books;                       // all symbols of a feed; or MapSide, ArraySide
//   (market/sides.hpp) const Effect effect = books.apply(event);      // O(1) amortised, no allocation once
//   warm if (effect.changed) use(books.inside(effect.locate));     // {bid_px, bid_qty, offer_px, offer_qty}
//
//   OrderBook<> book;                              // one symbol alone, with its own order-by-order state
//   if (book.apply(event)) use(book.inside());     // true: the inside changed
//
// Semantics: the inside is compared before and after the *whole* message, so that a replacement is one change
// or none; an execution reduces at the resting order's price; trades and crosses never touch a book; locked
// and crossed books are kept as they are. What can't be applied (an unknown order, an execution beyond the
// order's quantity, a reference that stands already) is counted in Anomalies, never silently absorbed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <vector>

#include "market/event.hpp"
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
  [[nodiscard]] const Inside& inside() const noexcept { return inside_; }

  // Take the side's best into the inside; true when it is another than before.
  bool settle(Side which) {
    const Level best = side(which).best();
    auto& price = which == Side::bid ? inside_.bid_px : inside_.offer_px;
    auto& qty = which == Side::bid ? inside_.bid_qty : inside_.offer_qty;
    const bool changed = price != best.price || qty != best.qty;
    price = best.price;
    qty = best.qty;
    return changed;
  }

 private:
  std::array<S, 2> sides_;
  Inside inside_;
};

namespace detail {

// book_at(locate) -> SymbolBook<S>&
template <class BookAt>
Effect apply(const Event& event, OrderTable& orders, Anomalies& anomalies, BookAt&& book_at) {
  const auto enter = [&](const Order& order) {
    if (orders.insert(order) == nullptr) {
      ++anomalies.duplicate_order;
      return false;
    }
    if (order.qty == 0) {
      ++anomalies.zero_quantity;
    } else {
      book_at(order.locate).side(order.side).add(order.price, order.qty);
    }
    return true;
  };
  const auto effect_of = [&](const Order& order, std::uint32_t qty) {
    Effect effect{
        .price = order.price, .qty = qty, .locate = order.locate, .side = order.side, .applied = true};
    effect.changed = book_at(order.locate).settle(order.side);
    return effect;
  };

  if (event.kind == Kind::none || event.kind >= Kind::trade) return {};
  if (event.kind == Kind::add) {
    const Order order{
        .ref = event.ref, .price = event.price, .qty = event.qty, .locate = event.locate, .side = event.side};
    return enter(order) ? effect_of(order, event.qty) : Effect{};
  }

  Order* const standing = orders.find(event.ref);
  if (standing == nullptr) {
    ++anomalies.unknown_order;
    return {};
  }
  const Order order = *standing;
  if (event.locate != 0 && order.locate != event.locate) ++anomalies.other_symbol;
  auto& side = book_at(order.locate).side(order.side);
  switch (event.kind) {
    case Kind::execute:
    case Kind::execute_at:
    case Kind::reduce: {
      if (event.qty > order.qty) ++anomalies.beyond_quantity;
      const std::uint32_t gone = event.qty < order.qty ? event.qty : order.qty;
      if (gone != 0) side.remove(order.price, gone);
      if (gone == order.qty) {
        orders.erase(standing);
      } else {
        standing->qty -= gone;
      }
      return effect_of(order, gone);
    }
    case Kind::execute_left: {
      if (event.qty > order.qty) ++anomalies.beyond_quantity;
      const auto left = static_cast<std::uint32_t>(event.new_ref);
      if (order.qty != 0) side.remove(order.price, order.qty);
      if (left != 0) side.add(order.price, left);
      standing->qty = left;
      if (left == 0) orders.erase(standing);
      return effect_of(order, event.qty);
    }
    case Kind::remove:
      if (order.qty != 0) side.remove(order.price, order.qty);
      orders.erase(standing);
      return effect_of(order, order.qty);
    case Kind::modify:
    case Kind::replace: {
      if (order.qty != 0) side.remove(order.price, order.qty);
      orders.erase(standing);
      Order entering = order;
      entering.price = event.price;
      entering.qty = event.qty;
      if (event.kind == Kind::replace) entering.ref = event.new_ref;
      // A PITCH modification to nothing takes the order out.
      if (event.kind == Kind::replace || event.qty != 0) enter(entering);
      return effect_of(entering, event.qty);
    }
    default:
      return {};
  }
}

}  // namespace detail

template <class S = SortedSide>
class OrderBook {
 public:
  explicit OrderBook(const SideOptions& options = {}) : book_(options), orders_(64) {}

  bool apply(const Event& event) {
    if (event.kind >= Kind::clear) {
      orders_.clear();
      book_.side(Side::bid).clear();
      book_.side(Side::offer).clear();
      const bool bid = book_.settle(Side::bid);
      return book_.settle(Side::offer) || bid;
    }
    return detail::apply(event, orders_, anomalies_, [this](std::uint16_t) -> auto& { return book_; })
        .changed;
  }
  [[nodiscard]] const Inside& inside() const noexcept { return book_.inside(); }
  [[nodiscard]] const S& side(Side which) const noexcept { return book_.side(which); }
  [[nodiscard]] const Anomalies& anomalies() const noexcept { return anomalies_; }
  [[nodiscard]] std::size_t orders() const noexcept { return orders_.size(); }

 private:
  SymbolBook<S> book_;
  OrderTable orders_;
  Anomalies anomalies_;
};

template <class S = SortedSide>
class Books {
 public:
  explicit Books(std::size_t capacity = kDefaultCapacity)
      : memory_(std::make_unique<std::pmr::unsynchronized_pool_resource>()),
        options_{.capacity = capacity, .memory = memory_.get()} {}

  Effect apply(const Event& event) {
    if (event.kind == Kind::clear) return clear(event.locate);
    if (event.kind == Kind::clear_all) return clear_all();
    return detail::apply(event, orders_, anomalies_,
                         [this](std::uint16_t locate) -> auto& { return at(locate); });
  }

  // Ask for the memory that apply() will need, some messages ahead of it.
  void prefetch(const Event& event) const noexcept {
    if (event.kind == Kind::none || event.kind >= Kind::trade) return;
    orders_.prefetch(event.ref);
    if (event.kind == Kind::replace) orders_.prefetch(event.new_ref);
    if (event.locate < books_.size()) __builtin_prefetch(&books_[event.locate], 1);
  }
  // The same for the levels, when the book itself has arrived.
  void prefetch_levels(const Event& event) const noexcept {
    if (event.locate >= books_.size()) return;
    books_[event.locate].side(Side::bid).prefetch();
    books_[event.locate].side(Side::offer).prefetch();
  }

  [[nodiscard]] const Inside& inside(std::uint16_t locate) const noexcept {
    static constexpr Inside kEmpty{};
    return locate < books_.size() ? books_[locate].inside() : kEmpty;
  }
  [[nodiscard]] const SymbolBook<S>* find(std::uint16_t locate) const noexcept {
    return locate < books_.size() ? &books_[locate] : nullptr;
  }
  [[nodiscard]] std::size_t symbols() const noexcept { return books_.size(); }
  [[nodiscard]] std::size_t orders() const noexcept { return orders_.size(); }
  [[nodiscard]] const OrderTable& table() const noexcept { return orders_; }
  [[nodiscard]] const Anomalies& anomalies() const noexcept { return anomalies_; }

 private:
  SymbolBook<S>& at(std::uint16_t locate) {
    // Grown by doubling up to the locate: at most 65,536 small books, even from a hostile feed.
    if (locate >= books_.size()) {
      std::size_t size = 64;
      while (size <= locate) size *= 2;
      books_.reserve(size);
      while (books_.size() < size) books_.emplace_back(options_);
    }
    return books_[locate];
  }

  Effect clear(std::uint16_t locate) {
    auto& book = at(locate);
    book.side(Side::bid).clear();
    book.side(Side::offer).clear();
    std::vector<std::uint64_t> gone;
    orders_.for_each([&](const Order& order) {
      if (order.locate == locate) gone.push_back(order.ref);
    });
    for (const auto ref : gone) orders_.erase(orders_.find(ref));
    const bool bid = book.settle(Side::bid);
    return {.locate = locate, .applied = true, .changed = book.settle(Side::offer) || bid};
  }

  Effect clear_all() {
    orders_.clear();
    bool changed = false;
    for (auto& book : books_) {
      for (const Side which : {Side::bid, Side::offer}) {
        book.side(which).clear();
        changed |= book.settle(which);
      }
    }
    return {.applied = true, .changed = changed};
  }

  std::unique_ptr<std::pmr::unsynchronized_pool_resource> memory_;  // outlives the books that stand in it
  SideOptions options_;
  std::vector<SymbolBook<S>> books_;
  OrderTable orders_;
  Anomalies anomalies_;
};

}  // namespace latlab::market
