#include "market/make_sinks.hpp"

#include <stdexcept>
#include <utility>

#include "market/research.hpp"
#include "market/stats.hpp"

namespace latlab::market {

namespace {

template <template <class> class Kind, class... Args>
std::unique_ptr<AnyBooks> with_sides(const std::string& book, Args&&... args) {
  if (book == "ladder") return std::make_unique<Kind<LadderSide>>(std::forward<Args>(args)...);
  if (book == "array") return std::make_unique<Kind<ArraySide>>(std::forward<Args>(args)...);
  if (book == "map") return std::make_unique<Kind<MapSide>>(std::forward<Args>(args)...);
  throw std::invalid_argument("no book '" + book + "'");
}

}  // namespace

std::unique_ptr<AnyBooks> make_census(const std::string& book, std::size_t capacity, std::size_t shares) {
  return with_sides<CensusSink>(book, capacity, shares);
}

std::unique_ptr<AnyBooks> make_inside(const std::string& book, std::size_t capacity, std::size_t levels,
                                      bool text, std::uint64_t skip, Selection selection,
                                      std::size_t shares) {
  return with_sides<InsideSink>(book, capacity, levels, text, skip, std::move(selection), shares);
}

std::unique_ptr<AnyBooks> make_depth(const std::string& book, std::size_t capacity, Selection selection,
                                     std::size_t shares) {
  return with_sides<DepthSink>(book, capacity, std::move(selection), shares);
}

std::unique_ptr<AnyBooks> make_stats(const std::string& book, bool over_messages) {
  return with_sides<StatsSink>(book, over_messages);
}

std::unique_ptr<AnyBooks> make_trades(Selection selection, std::size_t shares) {
  return std::make_unique<TradesSink<LadderSide>>(kDefaultCapacity, std::move(selection), shares);
}

std::unique_ptr<AnyBooks> make_snapshot(std::uint64_t at_ns) {
  return std::make_unique<SnapshotSink<LadderSide>>(kDefaultCapacity, at_ns);
}

std::unique_ptr<AnyBooks> make_books(std::size_t levels, std::uint64_t every_ns, Selection selection) {
  return std::make_unique<BooksSink<LadderSide>>(levels, every_ns, std::move(selection));
}

std::unique_ptr<AnyBooks> make_lobster(std::size_t levels, Selection selection) {
  return std::make_unique<LobsterSink<LadderSide>>(levels, std::move(selection));
}

std::unique_ptr<AnyBooks> make_events() {
  return std::make_unique<EventsSink>();
}

}  // namespace latlab::market
