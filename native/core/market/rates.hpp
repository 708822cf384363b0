// Threads: one thread owns a symbol's statistics.
//
// Rates, inter-arrival and processing times of one symbol's events, in bounded memory and O(1) an event.
//
// Rate: at any instant t, the number of events in the trailing window (t - w, t]. Its distribution is
// weighted by time: each value counts for as long as it held, from the symbol's first event to its last.
// Nothing is sampled.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory_resource>
#include <vector>

#include "market/memory.hpp"

namespace latlab::market {

// A histogram with exact bins below 256 and 128 bins an octave above (a bin is at most 0.8 % wide), grown
// only as far as its largest value: a day has 8,000 symbols with five of them each.
template <class Weight>
class LogHistogram {
 public:
  explicit LogHistogram(std::pmr::memory_resource* memory) : bins_(memory) {}

  static std::size_t index(std::uint64_t value) noexcept {
    if (value < 256) return value;
    const auto shift = static_cast<std::size_t>(56 - std::countl_zero(value));  // 1 for 256..511
    return 256 + (shift - 1) * 128 + ((value >> shift) - 128);
  }
  // The largest value of a bin.
  static std::uint64_t upper(std::size_t index) noexcept {
    if (index < 256) return index;
    const std::size_t shift = (index - 256) / 128 + 1;
    const std::uint64_t mantissa = (index - 256) % 128 + 128;
    return ((mantissa + 1) << shift) - 1;
  }

  void record(std::uint64_t value, std::uint64_t weight) {
    const std::size_t at = index(value);
    if (at >= bins_.size()) bins_.resize(at + 1 + at / 8);
    bins_[at] += static_cast<Weight>(weight);
    if (value > max_) max_ = value;
    if (value < min_) min_ = value;
  }
  // A value that held for no time: it is not a weight, and may be the greatest.
  void see(std::uint64_t value) noexcept { max_ = std::max(max_, value); }
  void add(const LogHistogram& other) {
    if (other.bins_.size() > bins_.size()) bins_.resize(other.bins_.size());
    for (std::size_t at = 0; at < other.bins_.size(); ++at) bins_[at] += other.bins_[at];
    min_ = std::min(min_, other.min_);
    max_ = std::max(max_, other.max_);
  }
  void restore(std::size_t at, std::uint64_t weight) {
    if (at >= bins_.size()) bins_.resize(at + 1);
    bins_[at] += static_cast<Weight>(weight);
  }
  void prefetch(std::uint64_t value) const noexcept {
    const std::size_t at = index(value);
    if (at < bins_.size()) prefetch_line(&bins_[at]);
  }
  [[nodiscard]] const std::pmr::vector<Weight>& bins() const noexcept { return bins_; }
  [[nodiscard]] std::uint64_t min() const noexcept { return min_ == UINT64_MAX ? 0 : min_; }
  [[nodiscard]] std::uint64_t max() const noexcept { return max_; }

 private:
  std::pmr::vector<Weight> bins_;
  std::uint64_t min_ = UINT64_MAX;
  std::uint64_t max_ = 0;
};

// A histogram of events of weight 1, the bins of the latest in a log. A symbol of some hundred events a day
// has inter-arrival times of all magnitudes: its bins would be twenty times as large as what is in them, and
// each event would fetch a line of its own.
class EventHistogram {
 public:
  explicit EventHistogram(std::pmr::memory_resource* memory) : bins_(memory), latest_(memory) {}

  void record(std::uint64_t value) {
    if (latest_.size() == kMostLogged) fold();
    latest_.push_back(static_cast<std::uint16_t>(Bins::index(value)));
    max_ = std::max(max_, value);
    min_ = std::min(min_, value);
  }
  void add(const EventHistogram& other) {
    fold();
    add_to(bins_, other.bins_, other.latest_);
    min_ = std::min(min_, other.min_);
    max_ = std::max(max_, other.max_);
  }
  // Ask for where the next one's bin is noted.
  void prefetch() const noexcept { prefetch_line(latest_.data() + latest_.size()); }
  [[nodiscard]] std::vector<std::uint32_t> bins() const {
    std::vector<std::uint32_t> out;
    add_to(out, bins_, latest_);
    return out;
  }
  [[nodiscard]] std::uint64_t min() const noexcept { return min_ == UINT64_MAX ? 0 : min_; }
  [[nodiscard]] std::uint64_t max() const noexcept { return max_; }

 private:
  using Bins = LogHistogram<std::uint32_t>;
  static constexpr std::size_t kMostLogged = 2048;  // 4 KiB: less than the bins that they spare
  static_assert(256 + 56 * 128 <= 65'536, "a bin's number fits the log");

  template <class Out>
  static void add_to(Out& out, const std::pmr::vector<std::uint32_t>& bins,
                     const std::pmr::vector<std::uint16_t>& latest) {
    std::size_t size = std::max(out.size(), bins.size());
    for (const std::uint16_t at : latest) size = std::max<std::size_t>(size, at + 1U);
    out.resize(size);
    for (std::size_t at = 0; at < bins.size(); ++at) out[at] += bins[at];
    for (const std::uint16_t at : latest) ++out[at];
  }
  void fold() {
    add_to(bins_, std::pmr::vector<std::uint32_t>(), latest_);
    latest_.clear();
  }

  std::pmr::vector<std::uint32_t> bins_;
  std::pmr::vector<std::uint16_t> latest_;
  std::uint64_t min_ = UINT64_MAX;
  std::uint64_t max_ = 0;
};

class alignas(64) SymbolRates {
 public:
  static constexpr std::array<std::uint64_t, 3> kWindowsNs{1'000'000'000, 1'000'000, 1'000};

