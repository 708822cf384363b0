// Threads: every function may be called from any thread at any time; a ClockReference is plain data.
//
// One monotonic clock for the whole laboratory: the time-stamp counter, tied to CLOCK_MONOTONIC by two
// simultaneous readings, one at each end of what was measured. A rate that was calibrated beforehand
// drifts away from the interval that it is used on; a rate over the interval itself can't.
#pragma once

#include <cstdint>
#include <ctime>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace latlab {

// A clock of the kernel's.
inline std::uint64_t clock_ns(clockid_t clock) noexcept {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}
inline std::uint64_t monotonic_ns() noexcept {
  return clock_ns(CLOCK_MONOTONIC);
}

// The counter, without ordering: may move by a few instructions either way. 7 to 10 ns.
inline std::uint64_t ticks() noexcept {
#if defined(__x86_64__)
  return __rdtsc();
#elif defined(__aarch64__)
  std::uint64_t value;
  asm volatile("mrs %0, cntvct_el0" : "=r"(value));
  return value;
#else
  return monotonic_ns();
#endif
}

// Readings of the counter behind it come after all loads in front of it; `ticks` alone promises no such
// order.
inline void order_reads() noexcept {
#if defined(__x86_64__)
  _mm_lfence();
#elif defined(__aarch64__)
  asm volatile("isb" : : : "memory");
#endif
}

// The counter after everything before it has finished, and before anything after it starts.
inline std::uint64_t ticks_ordered() noexcept {
#if defined(__x86_64__)
  unsigned cpu;
  const std::uint64_t value = __rdtscp(&cpu);  // waits for what comes before
  _mm_lfence();                                // holds back what comes after
  return value;
#elif defined(__aarch64__)
  std::uint64_t value;
  asm volatile("isb\n\tmrs %0, cntvct_el0\n\tisb" : "=r"(value) : : "memory");
  return value;
#else
  return ticks();
#endif
}

// The counter and CLOCK_MONOTONIC at one instant.
struct ClockReference {
  std::uint64_t ticks = 0;
  std::uint64_t ns = 0;
};

// Reads both clocks together. Of `attempts` the one whose two counter readings lie closest is kept, since an
// interruption between them would be taken for an offset. `width_ticks`, where given, is set to the distance
// of those two readings: the reference is off by half of it at most.
inline ClockReference clock_reference(int attempts = 16, std::uint64_t* width_ticks = nullptr) noexcept {
  ClockReference best{};
  std::uint64_t narrowest = ~0ULL;
  for (int i = 0; i < attempts; ++i) {
    const std::uint64_t before = ticks_ordered();
    const std::uint64_t ns = monotonic_ns();
    const std::uint64_t after = ticks_ordered();
    if (after - before < narrowest) {
      narrowest = after - before;
      best = {before + (after - before) / 2, ns};
    }
  }
  if (width_ticks != nullptr) *width_ticks = narrowest;
  return best;
}

// Counter steps per second between two references; 0 where they are the same instant.
inline double ticks_hz(const ClockReference& from, const ClockReference& to) noexcept {
  if (to.ns <= from.ns) return 0.0;
  return static_cast<double>(to.ticks - from.ticks) * 1e9 / static_cast<double>(to.ns - from.ns);
}

// The CLOCK_MONOTONIC time of a counter reading, by the line through a reference.
inline std::uint64_t ticks_to_ns(std::uint64_t at, const ClockReference& reference, double hz) noexcept {
  const double delta = at >= reference.ticks ? static_cast<double>(at - reference.ticks)
                                             : -static_cast<double>(reference.ticks - at);
  return reference.ns + static_cast<std::uint64_t>(static_cast<std::int64_t>(delta * 1e9 / hz));
}

}  // namespace latlab
