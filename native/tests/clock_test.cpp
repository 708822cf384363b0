#include <latlab/clock.hpp>

#include "check.hpp"

using latlab::ClockReference;

TEST("a counter reading is turned into nanoseconds by the line through the reference") {
  const ClockReference reference{.ticks = 1000, .ns = 500};
  CHECK_EQUAL(510U, latlab::ticks_to_ns(1020, reference, 2e9));
  CHECK_EQUAL(490U, latlab::ticks_to_ns(980, reference, 2e9));
}

TEST("the rate of the counter is taken over the interval between two references") {
  CHECK_EQUAL(2.5e9, latlab::ticks_hz({.ticks = 0, .ns = 0}, {.ticks = 2500, .ns = 1000}));
}

TEST("two references at one instant give no rate") {
  CHECK_EQUAL(0.0, latlab::ticks_hz({.ticks = 7, .ns = 9}, {.ticks = 7, .ns = 9}));
}

TEST("the counter never runs backwards on one thread") {
  std::uint64_t previous = latlab::ticks_ordered();
  for (int i = 0; i < 10000; ++i) {
    const std::uint64_t now = latlab::ticks_ordered();
    CHECK(now >= previous);
    previous = now;
  }
}
