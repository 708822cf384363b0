#include <latlab/bench.hpp>
#include <latlab/bench_loop.hpp>

#include <unistd.h>

#include <thread>
#include <vector>

#include "check.hpp"

namespace bench = latlab::bench;

namespace {
struct Prepared {
  static constexpr bool counts_operations = true;
  int ready = 0;
  int runs = 0;
  void set_up() { ready = 1; }
  int run() {
    ++runs;
    return 7;
  }
  void tear_down() { ready = 0; }
};
struct Growing {
  static constexpr bool counts_operations = true;
  int count = 0;
  int run() { return ++count; }
};
struct Answering {
  int count = 0;
  int run() { return ++count; }
};
}  // namespace

TEST("a number that run() returns counts operations only where the fixture says so") {
  const bench::Descriptor test = bench::describe<Answering>("Answering");
  void* const fixture = test.create({});
  CHECK_EQUAL(1U, test.run(fixture, 3));
  test.destroy(fixture);
}

TEST("a fixture's optional parts are found, and a batch returns the operations of one run") {
  const bench::Descriptor test = bench::describe<Prepared>("Prepared");
  CHECK(test.set_up != nullptr && test.tear_down != nullptr);
  void* const fixture = test.create({});
  CHECK_EQUAL(7U, test.run(fixture, 5));
  CHECK_EQUAL(5, static_cast<Prepared*>(fixture)->runs);
  test.destroy(fixture);
}

TEST("runs of different operation counts are found within a batch") {
  const bench::Descriptor test = bench::describe<Growing>("Growing");
  CHECK(test.set_up == nullptr);
  void* const fixture = test.create({});
  CHECK_EQUAL(bench::uneven, test.run(fixture, 3));
  test.destroy(fixture);
}

TEST("parameters are found by name, and a missing one has its default") {
  const bench::Parameter given[] = {{"size", "12"}, {"seed", "0x10"}};
  const bench::Parameters parameters{given, 2};
  CHECK_EQUAL(12U, parameters.get("size", 5));
  CHECK_EQUAL(16U, parameters.seed());
  CHECK_EQUAL(5U, parameters.get("other", 5));
}

TEST("the loop stops where a run says so, and returns the iterations that were finished") {
  std::vector<std::uint64_t> ticks(10, 0);
  CHECK_EQUAL(10U, bench::measure_back_to_back(ticks.data(), 10, [](std::size_t) { return true; }));
  CHECK_EQUAL(4U, bench::measure_back_to_back(ticks.data(), 10, [](std::size_t i) { return i < 4; }));
  int set_ups = 0;
  const auto set_up = [&] { return ++set_ups < 3; };
  const auto go = [] { return true; };
  CHECK_EQUAL(2U, bench::measure_with_setup(ticks.data(), 10, set_up, [](std::size_t) { return true; }, go));
}

TEST("a batch is long against the clock's step, and the clock has a step and a cost") {
  const bench::ClockGrain grain = bench::clock_grain();
  CHECK(grain.quantum_ticks > 0);
  CHECK(grain.read_ticks > 0);
  std::uint64_t longest = 0;
  const std::uint64_t batch = bench::find_batch(
      [&](std::uint64_t runs) {
        longest = std::max(longest, runs);
        for (std::uint64_t i = 0; i < runs; ++i) bench::clobber();
      },
      grain.quantum_ticks);
  CHECK_EQUAL(longest, batch);
}

TEST("two sides take turns of the asked length, the first beginning, and measure all of their iterations") {
  int ends[2] = {-1, -1};
  CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  std::vector<int> turns_of;  // whose turn, in their order; the socket orders the two threads' writes
  const auto side = [&](int which, std::vector<std::uint64_t>& out) {
    const bench::Turns turns{ends[which], which == 0, 4, 1};
    int unmeasured = 0;
    const std::size_t finished = bench::measure_in_turns(
        turns, out.data(), out.size(), [&] { ++unmeasured; },
        [&](std::uint64_t* to, std::size_t count) {
          turns_of.push_back(which);
          for (std::size_t i = 0; i < count; ++i) to[i] = count;
          return count;
        });
    CHECK_EQUAL(finished, out.size());
    CHECK(unmeasured >= 3 && unmeasured <= 6);  // one before each turn, and one or none more, drawn
  };
  std::vector<std::uint64_t> first(10);
  std::vector<std::uint64_t> second(10);
  std::thread other([&] { side(1, second); });
  side(0, first);
  other.join();
  CHECK((turns_of == std::vector<int>{0, 1, 0, 1, 0, 1}));
  CHECK((first == std::vector<std::uint64_t>{4, 4, 4, 4, 4, 4, 4, 4, 2, 2}));
  CHECK(second == first);
  close(ends[0]);
  close(ends[1]);
}

TEST("a side whose other side has gone ends with what it has measured") {
  int ends[2] = {-1, -1};
  CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const bench::Turns turns{ends[0], true, 4, 0};
  turns.pass();
  close(ends[1]);
  std::vector<std::uint64_t> out(8);
  const std::size_t finished = bench::measure_in_turns(
      turns, out.data(), out.size(), [] {}, [](std::uint64_t*, std::size_t count) { return count; });
  CHECK_EQUAL(finished, std::size_t{0});
  close(ends[0]);
}
