// The generator's orders: where they stand, which are taken, and what becomes of them.
#include <algorithm>
#include <array>

#include "market/generator.hpp"
#include "market/generator_message.hpp"

namespace latlab::market {
namespace {

constexpr std::uint32_t kStub = UINT32_MAX;          // a depth that stands for a stub order
constexpr std::uint32_t kStubOffer = 1'999'999'900;  // 199,999.99

// Depth in ticks from the inside of its side at which orders enter. Chosen so that the depth of all *events*
// (also those that leave: see take()) has the published quantiles: p50 1, p75 6, p90 14, p99 203, p99.9
// 2,135, p99.99 stub orders (JayBeams, itch5eventdepth over a NASDAQ day).
constexpr std::array<std::array<std::uint32_t, 2>, 12> kDepth{{{0, 0},
                                                               {19'500, 0},
                                                               {31'000, 1},
                                                               {39'500, 3},
                                                               {48'000, 6},
                                                               {58'300, 14},
                                                               {62'500, 50},
                                                               {64'800, 203},
                                                               {65'280, 1'200},
                                                               {65'450, 2'135},
                                                               {65'500, 6'000},
                                                               {65'536, 6'000}}};
constexpr std::uint32_t kStubShare = 65'512;  // from here on a stub

}  // namespace

// The price at a depth from the inside of a side; depth 0 may also improve the inside, never crosses it.
std::uint32_t Generator::place(Symbol& symbol, Side side, std::uint32_t depth) {
  if (depth == kStub) return side == Side::bid ? 1 : kStubOffer;
  const bool bid = side == Side::bid;
  const Level own = symbol.sides[static_cast<std::size_t>(side)].best();
  const Level other = symbol.sides[static_cast<std::size_t>(bid ? Side::offer : Side::bid)].best();
  const bool stub_alone = own.price == 1 || own.price == kStubOffer;
  std::uint32_t inside = 0;
  if (own.qty == 0 || stub_alone) {
    inside = bid ? symbol.fair_tick - 1 : symbol.fair_tick + 1;
    if (other.qty != 0 && other.price != 1 && other.price != kStubOffer) {
      const std::uint32_t opposite = detail::tick_of(other.price);
      inside = bid ? std::min(inside, opposite - 1) : std::max(inside, opposite + 1);
    }
  } else {
    inside = detail::tick_of(own.price);
    if (depth == 0 && other.qty != 0) {
      const std::uint32_t opposite = detail::tick_of(other.price);
      const std::uint32_t spread = bid ? opposite - inside : inside - opposite;
      // The wider the spread, the likelier and the larger an improvement.
      if (spread > 1 && spread < 1'000'000 && below(8) < (spread > 4 ? 5U : 2U)) {
        const std::uint32_t step = 1 + below(std::min(spread - 1, 4U));
        inside = bid ? inside + step : inside - step;
      }
    }
  }
  inside = std::max(inside, 2U);
  return detail::price_of(bid ? (inside > depth + 1 ? inside - depth : 2) : inside + depth);
}

void Generator::stand(Symbol& symbol, const Standing& order) {
  auto& side = symbol.sides[static_cast<std::size_t>(order.side)];
  side.add(order.price, order.qty);
  if (side.best().price == order.price) {
    symbol.newest_at_best[static_cast<std::size_t>(order.side)] = order.ref << 20 | symbol.orders.size();
  }
  symbol.orders.push_back(order);
}

void Generator::leave(Symbol& symbol, std::size_t index, std::uint32_t qty) {
  auto& order = symbol.orders[index];
  symbol.sides[static_cast<std::size_t>(order.side)].remove(order.price, qty);
  order.qty -= qty;
  if (order.qty != 0) return;
  order = symbol.orders.back();
  symbol.orders.pop_back();
}

std::uint32_t Generator::depth_of(const Symbol& symbol, const Standing& order) const {
  if (order.price == 1 || order.price == kStubOffer) return kStub;
  const std::uint32_t best = detail::tick_of(symbol.sides[static_cast<std::size_t>(order.side)].best().price);
  const std::uint32_t own = detail::tick_of(order.price);
  return best > own ? best - own : own - best;
}

// Of a few standing orders, the one nearest to the depth: what leaves is as deep as what enters.
std::size_t Generator::pick(Symbol& symbol, std::uint32_t depth) {
  std::size_t chosen = 0;
  std::uint32_t nearest = UINT32_MAX;
  for (int i = 0; i < 6; ++i) {
    const std::size_t index = below(static_cast<std::uint32_t>(symbol.orders.size()));
    const std::uint32_t its = depth_of(symbol, symbol.orders[index]);
    const std::uint32_t distance = its > depth ? its - depth : depth - its;
    if (i == 0 || distance < nearest) {
      chosen = index;
      nearest = distance;
    }
  }
  return chosen;
}

void Generator::add(std::uint32_t locate) {
  auto& symbol = symbols_[locate - 1];
  const Side side = below(2) ? Side::offer : Side::bid;
  const std::uint32_t share = below(65'536);
  const std::uint32_t depth = share >= kStubShare ? kStub : interpolate(kDepth, share);
  const std::uint32_t price = place(symbol, side, depth);
  const std::uint32_t qty = below(10) < 7 ? 100 * (1 + below(5)) : 1 + below(2000);
  const Standing order{.ref = next_ref_, .price = price, .qty = qty, .side = side};
  next_ref_ += 1 + below(3);
  const bool attributed = below(100) < 3;
  Message message(attributed ? 'F' : 'A', locate, now_ns_);
  message.put(order.ref).text(side == Side::bid ? "B" : "S").put(qty).text(symbol.name).put(price);
  if (attributed) message.text("NITE");
  emit(message);
  stand(symbol, order);
}

void Generator::take(std::uint32_t locate) {
  auto& symbol = symbols_[locate - 1];
  const std::uint32_t chance = below(1000);
  if (chance < 55) {
    execute(locate);
    return;
  }
  if (chance < 68) {
    // P: a trade against an order that nobody sees, between the quotes.
    const auto best = symbol.sides[0].best().price;
    Message message('P', locate, now_ns_);
    message.put(std::uint64_t{0}).text("B").put(100 * (1 + below(5))).text(symbol.name);
    message.put(best ? best : detail::price_of(symbol.fair_tick)).put(next_match_++);
    emit(message);
    return;
  }
  const std::uint32_t share = below(65'536);
  const std::size_t index = pick(symbol, share >= kStubShare ? kStub : interpolate(kDepth, share));
  if (chance < 220) {
    replace(locate, index);
  } else if (chance < 250 && symbol.orders[index].qty > 1) {
    Message message('X', locate, now_ns_);
    const std::uint32_t gone = 1 + below(symbol.orders[index].qty - 1);
    message.put(symbol.orders[index].ref).put(gone);
    emit(message);
    leave(symbol, index, gone);
  } else {
    remove(locate, index);
  }
}

void Generator::execute(std::uint32_t locate) {
  auto& symbol = symbols_[locate - 1];
  const std::uint64_t hint = symbol.newest_at_best[below(2)];
  std::size_t index = hint & ((1U << 20) - 1);
  const bool stands = index < symbol.orders.size() && symbol.orders[index].ref << 20 == hint >> 20 << 20;
  if (!stands) index = pick(symbol, 0);
  const Standing order = symbol.orders[index];
  if (depth_of(symbol, order) != 0) {
    // Nothing was found at the inside, and nothing behind it can trade.
    remove(locate, index);
    return;
  }
  const std::uint32_t qty = below(3) == 0 && order.qty > 1 ? 1 + below(order.qty - 1) : order.qty;
  const bool at_price = below(100) < 3;
  Message message(at_price ? 'C' : 'E', locate, now_ns_);
  message.put(order.ref).put(qty).put(next_match_++);
  if (at_price) message.text(below(4) ? "Y" : "N").put(order.price);
  emit(message);
  leave(symbol, index, qty);
}

void Generator::remove(std::uint32_t locate, std::size_t index) {
  auto& symbol = symbols_[locate - 1];
  const Standing order = symbol.orders[index];
  Message message('D', locate, now_ns_);
  message.put(order.ref);
  emit(message);
  leave(symbol, index, order.qty);
}

void Generator::replace(std::uint32_t locate, std::size_t index) {
  auto& symbol = symbols_[locate - 1];
  const Standing old = symbol.orders[index];
  leave(symbol, index, old.qty);
  const std::uint32_t share = below(65'536);
  Standing order{.ref = next_ref_, .price = 0, .qty = 100 * (1 + below(6)), .side = old.side};
  order.price = place(symbol, old.side, share >= kStubShare ? kStub : interpolate(kDepth, share));
  next_ref_ += 1 + below(3);
  Message message('U', locate, now_ns_);
  message.put(old.ref).put(order.ref).put(order.qty).put(order.price);
  emit(message);
  stand(symbol, order);
}

}  // namespace latlab::market
