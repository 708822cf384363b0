#include <cstdint>
#include <stdexcept>
#include <vector>

#include "check.hpp"
#include "schedule/simulation.hpp"

using namespace latlab::schedule;

namespace {

// Steps in the making: rows of {work, deed, argument}, a list for each thread.
struct Row {
  std::int64_t work;
  Deed deed;
  std::int64_t argument = 0;
};

Outcome played(const std::vector<std::vector<Row>>& threads, const Machine& machine,
               std::vector<std::int64_t> born = {}) {
  std::vector<std::int64_t> first{0}, work, argument;
  std::vector<std::uint8_t> deed;
  for (const auto& thread : threads) {
    for (const Row& row : thread) {
      work.push_back(row.work);
      deed.push_back(static_cast<std::uint8_t>(row.deed));
      argument.push_back(row.argument);
    }
    first.push_back(static_cast<std::int64_t>(work.size()));
  }
  if (born.empty()) born.assign(threads.size(), 0);
  return simulate({first, work, deed, argument, {}, born, {}, {}, {}}, machine);
}

constexpr std::int64_t kMs = 1'000'000;

}  // namespace

TEST("a thread alone takes as long as its work") {
  const Outcome out = played({{{5 * kMs, Deed::none}}}, {1});
  CHECK(out.ended_ns == std::vector<std::int64_t>{5 * kMs});
}

TEST("two threads on one CPU take turns and end together, nearly") {
  const Outcome out = played({{{30 * kMs, Deed::none}}, {{30 * kMs, Deed::none}}}, {1});
  CHECK_EQUAL(60 * kMs, std::max(out.ended_ns[0], out.ended_ns[1]));
  CHECK(std::min(out.ended_ns[0], out.ended_ns[1]) >= 56 * kMs);
}

TEST("two threads on two CPUs do not wait for each other") {
  const Outcome out = played({{{30 * kMs, Deed::none}}, {{10 * kMs, Deed::none}}}, {2});
  CHECK((out.ended_ns == std::vector<std::int64_t>{30 * kMs, 10 * kMs}));
  CHECK_EQUAL(std::int64_t{0}, out.ready_ns[0] + out.ready_ns[1]);
}

TEST("a wait ends with its post, and one that was posted before is none") {
  const Outcome late = played({{{0, Deed::wait, 0}, {kMs, Deed::none}}, {{4 * kMs, Deed::post, 0}}}, {2});
  CHECK_EQUAL(5 * kMs, late.ended_ns[0]);
  const Outcome early =
      played({{{6 * kMs, Deed::wait, 0}, {kMs, Deed::none}}, {{4 * kMs, Deed::post, 0}}}, {2});
  CHECK_EQUAL(7 * kMs, early.ended_ns[0]);
  CHECK_EQUAL(std::int64_t{0}, early.blocked_ns[0]);
}

TEST("a timer is absolute or relative") {
  const Outcome relative = played({{{2 * kMs, Deed::sleep, 3 * kMs}, {0, Deed::none}}}, {1});
  CHECK_EQUAL(5 * kMs, relative.ended_ns[0]);
  const Outcome absolute = played({{{2 * kMs, Deed::until, 3 * kMs}, {0, Deed::none}}}, {1});
  CHECK_EQUAL(3 * kMs, absolute.ended_ns[0]);
}

TEST("a lock is held by one at a time, first come, first served") {
  const std::vector<Row> locker = {{0, Deed::lock, 0}, {4 * kMs, Deed::unlock, 0}, {0, Deed::none}};
  const Outcome out = played({locker, locker, locker}, {3});
  CHECK((out.ended_ns == std::vector<std::int64_t>{4 * kMs, 8 * kMs, 12 * kMs}));
}

TEST("a thread begins when it is started, and a join waits for its exit") {
  const Outcome out = played({{{kMs, Deed::start, 1}, {0, Deed::join, 1}, {kMs, Deed::none}},
                              {{3 * kMs, Deed::exit}, {kMs, Deed::none}}},
                             {2}, {0, -1});
  CHECK((out.ended_ns == std::vector<std::int64_t>{5 * kMs, 5 * kMs}));
}

