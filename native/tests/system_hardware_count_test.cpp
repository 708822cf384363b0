#include <latlab/clock.hpp>
#include <latlab/hardware_count.hpp>

#include <thread>

#include "check.hpp"

using latlab::Counted;
using latlab::HardwareCount;

namespace {

void work(std::uint64_t ns) {
  const std::uint64_t until = latlab::monotonic_ns() + ns;
  while (latlab::monotonic_ns() < until) {
  }
}

}  // namespace

TEST("a count with inheritance takes in the threads that are made later, and one without does not") {
  const HardwareCount with(Counted::task_clock, 0, true);
  const HardwareCount without(Counted::task_clock, 0, false);
  if (!with.counts()) return;  // a kernel that forbids it says so in error()
  std::thread other([] { work(20'000'000); });
  other.join();
  // Of 20 ms of wall time a thread on a busy machine gets some; the waiting one takes next to none.
  CHECK(with.now() > 1'000'000);
  CHECK(without.now() < with.now());
}

TEST("a counter of a task that isn't there says why") {
  const HardwareCount nobody(Counted::task_clock, 0x3fffffff, false);
  CHECK(!nobody.counts());
  CHECK(nobody.error() != 0);
  CHECK(nobody.now() == -1);
}

TEST("counters go by the names that perf gives them") {
  CHECK(latlab::counted_by_name("LLC-load-misses") == Counted::llc_load_misses);
  CHECK(!latlab::counted_by_name("LLC").has_value());
}
