// Threads: every function may be called from any thread.
//
// Requested against achieved: each stub measured from outside, by clocks that it doesn't use itself to
// decide.
#pragma once

#include <cstdint>
#include <vector>

#include "stubs/sleep.hpp"

namespace latlab::stubs {

enum class SpinMode { kWall, kCpu, kInstructions };

struct Achieved {
  std::vector<std::int64_t> wall_ns;
  std::vector<std::int64_t> cpu_ns;     // by the thread's CPU clock, read outside the stub
  std::vector<std::int64_t> burned_ns;  // CPU time of a sleep that spins its end
  std::vector<std::uint8_t> preempted;  // what the stub said
};

Achieved measure_spins(SpinMode mode, std::int64_t ns, int repetitions);
Achieved measure_sleeps(SleepMode mode, std::int64_t ns, int repetitions, bool default_slack);

}  // namespace latlab::stubs