TEST("a thread that is told to end sleeps no more") {
  const Outcome out = played({{{kMs, Deed::halt, 1}, {0, Deed::join, 1}, {0, Deed::none}},
                              {{0, Deed::sleep, 2 * kMs}, {0, Deed::sleep, 2 * kMs}, {kMs, Deed::none}}},
                             {2});
  CHECK_EQUAL(2 * kMs, out.ended_ns[0]);
}

TEST("who wakes up far behind takes the CPU at once") {
  const Outcome out =
      played({{{40 * kMs, Deed::none}}, {{0, Deed::until, 20 * kMs}, {kMs, Deed::none}}}, {1});
  CHECK(out.ended_ns[1] <= 22 * kMs);
}

TEST("waits that all wait for each other are let go one by one, and counted") {
  const Outcome out =
      played({{{0, Deed::wait, 0}, {0, Deed::post, 1}}, {{0, Deed::wait, 1}, {0, Deed::post, 0}}}, {2});
  CHECK_EQUAL(std::int64_t{1}, out.forced);
  CHECK(out.ended_ns[0] >= 0);
  CHECK(out.ended_ns[1] >= 0);
}

TEST("steps that do not fit together are refused") {
  bool refused = false;
  try {
    played({{{0, Deed::join, 7}}}, {1});
  } catch (const std::invalid_argument&) {
    refused = true;
  }
  CHECK(refused);
}

TEST("with a queue for each CPU who has one alone shares it with nobody, and an idle CPU takes over") {
  Machine machine{2};
  machine.own_queues = true;
  const Outcome out =
      played({{{30 * kMs, Deed::none}}, {{30 * kMs, Deed::none}}, {{30 * kMs, Deed::none}}}, machine);
  CHECK_EQUAL(30 * kMs, out.ended_ns[1]);
  CHECK_EQUAL(std::int64_t{0}, out.ready_ns[1]);
  CHECK_EQUAL(45 * kMs, std::max(out.ended_ns[0], out.ended_ns[2]));
}

TEST("a woken thread goes back to the CPU that it had, and waits there, where no other is idle") {
  Machine machine{2, 0, 3 * kMs, 1'000 * kMs};
  machine.own_queues = machine.turns = true;
  // The first naps, while the other two have the CPUs; the third came to the first one's.
  const Outcome out = played(
      {{{kMs, Deed::sleep, 2 * kMs}, {kMs, Deed::none}}, {{20 * kMs, Deed::none}}, {{20 * kMs, Deed::none}}},
      machine, {0, 0, kMs + 1});
  CHECK_EQUAL(20 * kMs, out.ended_ns[1]);
  CHECK(out.ready_ns[0] > 0);
}

TEST("who waits for a CPU is taken over by an idle one once it has waited for long enough") {
  Machine machine{2};
  machine.own_queues = true;
  machine.stay_ns = 4 * kMs;
  machine.slice_ns = 100 * kMs;
  // Two on the first CPU, and one on the other, which ends at 1 ms; the second of the two has waited since 0.
  const Outcome out =
      played({{{30 * kMs, Deed::none}}, {{kMs, Deed::none}}, {{10 * kMs, Deed::none}}}, machine);
  CHECK_EQUAL(14 * kMs, out.ended_ns[2]);
  CHECK_EQUAL(4 * kMs, out.ready_ns[2]);
}

TEST("turns say when each thread had a CPU, and no CPU has two") {
  Machine machine{1, 0, 2 * kMs};
  machine.turns = true;
  const Outcome out = played({{{5 * kMs, Deed::none}}, {{7 * kMs, Deed::none}}}, machine);
  std::vector<std::int64_t> ran(2);
  std::int64_t last = 0;
  for (const Turn& turn : out.turns) {
    CHECK(turn.begin_ns >= last);
    last = turn.end_ns;
    ran[static_cast<std::size_t>(turn.thread)] += turn.end_ns - turn.begin_ns;
  }
  CHECK((ran == std::vector<std::int64_t>{5 * kMs, 7 * kMs}));
}
