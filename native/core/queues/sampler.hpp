// Threads: the sampling thread is start()'s own. Everything else (set_plan, drain, start, stop, statistics)
// is called from one controlling thread; sweep() instead of start() is for a caller that is its own clock.
//
// The sampler: at every period it reads the counts of every queue of its plan, and keeps those that changed,
// in chunks that were allocated beforehand and that the controlling thread drains. It takes no lock,
// allocates nothing and makes no system call but the one that sleeps until the next deadline.
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <latlab/counter_reader.hpp>

#include "queues/mirror.hpp"

namespace latlab::queues {

// One registration of a queue's side: where its counts are, and what its descriptor must say for them to be
// this queue's.
struct Part {
  std::uint32_t reader = 0;  // index into the plan's readers
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;
};

// A queue to sample. Most have one producer part and the same part as consumer; a queue between processes has
// those of all of them.
struct Target {
  std::uint32_t queue = 0;  // the recording's number of the queue
  bool adds = false;  // counts of several parts are shares, and added; else tickets, and the largest counts
  std::vector<Part> producers;
  std::vector<Part> consumers;
};

struct SampleRow {
  std::uint64_t begin_ticks;  // the counts were read between these two
  std::uint64_t end_ticks;
  std::uint64_t in;
  std::uint64_t out_low;
  std::uint64_t out_high;
  std::uint64_t dropped;
  std::uint64_t blocked;
  std::uint64_t empty;
  std::uint32_t queue;
  std::uint32_t skipped;  // periods since the last look at which this queue was not read
};

struct SweepRow {
  std::uint64_t begin_ticks;
  std::uint32_t duration_ticks;
  std::uint32_t read;  // queues read
};

enum class GapCause : std::uint32_t { late = 0, no_room = 1 };

// Periods in which nothing was read, or whose samples found no room.
struct GapRow {
  std::uint64_t from_ns;  // CLOCK_MONOTONIC: the first missed deadline
  std::uint64_t to_ns;    // the first that was kept again
  std::uint32_t periods;
  GapCause cause;
};

struct Chunk {
  std::vector<SampleRow> samples;
  std::vector<SweepRow> sweeps;
  std::vector<GapRow> gaps;
  std::size_t sample_count = 0;
  std::size_t sweep_count = 0;
  std::size_t gap_count = 0;
};

struct SamplerOptions {
  std::uint64_t period_ns = 100'000;
  std::uint32_t stamp_every = 4;  // queues between two readings of the clock; 0: one for the whole sweep.
                                  // With 1 the first stamp is each queue's own, the second that of up to 8
  int retries = 3;
  std::uint32_t longest_skip = 0;  // adaptive: a queue without activity is looked at once in so many periods
  std::size_t chunk_samples = 8192;
  std::size_t chunks = 32;  // a power of two
  int cpu = -1;
  int priority = 0;  // SCHED_FIFO, if not 0
};

struct SamplerStatistics {
  std::uint64_t sweeps = 0;
  std::uint64_t samples = 0;         // stored
  std::uint64_t reads = 0;           // looked at
  std::uint64_t torn = 0;            // whose two outs differed after all retries: intervals
  std::uint64_t missed_periods = 0;  // late
  std::uint64_t lost_periods = 0;    // that found no room
  std::uint64_t discarded = 0;       // read while their slot changed hands
  std::uint64_t cpu_ns = 0;          // of the sampling thread
  std::uint64_t timer_slack_ns = 0;
  std::string trouble;  // why the scheduling that was asked for could not be had; empty: all is as asked
};

class Sampler {
 public:
  explicit Sampler(const SamplerOptions& options);
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  // What to sample from the next sweep on. `versions` are the topology versions of the readers that the
  // targets were taken from; where a file's has moved on, each sample is checked against its part's
  // generation. `mirrors`, one a reader or null: what must be copied before that reader is read.
  void set_plan(std::vector<std::shared_ptr<const CounterReader>> readers,
                std::vector<std::uint64_t> versions, const std::vector<Target>& targets,
                std::vector<std::shared_ptr<Mirror>> mirrors = {});

  void start();
  void stop() noexcept;
  // One sweep now, on the caller's thread, instead of start().
  void sweep() noexcept { sweep_at(monotonic_ns()); }
  // Hands over what has been written since the last hand-over; for the caller of sweep().
  void flush() noexcept;

  // The oldest full chunk, or null; give it back with release() before asking for the next.
  [[nodiscard]] const Chunk* front() const noexcept;
  void release() noexcept;
  // A plan's topology version is no longer the file's: the controlling thread should look again.
  [[nodiscard]] bool stale() const noexcept { return stale_.load(std::memory_order_relaxed); }
  // Grows or shrinks the period, for a budget.
  void set_period(std::uint64_t period_ns) noexcept {
    period_ns_.store(period_ns, std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t period_ns() const noexcept {
    return period_ns_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] SamplerStatistics statistics() const;

 private:
  struct Watch;
  struct Pace;
  struct Plan;

  void run() noexcept;
  void set_scheduling();
  void sweep_at(std::uint64_t now_ns) noexcept;
  std::uint64_t look(Plan& plan, std::size_t index, std::uint64_t begin, std::size_t zero) noexcept;
  void stamp(std::uint64_t end) noexcept;
  void add_gap(std::uint64_t from_ns, std::uint64_t to_ns, std::uint64_t periods, GapCause cause) noexcept;
  void discard_strangers(const Plan& plan) noexcept;
  bool make_room(const Plan& plan, std::size_t samples, std::uint64_t now_ns) noexcept;
  void close_chunk() noexcept;
  void adopt_plan() noexcept;

  const SamplerOptions options_;
  std::vector<Chunk> chunks_;
  std::atomic<std::uint64_t> written_{0};  // chunks handed over; the sampling thread's
  std::atomic<std::uint64_t> drained_{0};  // chunks given back; the controlling thread's
  Chunk* chunk_ = nullptr;                 // open for writing
  std::size_t stamped_ = 0;                // samples of the open chunk that have their second stamp
  std::size_t sweep_first_ = 0;            // the first sample of this sweep in the open chunk
  std::uint64_t opened_ns_ = 0;
  std::uint64_t sweep_number_ = 0;
  GapRow no_room_{};  // periods that found no chunk; noted as soon as there is one

  std::unique_ptr<Plan> plan_;
  std::atomic<Plan*> next_{nullptr};
  std::atomic<Plan*> retired_{nullptr};

  std::atomic<std::uint64_t> period_ns_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> stale_{false};
  std::thread thread_;
  std::string trouble_;
  std::atomic<std::uint64_t> timer_slack_ns_{0};

  // The sampling thread's, read by statistics().
  std::atomic<std::uint64_t> sweeps_{0}, samples_{0}, reads_{0}, torn_{0}, missed_{0}, lost_{0},
      discarded_{0};
  std::atomic<std::uint64_t> cpu_ns_{0};
};

}  // namespace latlab::queues