  // memory: of all that grows; it must outlive the symbol.
  explicit SymbolRates(std::pmr::memory_resource* memory)
      : ring_(memory),
        rates_{LogHistogram<std::uint64_t>(memory), LogHistogram<std::uint64_t>(memory),
               LogHistogram<std::uint64_t>(memory)},
        arrival_(memory),
        processing_(memory) {}

  // Ask for what record() will touch of the object itself, and when that has arrived, for what it points to.
  void prefetch() const noexcept {
    for (std::size_t at = 0; at < sizeof *this; at += 64)
      prefetch_line(reinterpret_cast<const char*>(this) + at);
  }
  void prefetch_bins() const noexcept {
    if (ring_.empty()) return;
    for (std::size_t w = 0; w < kWindowsNs.size(); ++w) {
      prefetch_line(&ring_[tails_[w] & (ring_.size() - 1)]);
      rates_[w].prefetch(counts_[w]);
    }
    prefetch_line(&ring_[head_ & (ring_.size() - 1)]);
    arrival_.prefetch();
    processing_.prefetch();
  }

  // Time must not run backwards; where a feed's does, the event counts at the latest time seen.
  void record(std::uint64_t ts_ns, std::uint64_t processing) {
    arrive(ts_ns);
    processing_.record(processing);
  }

  // All of record() but the processing time: add_processing() brings those of several symbols together.
  void arrive(std::uint64_t ts_ns) {
    if (samples_ == 0) {
      first_ = last_ = ts_ns;
      changed_.fill(ts_ns);
    } else {
      if (ts_ns < last_) ts_ns = last_;
      arrival_.record(ts_ns - last_);
    }
    for (std::size_t w = 0; w < kWindowsNs.size(); ++w) {
      expire(w, ts_ns);
      hold(w, ts_ns);
      rates_[w].see(++counts_[w]);
    }
    push(ts_ns);
    last_ = ts_ns;
    ++samples_;
  }

  void add_processing(const SymbolRates& other) { processing_.add(other.processing_); }

  [[nodiscard]] std::uint64_t samples() const noexcept { return samples_; }
  [[nodiscard]] const LogHistogram<std::uint64_t>& rate(std::size_t window) const noexcept {
    return rates_[window];
  }
  [[nodiscard]] const EventHistogram& arrival() const noexcept { return arrival_; }
  [[nodiscard]] const EventHistogram& processing() const noexcept { return processing_; }

 private:
  struct Run {  // events at one instant: any number of them takes one place
    std::uint64_t ts_ns;
    std::uint64_t count;
  };
  // A hostile feed of events one nanosecond apart must not fill the memory: beyond this many places, events
  // of different instants share one.
  static constexpr std::size_t kMaxRuns = 1 << 18;

  void hold(std::size_t w, std::uint64_t now) {
    if (now == changed_[w]) return;
    rates_[w].record(counts_[w], now - changed_[w]);
    changed_[w] = now;
  }

  void expire(std::size_t w, std::uint64_t now) {
    while (tails_[w] != head_) {
      const Run& run = ring_[tails_[w] & (ring_.size() - 1)];
      if (run.ts_ns + kWindowsNs[w] > now) return;
      hold(w, run.ts_ns + kWindowsNs[w]);
      counts_[w] -= run.count;
      ++tails_[w];
    }
  }

  void push(std::uint64_t now) {
    if (head_ != tails_[0]) {
      Run& newest = ring_[(head_ - 1) & (ring_.size() - 1)];
      // A run that a shorter window has dropped already can't take more events.
      const bool open = tails_[1] != head_ && tails_[2] != head_;
      if (open && (newest.ts_ns == now || head_ - tails_[0] >= kMaxRuns)) {
        newest.count += 1;
        newest.ts_ns = now;
        return;
      }
    }
    if (head_ - tails_[0] == ring_.size()) grow();
    ring_[head_ & (ring_.size() - 1)] = {.ts_ns = now, .count = 1};
    ++head_;
  }

  void grow() {
    std::pmr::vector<Run> wider(ring_.empty() ? 4 : ring_.size() * 2, ring_.get_allocator());
    for (std::uint64_t i = tails_[0]; i != head_; ++i)
      wider[i & (wider.size() - 1)] = ring_[i & (ring_.size() - 1)];
    ring_ = std::move(wider);
  }

  std::uint64_t samples_ = 0;
  std::uint64_t first_ = 0;
  std::uint64_t last_ = 0;
  std::pmr::vector<Run> ring_;
  std::uint64_t head_ = 0;
  std::array<std::uint64_t, 3> tails_{};   // the oldest run in each window; that of the longest is the ring's
  std::array<std::uint64_t, 3> counts_{};  // events in each window
  std::array<std::uint64_t, 3> changed_{};
  std::array<LogHistogram<std::uint64_t>, 3> rates_;
  EventHistogram arrival_;
  EventHistogram processing_;
};

}  // namespace latlab::market
