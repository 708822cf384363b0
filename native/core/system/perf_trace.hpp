// Threads: open, start, stop and take belong to one owner at a time (a lock inside serialises them against
// the drain thread, which this class starts and joins). Nothing here runs on a measured thread: the kernel
// writes the rings, and the drain thread sleeps until one is half full.
//
// Kernel tracepoints by perf_event_open(2): one ring per CPU, every event of that CPU redirected into it, raw
// samples stamped with CLOCK_MONOTONIC. What the kernel had to drop is counted, never passed over in silence.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace latlab::system {

struct TraceRequest {
  std::vector<std::uint64_t> event_ids;  // tracefs events/<group>/<name>/id
  std::vector<std::string> filters;      // one an event, "" for none (tracefs filter language)
  std::vector<int> cpus;
  pid_t pid = -1;                      // -1: everything on those CPUs; else this task alone
  bool inherit = false;                // with pid: its future children too
  std::size_t ring_bytes = 1U << 20U;  // a power of two, a CPU
};

// The samples of one event, in the order of their CPUs' rings (not sorted over CPUs).
struct TraceSamples {
  std::vector<std::uint64_t> time_ns;  // CLOCK_MONOTONIC
  std::vector<std::int32_t> cpu, pid, tid;
  std::vector<std::uint32_t> raw_bytes;  // each sample's own length
  std::size_t stride = 0;                // the longest of them
  std::vector<std::uint8_t> raw;         // time_ns.size() rows of `stride`, the rest of a row is 0
};

// One sample as it is kept between drain and take: what PERF_SAMPLE_IDENTIFIER|TID|TIME|CPU|PERIOD|RAW lays
// down. The period is asked for because the kernel else repeats a sample whose event carries a count (a
// sched_stat_runtime of 1 ms came 300 times over).
struct SampleHead {
  std::uint64_t id;
  std::uint32_t pid, tid;
  std::uint64_t time_ns;
  std::uint32_t cpu, reserved;
  std::uint64_t period;
  std::uint32_t raw_bytes;
};
static_assert(offsetof(SampleHead, raw_bytes) == 40 && sizeof(SampleHead) == 48);
inline constexpr std::size_t kSampleHeadBytes = 44;

// Reads every whole record between `tail` and `head` of a ring of `size` bytes (a power of two); samples are
// appended to `samples` (8-byte aligned, each preceded by its length), PERF_RECORD_LOST adds to `lost`.
// Returns the new tail: a damaged length ends the reading there with `head`, so that the ring goes on.
std::uint64_t read_ring(const std::uint8_t* data, std::size_t size, std::uint64_t tail, std::uint64_t head,
                        std::vector<std::uint8_t>& samples, std::uint64_t& lost);

class PerfTrace {
 public:
  explicit PerfTrace(
      const TraceRequest& request);  // throws std::system_error; its text names the event and CPU
  ~PerfTrace();
  PerfTrace(const PerfTrace&) = delete;
  PerfTrace& operator=(const PerfTrace&) = delete;

  void start();
  void stop();  // what the rings still hold is drained
  // Everything that was drained so far, one entry an event of the request; works while tracing too.
  std::vector<TraceSamples> take();
  // Samples that the kernel dropped since the start.
  std::uint64_t lost();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace latlab::system
