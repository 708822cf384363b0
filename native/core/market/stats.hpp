// Threads: one thread owns a sink.
//
// Statistics per symbol and of all symbols, over changes of the inside or over all messages.
#pragma once

#include <latlab/clock.hpp>

#include <cstdint>
#include <deque>
#include <memory_resource>
#include <span>
#include <utility>
#include <vector>

#include "market/rates.hpp"
#include "market/sinks.hpp"

namespace latlab::market {

struct StatsResult {
  // An event touches some fifteen lines of its symbol's statistics, anywhere in hundreds of megabytes: in
  // pages of 4 KiB each would be a miss of the TLB, too.
  static constexpr std::size_t kLargestPooled = 1U << 16;
  detail::HugeBlocks blocks;
  std::pmr::monotonic_buffer_resource arena{detail::HugePages<std::byte>::kPage, &blocks};
  std::pmr::unsynchronized_pool_resource memory{
      {.max_blocks_per_chunk = 0, .largest_required_pool_block = kLargestPooled}, &arena};
  std::pmr::deque<SymbolRates> of_symbols{&memory};
  // By locate; null where nothing was counted.
  std::vector<SymbolRates*> symbols = std::vector<SymbolRates*>(65'536);
  SymbolRates all{&memory};
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
    // First the books with one reading of the clock a message, then the statistics of all of them.
    counted_.clear();
    std::uint64_t share = 0;
    std::uint64_t before = ticks();
    const auto on = [&](const Event& event, const Effect& effect) {
      const std::uint64_t now = ticks();
      if (over_messages_ || effect.changed) {
        const std::uint16_t locate = effect.applied ? effect.locate : event.locate;
        counted_.push_back({.ts_ns = event.ts_ns, .spent = now - before + share, .locate = locate});
      }
      before = now;
    };
    this->apply(events, on, [&](std::size_t count) {
      const std::uint64_t now = ticks();
      share = count != 0 ? (now - before) / count : 0;
      before = now;
    });
    for (std::size_t at = 0; at < counted_.size(); ++at) {
      ask(at + kFar);
      ask_bins(at + kNear);
      count(counted_[at]);
    }
  }

  void finish(const SymbolNames&) override {
    if (std::exchange(finished_, true)) return;
    end = clock_reference();
    for (const auto& symbol : of_symbols) all.add_processing(symbol);
  }

 private:
  static constexpr std::size_t kFar = 16;  // events ahead at which a symbol's statistics are asked for
  static constexpr std::size_t kNear = 8;

  struct Counted {
    std::uint64_t ts_ns;
    std::uint64_t spent;
    std::uint16_t locate;
  };

  void ask(std::size_t at) const noexcept {
    if (at >= counted_.size()) return;
    if (const SymbolRates* symbol = symbols[counted_[at].locate]) symbol->prefetch();
  }
  void ask_bins(std::size_t at) const noexcept {
    if (at >= counted_.size()) return;
    if (const SymbolRates* symbol = symbols[counted_[at].locate]) symbol->prefetch_bins();
  }

  void count(const Counted& one) {
    if (one.locate == 0) {  // of the whole market
      all.record(one.ts_ns, one.spent);
      return;
    }
    all.arrive(one.ts_ns);
    SymbolRates*& symbol = symbols[one.locate];
    if (symbol == nullptr) symbol = &of_symbols.emplace_back(&memory);
    symbol->record(one.ts_ns, one.spent);
  }

  std::vector<Counted> counted_;
  bool over_messages_;
  bool finished_ = false;
};

}  // namespace latlab::market
