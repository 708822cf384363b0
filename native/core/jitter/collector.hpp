// Threads: a Collector has one owner. It starts one pinned thread a core; each writes only its own
// CoreResult, which the owner reads after join(). Between the start barrier and the end a measuring thread
// makes no system call, takes no lock and allocates nothing (unless it was asked to pause).
//
// Back-to-back readings of the time-stamp counter, in unrolled blocks without a branch. Every tick between
// the first and the last reading is in exactly one of pure (deltas inside of a block), bridge (from one
// block's last reading to the next one's first, over our own bookkeeping), gap (either of them over the
// threshold) and paused.
#pragma once

#include <latlab/clock.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace latlab::jitter {

// Readings. 96.6 % of the time is then inside of blocks. Longer ones, with what counts them, no longer fit
// into the cache of decoded instructions: of the bare loop's rate 48 make 98.5 %, 64 make 98.0, 96 make 97.0.
inline constexpr std::size_t kBlock = 48;
inline constexpr std::uint64_t kLinear = 4096;  // deltas below are counted each on its own
inline constexpr unsigned kSubBits = 7;         // above: 128 bins an octave, at most 0.8 % wide
inline constexpr unsigned kLinearBits = 12;
inline constexpr std::size_t kLogBins = (64 - kLinearBits) << kSubBits;
static_assert(kLinear == 1ULL << kLinearBits);

// The bin of a delta of at least kLinear ticks, and the largest delta that falls into a bin.
std::size_t log_bin(std::uint64_t delta) noexcept;
std::uint64_t log_bin_upper(std::size_t bin) noexcept;

struct CoreRequest {
  int cpu = 0;
  std::uint64_t duration_ns = 0;
  std::uint64_t threshold_ticks =
      0;                         // a delta above is a gap; 0: found by a short run, see automatic_threshold
  std::size_t ring = 10'000;     // gaps that are kept; the oldest are overwritten
  std::uint64_t pause_ns = 0;    // sleep before each block
  int fifo_priority = 0;         // 0: the inherited scheduling class
  std::uint64_t stop_ticks = 0;  // a gap above ends the whole run; 0: none does
};

// Files of tracefs that the core which ends the run by its gap writes at once, as oslat and rtla do: what the
// kernel's own trace holds then ends with that gap. -1: none.
struct TraceStop {
  int marker_fd = -1;  // trace_marker
  int on_fd = -1;      // tracing_on
};

struct Gap {
  std::uint64_t end_ticks;    // the first reading after it
  std::uint64_t delta_ticks;  // it began at end - delta
  std::uint32_t preempted;    // 1: the kernel scheduled something else meanwhile (rseq), 0: not, 2: unknown
  std::int32_t cpu;           // where the thread ran after it
};
static_assert(sizeof(Gap) == 24);

struct CoreResult {
  int cpu = 0;
  int affinity_error = 0;    // errno; nothing was measured then
  int scheduling_error = 0;  // errno; measured all the same
  std::uint64_t threshold_ticks = 0;
  std::uint64_t first_ticks = 0, last_ticks = 0;
  std::uint64_t deltas = 0, bridges = 0;
  std::uint64_t pure_ticks = 0, bridge_ticks = 0, gap_ticks = 0, paused_ticks = 0;
  std::uint64_t gaps = 0;  // all of them, those that the ring has lost too
  std::uint64_t migrations = 0;
  bool stopped = false;  // its last gap was over stop_ticks, and ended the run
  std::uint64_t max_ticks = 0;
  ClockReference begin{}, end{};
  std::vector<std::uint64_t> linear;  // kLinear counts, of deltas inside of blocks and of every gap
  std::vector<std::uint64_t> log;     // kLogBins counts
  std::vector<Gap> ring;              // in order of time
};

// 10 times the median of `readings` back-to-back deltas, but at least `floor_ns`.
std::uint64_t automatic_threshold(double hz, std::uint64_t floor_ns, std::size_t readings = 20'000);

class Collector {
 public:
  explicit Collector(const std::vector<CoreRequest>& requests, TraceStop trace_stop = {});
  ~Collector();
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;

  void start();
  void stop() noexcept;  // the threads end after their block; what was measured is kept
  bool finished() const noexcept;
  std::vector<CoreResult> join();

 private:
  struct Core;
  static void* run(void* core);
  std::vector<std::unique_ptr<Core>> cores_;
  TraceStop trace_stop_;
  std::atomic<int> waiting_{0};
  std::atomic<int> running_{0};
  std::atomic<bool> go_{false};
  std::atomic<bool> stop_{false};
  bool joined_ = true;
};

// The bare loop that the collector's speed is compared with: readings a second over `duration_ns`, on this
// thread.
double bare_readings_per_second(std::uint64_t duration_ns);

}  // namespace latlab::jitter
