#include "system/counter.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <ctime>
#include <latlab/clock.hpp>

namespace latlab::system {

namespace {

// Keeps a value, and therefore the reading that made it, from being optimised away.
void keep(std::uint64_t value) {
  asm volatile("" : : "r"(value) : "memory");
}

template <class Reader>
double cost(Reader read, std::size_t batches) {
  constexpr int readings = 256;
  std::vector<std::uint64_t> spent(std::max<std::size_t>(batches, 1));
  for (auto& ticks : spent) {
    const std::uint64_t before = latlab::ticks_ordered();
    for (int i = 0; i < readings; ++i) keep(read());
    ticks = latlab::ticks_ordered() - before;
  }
  const auto middle = spent.begin() + static_cast<std::ptrdiff_t>((spent.size() - 1) / 2);
  std::nth_element(spent.begin(), middle, spent.end());
  return static_cast<double>(*middle) / readings;
}

}  // namespace

std::uint64_t counter_quantum(std::span<const std::uint64_t> readings) {
  std::vector<std::uint64_t> distances;
  distances.reserve(readings.size());
  std::uint64_t fresh = 0;
  bool any = false;
  for (std::size_t i = 1; i < readings.size(); ++i) {
    if (readings[i] <= readings[i - 1] + 1) continue;
    // A fresh reading right after a borrowed one is on the grid again, so it is measured from the last fresh
    // one.
    if (any) distances.push_back(readings[i] - fresh);
    fresh = readings[i];
    any = true;
  }
  if (distances.size() < 16) return 1;
  const auto middle = distances.begin() + static_cast<std::ptrdiff_t>(distances.size() / 2);
  std::nth_element(distances.begin(), middle, distances.end());
  const std::uint64_t most = *middle;
  constexpr std::uint64_t longest_step = 1U << 16U;
  for (std::uint64_t step = std::min(most, longest_step); step > 1; --step) {
    const auto multiples = std::count_if(distances.begin(), distances.end(),
                                         [step](std::uint64_t distance) { return distance % step == 0; });
    if (static_cast<std::size_t>(multiples) * 10 >= distances.size() * 9) return step;
  }
  return 1;
}

std::vector<std::uint64_t> uneven_readings(std::size_t count) {
  std::vector<std::uint64_t> readings(count);
  std::uint64_t dice = 0x9E3779B97F4A7C15U;
  for (auto& reading : readings) {
    // xorshift64: up to 63 turns of an empty loop between two readings.
    dice ^= dice << 13U;
    dice ^= dice >> 7U;
    dice ^= dice << 17U;
    for (std::uint64_t turn = dice >> 58U; turn > 0; --turn) keep(turn);
    reading = latlab::ticks();
  }
  return readings;
}

double read_cost_ticks(Read kind, std::size_t batches) {
  switch (kind) {
    case Read::plain:
      return cost(latlab::ticks, batches);
    case Read::ordered:
      return cost(latlab::ticks_ordered, batches);
    case Read::monotonic:
      return cost(latlab::monotonic_ns, batches);
  }
  return 0.0;
}

double clock_cost_ticks(int clock, std::size_t batches) {
  if (clock == kUsage) {
    return cost(
        [] {
          rusage used{};
          getrusage(RUSAGE_SELF, &used);
          return static_cast<std::uint64_t>(used.ru_utime.tv_usec);
        },
        batches);
  }
  timespec now{};
  if (clock_gettime(clock, &now) != 0) return 0.0;
  return cost(
      [clock] {
        timespec read{};
        clock_gettime(clock, &read);
        return static_cast<std::uint64_t>(read.tv_nsec);
      },
      batches);
}

std::uint64_t largest_backward_step(std::size_t count) {
  std::uint64_t worst = 0;
  std::uint64_t previous = latlab::ticks_ordered();
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t now = latlab::ticks_ordered();
    if (now < previous) worst = std::max(worst, previous - now);
    previous = now;
  }
  return worst;
}

}  // namespace latlab::system
