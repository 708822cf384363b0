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
