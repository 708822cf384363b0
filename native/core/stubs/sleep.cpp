#include "stubs/sleep.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <ctime>
#include <latlab/clock.hpp>

#include "stubs/spin.hpp"

namespace latlab::stubs {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
// Beyond the bias the spin must also cover the wake-up's scatter (p99 about 10 us on a quiet machine).
constexpr std::int64_t kSpinMargin_ns = 15'000;

void kernel_sleep_until(std::int64_t deadline_ns) noexcept {
  timespec at{};
  at.tv_sec = static_cast<time_t>(deadline_ns / kSecond);
  at.tv_nsec = static_cast<long>(deadline_ns % kSecond);
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr) == EINTR) {
  }
}

void spin_until_ns(std::int64_t deadline_ns) noexcept {
  const auto reference = static_cast<std::int64_t>(monotonic_ns());
  if (reference < deadline_ns) spin_wall(deadline_ns - reference);
}

}  // namespace

Sleeper::Sleeper() noexcept : slack_before_(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0)) {
  prctl(PR_SET_TIMERSLACK, 1UL, 0, 0, 0);
}

Sleeper::~Sleeper() {
  if (slack_before_ > 0) prctl(PR_SET_TIMERSLACK, static_cast<unsigned long>(slack_before_), 0, 0, 0);
}

std::size_t Sleeper::bucket(std::int64_t ns) noexcept {
  const auto width =
      static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(ns, 1))));
  return std::min<std::size_t>(width / 2, 15);
}

void Sleeper::History::add(std::int64_t value) noexcept {
  overshoot[count % kSize] = value;
  ++count;
  std::array<std::int64_t, kSize> sorted = overshoot;
  const auto used = std::min(count, kSize);
  std::sort(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(used));
  median = sorted[(used - 1) / 2];
}

SleepResult Sleeper::sleep(std::int64_t ns, SleepMode mode) noexcept {
  return sleep_until(static_cast<std::int64_t>(monotonic_ns()) + ns, mode);
}

SleepResult Sleeper::sleep_until(std::int64_t deadline_ns, SleepMode mode) noexcept {
  const auto start = static_cast<std::int64_t>(monotonic_ns());
  const std::int64_t ns = std::max<std::int64_t>(deadline_ns - start, 0);
  SleepResult result{.requested_ns = ns};
  History& history = histories_[bucket(ns)];
  std::int64_t early = 0;
  if (mode == SleepMode::kCorrected) early = history.median;
  if (mode == SleepMode::kSpinEnd) early = history.median + kSpinMargin_ns;
  const std::int64_t target = deadline_ns - early;
  if (target > start) {
    kernel_sleep_until(target);
    history.add(static_cast<std::int64_t>(monotonic_ns()) - target);
  }
  if (mode == SleepMode::kSpinEnd) {
    const auto from = static_cast<std::int64_t>(monotonic_ns());
    spin_until_ns(deadline_ns);
    result.burned_ns = static_cast<std::int64_t>(monotonic_ns()) - from;
  } else if (target <= start && mode == SleepMode::kCorrected && ns > 0) {
    // Shorter than the kernel's own delay: a sleep would be too long, so the CPU is held and this is said.
    spin_until_ns(deadline_ns);
    result.burned_ns = static_cast<std::int64_t>(monotonic_ns()) - start;
  }
  result.wall_ns = static_cast<std::int64_t>(monotonic_ns()) - start;
  return result;
}

void Sleeper::learn(std::int64_t ns, int repetitions) noexcept {
  for (int i = 0; i < repetitions; ++i) sleep(ns, i < 3 ? SleepMode::kPlain : SleepMode::kCorrected);
}

Sleeper& thread_sleeper() noexcept {
  thread_local Sleeper sleeper;
  return sleeper;
}

}  // namespace latlab::stubs
