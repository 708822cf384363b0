#include "stubs/calibrate.hpp"

#include <sys/prctl.h>

#include <latlab/clock.hpp>

#include "stubs/spin.hpp"

namespace latlab::stubs {
namespace {

void reserve(Achieved& achieved, int repetitions) {
  const auto count = static_cast<std::size_t>(repetitions);
  for (auto* series : {&achieved.wall_ns, &achieved.cpu_ns, &achieved.burned_ns}) {
    series->reserve(count);
  }
  achieved.preempted.reserve(count);
}

}  // namespace

Achieved measure_spins(SpinMode mode, std::int64_t ns, int repetitions) {
  const auto instructions =
      static_cast<std::int64_t>(static_cast<double>(ns) * spin_calibration().iterations_per_ns *
                                static_cast<double>(kInstructionsPerIteration));
  Achieved achieved;
  reserve(achieved, repetitions);
  // One reading ends a spin and begins the next: each lets the scheduler look whether this thread's turn is
  // over (a switch costs 1 to 3 us of its time), and what is outside the stubs should be as little as can be.
  std::int64_t cpu = thread_cpu_ns();
  for (int i = 0; i < repetitions; ++i) {
    const std::uint64_t start = ticks_ordered();
    SpinResult result;
    switch (mode) {
      case SpinMode::kWall:
        result = spin_wall(ns);
        break;
      case SpinMode::kCpu:
        result = spin_cpu(ns);
        break;
      case SpinMode::kInstructions:
        result = spin_instructions(instructions);
        break;
    }
    const std::uint64_t end = ticks_ordered();
    const std::int64_t cpu_after = thread_cpu_ns();
    achieved.wall_ns.push_back(ticks_to_duration_ns(end - start));
    // Two readings lie between: each includes one half of its cost.
    achieved.cpu_ns.push_back(cpu_after - cpu - static_cast<std::int64_t>(spin_calibration().cpu_clock_ns));
    achieved.burned_ns.push_back(0);
    achieved.preempted.push_back(result.preempted ? 1 : 0);
    cpu = cpu_after;
  }
  return achieved;
}

Achieved measure_sleeps(SleepMode mode, std::int64_t ns, int repetitions, bool default_slack) {
  Sleeper sleeper;
  if (default_slack) prctl(PR_SET_TIMERSLACK, 50'000UL, 0, 0, 0);
  if (mode != SleepMode::kPlain) sleeper.learn(ns, 15);
  Achieved achieved;
  reserve(achieved, repetitions);
  for (int i = 0; i < repetitions; ++i) {
    const std::int64_t cpu = thread_cpu_ns();
    const std::uint64_t start = ticks_ordered();
    const SleepResult result = sleeper.sleep(ns, mode);
    const std::uint64_t end = ticks_ordered();
    achieved.cpu_ns.push_back(thread_cpu_ns() - cpu);
    achieved.wall_ns.push_back(ticks_to_duration_ns(end - start));
    achieved.burned_ns.push_back(result.burned_ns);
    achieved.preempted.push_back(0);
  }
  return achieved;
}

}  // namespace latlab::stubs
