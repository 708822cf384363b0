// Threads: every function may be called from any thread; the calibration is done once and then only read.
//
// Busy stubs: they occupy the CPU for a chosen time and say what they delivered. Three measures of time:
// the wall clock (time-stamp counter), the thread's CPU time (what preemption takes isn't counted as work),
// and a number of instructions (which runs faster on a faster CPU, as real work does).
#pragma once

#include <cstdint>

namespace latlab::stubs {

struct SpinResult {
  std::int64_t requested_ns = 0;
  std::int64_t wall_ns = 0;
  std::int64_t cpu_ns = 0;  // thread CPU time delivered; wall_ns where no switch took any of it
  std::int64_t longest_gap_ns =
      0;  // between two readings of the counter: an interrupt, a switch or the hypervisor
  std::uint32_t checkpoints = 0;  // readings of the thread's CPU clock
  bool preempted = false;
};

struct SpinCalibration {
  double ticks_per_ns = 0.0;
  double iterations_per_ns = 0.0;  // of the instruction loop
  double cpu_clock_ns = 0.0;       // cost of one reading of CLOCK_THREAD_CPUTIME_ID
  double spin_bias_ns = 0.0;       // by which a spin is longer than its deadline; taken off
  std::int64_t took_ns = 0;
  bool switch_flag = false;  // exact detection of preemption (rseq)
};

inline constexpr std::uint64_t kInstructionsPerIteration = 8;

// Calibrates at the first call (about 20 ms), and returns the same values afterwards.
const SpinCalibration& spin_calibration() noexcept;

// Measures again; for a test of the calibration itself.
SpinCalibration measure_spin_calibration() noexcept;

std::int64_t thread_cpu_ns() noexcept;
std::int64_t ticks_to_duration_ns(std::uint64_t ticks) noexcept;

SpinResult spin_wall(std::int64_t ns) noexcept;
SpinResult spin_cpu(std::int64_t ns) noexcept;

// Until the thread's CPU clock reads `cpu_deadline_ns`: errors of a sequence of runs don't add up.
SpinResult spin_cpu_until(std::int64_t cpu_deadline_ns) noexcept;

// Until the counter reads `deadline`; the result's requested_ns is the time that was left.
SpinResult spin_until_tick(std::uint64_t deadline) noexcept;

// Executes `iterations` of the instruction loop.
void execute(std::uint64_t iterations) noexcept;
SpinResult spin_instructions(std::int64_t instructions) noexcept;

}  // namespace latlab::stubs
