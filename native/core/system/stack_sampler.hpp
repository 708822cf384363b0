// Threads: open, start, stop, follow and take belong to one owner at a time; the drain thread, which this
// class starts and joins, is serialised with it by a lock inside. Nothing here runs on a measured thread: the
// kernel writes the rings.
//
// User stacks of threads as raw copies (registers and the top of the stack), by perf_event_open(2): at the
// ticks of the CPU's clock where they run, and where they leave the CPU. Beside them what is needed to
// understand the copies when the processes are gone: forks, execs, and which file was mapped where. Unwinding
// comes afterwards
// (`unwinder.hpp`). Memory is bounded: when the arena is full, every second sample of each thread is let go.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "system/bpf_scheduler.hpp"
#include "system/process_log.hpp"

namespace latlab::system {

struct StackRequest {
  std::vector<int> cpus;
  std::vector<pid_t> pids;             // whose samples are kept; their children follow
  std::uint32_t running_hz = 499;      // not a divisor of any timer's rate
  std::uint32_t switches_hz = 400;     // aimed at, over all threads
  std::uint32_t stack_bytes = 8192;    // of each copy; the deeper rest of a stack stays unknown
  std::size_t ring_bytes = 4U << 20U;  // a CPU
  std::size_t arena_bytes = 96U << 20U;
};

#if defined(__x86_64__)
inline constexpr unsigned kStackRegisters = 17;  // of the DWARF numbering, the last one is the pc
#elif defined(__aarch64__)
inline constexpr unsigned kStackRegisters = 33;  // x0..x30, sp, pc
#else
inline constexpr unsigned kStackRegisters = 0;
#endif

struct StackSample {
  std::uint64_t time_ns;  // CLOCK_MONOTONIC
  std::int32_t pid, tid;
  bool running;  // by the CPU's clock; else where it left the CPU
  std::uint64_t registers[kStackRegisters == 0 ? 1 : kStackRegisters];
  const std::uint8_t* stack;  // in the arena, from the stack pointer upwards
  std::size_t stack_bytes;
};

class StackSampler {
 public:
  explicit StackSampler(const StackRequest& request);  // throws std::system_error
  ~StackSampler();
  StackSampler(const StackSampler&) = delete;
  StackSampler& operator=(const StackSampler&) = delete;

  void start();
  void stop();
  void follow(pid_t pid);  // one more process, and its children

  // Before `start`: what a program on the scheduler's own tracepoint takes the stacks of blocking threads by,
  // which costs them less than an event of perf's at each switch. Without descriptors where that can't be.
  bpf::StackGate share();
  // Then: whether there is such a program.
  void shared(bool taken);

  // After stop. The stacks point into the arena, and live as long as the sampler.
  std::vector<StackSample> samples() const;
  const std::vector<ProcessEvent>& processes() const;
  std::uint64_t lost() const;
  bool every_thread() const;      // switches are sampled by thread, not by CPU
  std::uint32_t thinned() const;  // one in so many samples of a thread was kept

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace latlab::system
