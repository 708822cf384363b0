#include "stubs/spin.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <latlab/clock.hpp>

#include "stubs/preemption.hpp"

namespace latlab::stubs {
namespace {

// Without rseq a gap is all there is. An interrupt takes 1 to 10 us here, a competitor's turn a millisecond
// or more.
constexpr std::int64_t kSwitchGap_ns = 20'000;
// A gap from which on the CPU clock is asked what was taken: an undisturbed loop has gaps of 20 ns.
constexpr std::int64_t kTakenGap_ns = 3'000;
// Below this the next reading of the CPU clock would cost more than what is left.
constexpr std::int64_t kCpuResolution_ns = 100;
// A reading of the thread's CPU clock lets the scheduler look whether the thread's turn is over. One this
// long before the end takes that look within the spin, where the switch's own cost (1 to 20 us) is part of
// the account, and not in the reading of whoever measures the spin.
constexpr std::int64_t kLastLook_ns = 25'000;
constexpr std::int64_t kShortestLook_ns = 200'000;

struct Loop {
  std::uint64_t end = 0;
  std::uint64_t longest_gap = 0;
};

inline Loop loop_until(std::uint64_t start, std::uint64_t deadline) noexcept {
  Loop loop{start, 0};
  while (loop.end < deadline) {
    const std::uint64_t now = ticks();
    loop.longest_gap = std::max(loop.longest_gap, now - loop.end);
    loop.end = now;
  }
  return loop;
}

inline bool was_switched(const SwitchFlag& flag, std::int64_t gap_ns) noexcept {
  return SwitchFlag::available() ? flag.down() : gap_ns > kSwitchGap_ns;
}

template <class Measure>
double median_ticks(Measure measure) noexcept {
  std::array<std::uint64_t, 201> found{};
  for (auto& value : found) value = measure();
  std::nth_element(found.begin(), found.begin() + found.size() / 2, found.end());
  return static_cast<double>(found[found.size() / 2]);
}

// A study measures once and hands the result to every run, which so starts 20 ms earlier.
bool read_calibration(SpinCalibration& given) noexcept {
  const char* text = std::getenv("LATLAB_STUBS_CALIBRATION");
  if (text == nullptr) return false;
  char* end = nullptr;
  given.ticks_per_ns = std::strtod(text, &end);
  given.iterations_per_ns = std::strtod(end, &end);
  given.cpu_clock_ns = std::strtod(end, &end);
  given.spin_bias_ns = std::strtod(end, &end);
  given.switch_flag = SwitchFlag::available();
  return given.ticks_per_ns > 0.0 && given.iterations_per_ns > 0.0;
}

// CPU time until `deadline` on the thread's CPU clock, which reads `cpu` at the counter's `start`.
// The flag was raised before both were read: a switch between the two readings, which happens as often as not
// (the kernel switches when it returns from the system call), must not go unseen.
SpinResult run_cpu(SwitchFlag& flag, std::uint64_t start, std::int64_t cpu, std::int64_t deadline,
                   std::int64_t clock_ns) noexcept {
  const double rate = spin_calibration().ticks_per_ns;
  const std::int64_t cpu_start = cpu;
  SpinResult result{.requested_ns = deadline - cpu};
  std::uint64_t from = start;
  bool looked = deadline - cpu < kShortestLook_ns;
  for (;;) {
    const std::int64_t left = deadline - cpu - (looked ? 0 : kLastLook_ns);
    const Loop loop =
        loop_until(from, from + static_cast<std::uint64_t>(std::max<std::int64_t>(left, 0) * rate));
    const auto gap = ticks_to_duration_ns(loop.longest_gap);
    result.longest_gap_ns = std::max(result.longest_gap_ns, gap);
    const bool switched = was_switched(flag, gap);
    result.preempted = result.preempted || switched;
    // Interrupts and the hypervisor take time too, and the kernel may leave it out of the thread's.
    if (looked && !switched && gap <= kTakenGap_ns) {
      result.wall_ns = ticks_to_duration_ns(loop.end - start);
      result.cpu_ns = cpu - cpu_start + ticks_to_duration_ns(loop.end - from);
      break;
    }
    looked = looked || (!switched && gap <= kTakenGap_ns);
    flag.arm();
    from = ticks();
    cpu = thread_cpu_ns();
    // The first reading lies in the middle of its own cost, and so does the last: one cost is outside both.
    if (++result.checkpoints == 1) deadline -= clock_ns;
    if (deadline - cpu <= kCpuResolution_ns) {
      result.wall_ns = ticks_to_duration_ns(ticks() - start);
      result.cpu_ns = cpu - cpu_start;
      break;
    }
  }
  flag.disarm();
  return result;
}

// Until so much CPU time from now, or until so much of the thread's, whichever is later.
SpinResult spin_cpu_time(std::int64_t ns, std::int64_t deadline_ns, std::int64_t clock_ns) noexcept {
  SwitchFlag flag;
  flag.arm();
  const std::uint64_t start = ticks();
  const std::int64_t cpu = thread_cpu_ns();
  SpinResult result = run_cpu(flag, start, cpu, std::max(cpu + ns, deadline_ns), clock_ns);
  ++result.checkpoints;
  return result;
}

}  // namespace

std::int64_t thread_cpu_ns() noexcept {
  return static_cast<std::int64_t>(clock_ns(CLOCK_THREAD_CPUTIME_ID));
}

void execute(std::uint64_t iterations) noexcept {
#if defined(__x86_64__)
  std::uint64_t value = 0x9E3779B97F4A7C15ULL;
  // Eight instructions with one chain of dependencies: neither the compiler nor a wider core can shorten it.
  while (iterations != 0) {  // NOLINT(bugprone-infinite-loop): the assembly counts down
    asm volatile(
        "imulq $0x5851F42D, %0, %0\n\tincq %0\n\trorq $7, %0\n\txorq $0x55, %0\n\t"
        "imulq $0x4C957F2D, %0, %0\n\tincq %0\n\tdecq %1\n\ttestq %1, %1"
        : "+r"(value), "+r"(iterations)
        :
        : "cc");
  }
#else
  std::uint64_t value = 0x9E3779B97F4A7C15ULL;
  for (; iterations != 0; --iterations) {
    value = value * 6364136223846793005ULL + 1442695040888963407ULL;
    asm volatile("" : "+r"(value));  // keeps every iteration
  }
#endif
}

SpinCalibration measure_spin_calibration() noexcept {
  SpinCalibration found;
  const ClockReference from = clock_reference(64);
  found.switch_flag = SwitchFlag::available();
  // Medians: the fastest of many is a speed that the CPU doesn't hold (3 % above it here).
  constexpr std::uint64_t kIterations = 5'000;
  const double loop_ticks = median_ticks([] {
    const std::uint64_t start = ticks_ordered();
    execute(kIterations);
    return ticks_ordered() - start;
  });
  const double clock_ticks = median_ticks([] {
    const std::uint64_t start = ticks_ordered();
    thread_cpu_ns();
    return ticks_ordered() - start;
  });
  constexpr std::uint64_t kSpin = 5'000;  // ticks; about 2 us
  const double spin_ticks = median_ticks([] {
    SwitchFlag flag;
    const std::uint64_t start = ticks_ordered();
    flag.arm();
    const std::uint64_t begin = ticks();
    const Loop loop = loop_until(begin, begin + kSpin);
    flag.disarm();
    asm volatile("" : : "r"(loop.end));
    return ticks_ordered() - start;
  });
  while (monotonic_ns() - from.ns < 20'000'000U) execute(100);
  // 20 ns of error in each reference over 20 ms: two parts in a million, 2 ns at 1 ms.
  const ClockReference to = clock_reference(64);
  found.ticks_per_ns = ticks_hz(from, to) / 1e9;
  found.iterations_per_ns = static_cast<double>(kIterations) / (loop_ticks / found.ticks_per_ns);
  found.cpu_clock_ns = clock_ticks / found.ticks_per_ns;
  found.spin_bias_ns = (spin_ticks - static_cast<double>(kSpin)) / found.ticks_per_ns;
  found.took_ns = static_cast<std::int64_t>(monotonic_ns() - from.ns);
  return found;
}

const SpinCalibration& spin_calibration() noexcept {
  static const SpinCalibration calibration = [] {
    SpinCalibration given;
    return read_calibration(given) ? given : measure_spin_calibration();
  }();
  return calibration;
}

std::int64_t ticks_to_duration_ns(std::uint64_t ticks) noexcept {
  return static_cast<std::int64_t>(static_cast<double>(ticks) / spin_calibration().ticks_per_ns);
}

SpinResult spin_until_tick(std::uint64_t deadline) noexcept {
  const std::uint64_t start = ticks();
  SwitchFlag flag;
  flag.arm();
  const Loop loop = loop_until(start, deadline);
  SpinResult result;
  result.longest_gap_ns = ticks_to_duration_ns(loop.longest_gap);
  result.preempted = was_switched(flag, result.longest_gap_ns);
  flag.disarm();
  result.requested_ns = deadline > start ? ticks_to_duration_ns(deadline - start) : 0;
  result.wall_ns = ticks_to_duration_ns(loop.end - start);
  result.cpu_ns = result.wall_ns;
  return result;
}

SpinResult spin_wall(std::int64_t ns) noexcept {
  const std::uint64_t start = ticks();
  const SpinCalibration& calibration = spin_calibration();
  const double length =
      std::max(0.0, static_cast<double>(ns) - calibration.spin_bias_ns) * calibration.ticks_per_ns;
  SpinResult result = spin_until_tick(start + static_cast<std::uint64_t>(length));
  result.requested_ns = ns;
  return result;
}

SpinResult spin_cpu(std::int64_t ns) noexcept {
  SpinResult result = spin_cpu_time(ns, 0, static_cast<std::int64_t>(spin_calibration().cpu_clock_ns));
  result.requested_ns = ns;
  return result;
}

SpinResult spin_cpu_until(std::int64_t cpu_deadline_ns) noexcept {
  return spin_cpu_time(0, cpu_deadline_ns, 0);
}

SpinResult spin_instructions(std::int64_t instructions) noexcept {
  const auto iterations = static_cast<std::uint64_t>(instructions) / kInstructionsPerIteration;
  const double expected = static_cast<double>(iterations) / spin_calibration().iterations_per_ns;
  SwitchFlag flag;
  flag.arm();
  const std::uint64_t start = ticks();
  execute(iterations);
  const std::uint64_t end = ticks();
  SpinResult result{.requested_ns = static_cast<std::int64_t>(expected)};
  result.wall_ns = ticks_to_duration_ns(end - start);
  result.cpu_ns = result.wall_ns;
  result.longest_gap_ns = std::max<std::int64_t>(0, result.wall_ns - result.requested_ns);
  result.preempted = was_switched(flag, result.longest_gap_ns);
  flag.disarm();
  return result;
}

}  // namespace latlab::stubs
