// Threads: one thread owns a sink.
//
// Statistics per symbol and of all symbols, over changes of the inside or over all messages.
#pragma once

#include <latlab/clock.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "market/rates.hpp"
#include "market/sinks.hpp"

namespace latlab::market {

struct StatsResult {
  std::vector<std::unique_ptr<SymbolRates>> symbols{65'536};  // by locate; null where nothing was counted
  SymbolRates all;
  ClockReference begin{};
  ClockReference end{};
};

// The processing time of a message is what its levels take, the way from its predecessor's to its own being
// up to date, and its share of what the orders of its chunk took, the asking for memory included; decoding
// and the keeping of these statistics are not in it. In ticks of the time-stamp counter: the histograms are
// scaled when they are read.
template <class S>
class StatsSink final : public BookSink<S>, public StatsResult {
 public:
  explicit StatsSink(bool over_messages) : BookSink<S>(kDefaultCapacity), over_messages_(over_messages) {
    begin = clock_reference();
  }

  void batch(std::span<const Event> events, const SymbolNames&) override {
    std::size_t at = 0;
    std::uint64_t share = 0;
    std::uint64_t before = ticks();
    const auto on = [&](const Event& event, const Effect& effect) {
      const std::uint64_t now = ticks();
      const std::uint16_t locate = effect.applied ? effect.locate : event.locate;
      if (over_messages_ || effect.changed) count(event.ts_ns, locate, now - before + share);
      if (at + kFar < events.size()) {
        if (const auto& symbol = symbols[events[at + kFar].locate]) symbol->prefetch();
      }
      if (at + kNear < events.size()) {
        const Event& next = events[at + kNear];
        if (const auto& symbol = symbols[next.locate]) symbol->prefetch_bins(next.ts_ns);
      }
      ++at;
      before = ticks();
    };
    this->apply(events, on, [&](std::size_t count) {
      const std::uint64_t now = ticks();
      share = count != 0 ? (now - before) / count : 0;
      before = now;
    });
  }

  void finish(const SymbolNames&) override { end = clock_reference(); }

 private:
  static constexpr std::size_t kFar = 16;  // events ahead at which a symbol's statistics are asked for
  static constexpr std::size_t kNear = 8;

  void count(std::uint64_t ts_ns, std::uint16_t locate, std::uint64_t spent) {
    all.record(ts_ns, spent);
    if (locate == 0) return;  // of the whole market
    auto& symbol = symbols[locate];
    if (symbol == nullptr) symbol = std::make_unique<SymbolRates>();
    symbol->record(ts_ns, spent);
  }

  bool over_messages_;
};

}  // namespace latlab::market
