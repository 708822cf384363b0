// Threads: one. The two sides of an order book compared: an ordered map of prices against an array of ticks.
//
//   for design in Map Array; do
//     g++ -O2 -std=c++20 -shared -fPIC -Iinclude -Inative/core -DDESIGN=${design}Side examples/book_sides.cpp
//         -o $design.so
//   done
//   latlab bench ab Map.so Array.so
//   latlab market generate -o day.itch
//   latlab bench ab Map.so Array.so --param feed=day.itch
//
// Without `feed` the operations are synthetic, with the depths of a real feed: most are at the inside or a
// few levels from it, and a few are far away. With it they are those of an ITCH-5.0 file (2-byte lengths), in
// its order, of the symbol with most messages. Buy and sell side are apart, since their sizes and speeds are.
#include <latlab/bench.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "market/itch.hpp"
#include "market/ladder.hpp"
#include "market/sides.hpp"

namespace bench = latlab::bench;
namespace market = latlab::market;
using market::Side;

namespace {

struct Operation {
  std::uint32_t price;
  std::uint32_t qty;
  bool enters;
};
using Operations = std::vector<Operation>;

// How far from the inside an operation is, in ticks: the quantiles of a NASDAQ day's events, p50 1, p75 6,
// p90 16, p99 203, p99.9 2,135 (JayBeams, itch5eventdepth), with what lies between them in proportion.
int depth(std::uint64_t draw) {
  struct Point {
    double share;
    int ticks;
  };
  static constexpr std::array<Point, 8> kPoints{
      {{0, 0}, {0.33, 0}, {0.5, 1}, {0.75, 6}, {0.9, 16}, {0.99, 203}, {0.999, 2'135}, {1, 6'000}}};
  const double share = static_cast<double>(draw >> 11) * 0x1p-53;
  std::size_t at = 1;
  while (kPoints[at].share < share) ++at;
  const Point& from = kPoints[at - 1];
  const Point& to = kPoints[at];
  return from.ticks +
         static_cast<int>((share - from.share) / (to.share - from.share) * (to.ticks - from.ticks));
}

// Orders enter and leave at those depths from an inside that drifts, any standing order as likely as another;
// after a while so many stand as in a generated day's book after as many events: 3,000 at most.
Operations synthetic(Side side, std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Operations out;
  std::vector<Operation> standing;
  std::uint32_t inside = 2'000'000;
  const std::int64_t away = side == Side::bid ? -100 : 100;
  while (out.size() < count) {
    if (random() % 100 == 0) inside += random() % 2 == 0 ? 100U : -100U;  // the price moves by a cent
    const std::size_t wanted = std::min<std::size_t>(8 + out.size() / 12, 3'000);
    if (standing.empty() || random() % 100 < (standing.size() < wanted ? 55U : 45U)) {
      const std::uint64_t draw = random();
      const auto price = static_cast<std::uint32_t>(inside + away * depth(draw));
      standing.push_back({price, static_cast<std::uint32_t>(1 + draw % 500), true});
      out.push_back(standing.back());
    } else {
      const std::size_t at = random() % standing.size();
      out.push_back({standing[at].price, standing[at].qty, false});
      standing[at] = standing.back();
      standing.pop_back();
    }
  }
  return out;
}

// The operations on one side of the busiest symbol of a file.
Operations of_feed(Side side, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> text{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::uint8_t> bytes(text.begin(), text.end());
  if (bytes.empty()) throw std::runtime_error(path + ": can't be read, or is empty");
  struct Order {
    std::uint32_t price, qty;
    std::uint16_t locate;
    Side side;
  };
  std::unordered_map<std::uint64_t, Order> orders;
  std::map<std::uint16_t, Operations> by_symbol;
  const auto enter = [&](std::uint64_t ref, const Order& order) {
    orders[ref] = order;
    if (order.side == side) by_symbol[order.locate].push_back({order.price, order.qty, true});
  };
  const auto leave = [&](std::uint64_t ref, std::uint32_t qty) {
    const auto at = orders.find(ref);
    if (at == orders.end()) return;
    qty = std::min(qty, at->second.qty);
    if (at->second.side == side) by_symbol[at->second.locate].push_back({at->second.price, qty, false});
    at->second.qty -= qty;
    if (at->second.qty == 0) orders.erase(at);
  };
  market::itch::FrameCursor cursor(bytes);
  for (market::itch::Frame frame; cursor.next(frame);) {
    if (!market::itch::well_formed(frame)) {
      throw std::runtime_error(path + ": offset " + std::to_string(frame.offset) + ": no ITCH-5.0 message");
    }
    const market::Event event = market::itch::decode(frame);
    switch (event.kind) {
      case market::Kind::add:
        enter(event.ref, {event.price, event.qty, event.locate, event.side});
        break;
      case market::Kind::execute:
      case market::Kind::execute_at:
      case market::Kind::reduce:
        leave(event.ref, event.qty);
        break;
      case market::Kind::remove:
        leave(event.ref, ~0U);
        break;
      case market::Kind::replace:
        if (const auto old = orders.find(event.ref); old != orders.end()) {
          const Order next{event.price, event.qty, old->second.locate, old->second.side};
          leave(event.ref, ~0U);
          enter(event.new_ref, next);
        }
        break;
      default:
        break;
    }
  }
  Operations busiest;
  for (auto& [locate, operations] : by_symbol) {
    if (operations.size() > busiest.size()) busiest = std::move(operations);
  }
  if (busiest.empty()) throw std::runtime_error(path + ": has no order on this side");
  return busiest;
}

// One run applies all operations to one side, and asks for its best price after each, as a book does.
template <class Design, Side side>
class Replay {
 public:
  explicit Replay(const bench::Parameters& parameters) {
    const std::string feed = parameters.text("feed", "");
    operations_ = feed.empty() ? synthetic(side, parameters.get("size", 50'000), parameters.seed())
                               : of_feed(side, feed);
  }
  static constexpr bool counts_operations = true;
  std::uint64_t run() {
    design_.clear();
    for (const Operation& operation : operations_) {
      if (operation.enters) {
        design_.add(operation.price, operation.qty);
      } else {
        design_.remove(operation.price, operation.qty);
      }
      const market::Level best = design_.best();
      bench::do_not_optimize(best.price);
    }
    return operations_.size();
  }

 private:
  Operations operations_;
  Design design_{side};
};

}  // namespace

// With DESIGN, two objects have fixtures of the same names, which are compared with each other; without it,
// one object has them all.
#ifdef DESIGN
LATLAB_BENCHMARK_NAMED("Bid", Replay<market::DESIGN, Side::bid>)
LATLAB_BENCHMARK_NAMED("Offer", Replay<market::DESIGN, Side::offer>)
#else
LATLAB_BENCHMARK_NAMED("MapBid", Replay<market::MapSide, Side::bid>)
LATLAB_BENCHMARK_NAMED("MapOffer", Replay<market::MapSide, Side::offer>)
LATLAB_BENCHMARK_NAMED("ArrayBid", Replay<market::ArraySide, Side::bid>)
LATLAB_BENCHMARK_NAMED("ArrayOffer", Replay<market::ArraySide, Side::offer>)
LATLAB_BENCHMARK_NAMED("SortedBid", Replay<market::SortedSide, Side::bid>)
LATLAB_BENCHMARK_NAMED("SortedOffer", Replay<market::SortedSide, Side::offer>)
LATLAB_BENCHMARK_NAMED("LadderBid", Replay<market::LadderSide, Side::bid>)
LATLAB_BENCHMARK_NAMED("LadderOffer", Replay<market::LadderSide, Side::offer>)
#endif

LATLAB_BENCHMARK_REPORT(
    "context",
    "A market-data handler keeps a limit order book for every symbol: on each side the shares "
    "that stand at every price. It is asked for the best price after each message.")
LATLAB_BENCHMARK_REPORT(
    "problem",
    "Keep the quantities of one side under additions and removals at any price, and know the "
    "best price at any time.")
LATLAB_BENCHMARK_REPORT(
    "why",
    "Every message of the feed changes a side. What a change takes is added to the latency of "
    "every decision, and in a burst it decides when the queue before the handler is empty again.")
LATLAB_BENCHMARK_REPORT(
    "weakness",
    "The map allocates and follows pointers at each change. The array is made for changes near "
    "the inside: prices far from it go to a map as well, and a jump of the price beyond its "
    "capacity moves all of it.")
LATLAB_BENCHMARK_REPORT(
    "inputs",
    "Synthetic: operations at the depths of a NASDAQ day's events (p50 1 tick from the inside, p75 6, "
    "p90 16, p99 203, p99.9 2,135), with up to 3,000 orders standing. With the "
    "parameter feed: the busiest symbol of an ITCH-5.0 file, its operations in the file's order.")
