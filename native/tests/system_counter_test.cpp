#include "system/counter.hpp"

#include <ctime>

#include <random>

#include "check.hpp"

using latlab::system::counter_quantum;
using latlab::system::Read;

namespace {

// Readings of a counter that steps by `step`: `instant` is what a perfect one would show. With `borrowing`, a
// second reading within one step is given as the previous one + 1.
std::vector<std::uint64_t> planted(std::uint64_t step, std::uint64_t pace, bool borrowing) {
  std::mt19937_64 dice(step);
  std::vector<std::uint64_t> readings;
  std::uint64_t instant = 1'000'003;
  for (int i = 0; i < 5000; ++i) {
    instant += 1 + dice() % pace;
    std::uint64_t shown = instant / step * step;
    if (borrowing && !readings.empty() && shown <= readings.back()) shown = readings.back() + 1;
    readings.push_back(shown);
  }
  return readings;
}

}  // namespace

TEST("the step of a coarse counter is found") {
  for (const std::uint64_t step : {2U, 3U, 26U, 35U, 1000U}) {
    CHECK_EQUAL(step, counter_quantum(planted(step, 4 * step, false)));
  }
}

TEST("the step is found although repeated readings borrow a tick") {
  for (const std::uint64_t step : {26U, 100U}) {
    CHECK_EQUAL(step, counter_quantum(planted(step, 2 * step, true)));
    CHECK_EQUAL(step, counter_quantum(planted(step, step, true)));
  }
}

TEST("a counter that moves by every tick has a step of 1") {
  CHECK_EQUAL(1U, counter_quantum(planted(1, 200, false)));
  CHECK_EQUAL(1U, counter_quantum(planted(1, 3, true)));
}

TEST("too few readings, or a counter that stands still, give a step of 1") {
  CHECK_EQUAL(1U, counter_quantum({}));
  const std::vector<std::uint64_t> still(1000, 7);
  CHECK_EQUAL(1U, counter_quantum(still));
}

TEST("reading the clock costs something") {
  for (const Read kind : {Read::plain, Read::ordered, Read::monotonic}) {
    CHECK(latlab::system::read_cost_ticks(kind, 15) > 0.0);
  }
}

TEST("every clock of the kernel costs something, and one that it has not costs nothing") {
  for (const int clock : {CLOCK_MONOTONIC, CLOCK_THREAD_CPUTIME_ID, latlab::system::kUsage}) {
    CHECK(latlab::system::clock_cost_ticks(clock, 5) > 0.0);
  }
  CHECK_EQUAL(0.0, latlab::system::clock_cost_ticks(1000, 5));
}

TEST("the ordered counter does not step backwards on one thread") {
  CHECK_EQUAL(0U, latlab::system::largest_backward_step(10'000));
}
