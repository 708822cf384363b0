#include <latlab/clock.hpp>
#include <thread>

#include "check.hpp"
#include "stubs/io.hpp"
#include "stubs/memory.hpp"
#include "stubs/player.hpp"
#include "stubs/preemption.hpp"
#include "stubs/sleep.hpp"
#include "stubs/spin.hpp"

using latlab::stubs::Action;
using latlab::stubs::Verb;

// Wide: the kernel may leave interrupts and stolen time out of the thread's clock.
TEST("a spin on the CPU clock delivers what was asked for") {
  for (const std::int64_t ns : {10'000, 300'000, 2'000'000}) {
    const std::int64_t before = latlab::stubs::thread_cpu_ns();
    const auto result = latlab::stubs::spin_cpu(ns);
    CHECK(latlab::stubs::thread_cpu_ns() - before >= ns * 9 / 10 - 20'000);
    CHECK(result.cpu_ns >= ns * 9 / 10 - 20'000);
    CHECK(result.wall_ns >= ns * 9 / 10 - 20'000);
  }
}

TEST("a spin that is switched out in the middle says so") {
  if (!latlab::stubs::SwitchFlag::available()) return;
  latlab::stubs::SwitchFlag flag;
  flag.arm();
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(flag.down());
}

TEST("no sleep ends before its deadline by more than what was learnt, and a spun end never does") {
  latlab::stubs::Sleeper sleeper;
  for (int i = 0; i < 5; ++i) {
    const auto result = sleeper.sleep(300'000, latlab::stubs::SleepMode::kSpinEnd);
    CHECK(result.wall_ns >= 299'000);
    CHECK(result.burned_ns >= 0);
  }
}

TEST("a created thread starts after its creator and a join waits for its end") {
  latlab::stubs::PlayPlan plan;
  plan.threads = {{{Verb::kRun, 200'000, 0}, {Verb::kCreate, 0, 1}, {Verb::kJoin, 0, 1}},
                  {{Verb::kRun, 300'000, 0}, {Verb::kSleep, 500'000, 0}}};
  plan.created = {false, true};
  const auto played = latlab::stubs::play(plan);
  CHECK(!played.timed_out);
  CHECK(played.threads[1].start_ns >= 200'000);
  CHECK(played.threads[0].end_ns >= played.threads[1].end_ns - 200'000);
  CHECK_EQUAL(300'000, played.threads[1].budget_ns);
  CHECK(played.threads[1].run_ns >= 300'000);
}

TEST("creates with turns come in their order, and one whose turn never comes is not waited for long") {
  latlab::stubs::PlayPlan plan;
  plan.scheduled = true;
  plan.threads = {{{Verb::kCreate, 0, 2, 1}, {Verb::kJoin, 0, 2}},
                  {{Verb::kSleep, 100'000, 0}, {Verb::kCreate, 0, 3, 0}, {Verb::kCreate, 0, 4, 9}},
                  {},
                  {},
                  {}};
  plan.created = {false, false, true, true, true};
  const auto played = latlab::stubs::play(plan);
  CHECK(!played.timed_out);
  const auto& first = played.threads[1].events;
  const auto& second = played.threads[0].events;
  CHECK_EQUAL(6U, first.size());
  CHECK_EQUAL(6U, second.size());
  // The sleeper's may be late by more than anybody waits for it.
  CHECK(second[0] >= first[0] || second[0] >= 300'000);
  CHECK(second[0] >= 100'000);
  CHECK(first[3] >= first[0] + 300'000);
}

TEST("a repeated block of runs under a lock spends the budget of all its turns") {
  latlab::stubs::PlayPlan plan;
  const std::vector<Action> loop = {{Verb::kRepeat, 5, 4},
                                    {Verb::kWait, 0, 0},
                                    {Verb::kRun, 20'000, 0},
                                    {Verb::kSignal, 0, 0},
                                    {Verb::kEnd, 0, 0}};
  plan.threads = {loop, loop};
  plan.created = {false, false};
  plan.semaphores = {1};
  const auto played = latlab::stubs::play(plan);
  CHECK_EQUAL(100'000, played.threads[0].budget_ns);
  CHECK_EQUAL(100'000, played.threads[1].budget_ns);
}

TEST("a wait that nobody ends is given up at the time limit") {
  latlab::stubs::PlayPlan plan;
  plan.threads = {{{Verb::kWait, 0, 0}}};
  plan.created = {false};
  plan.semaphores = {0};
  plan.timeout_ns = 50'000'000;
  CHECK(latlab::stubs::play(plan).timed_out);
}

TEST("the cache stub visits every line of its working set") {
  latlab::stubs::CacheStub stub(4096, 64, 0.5, 1);
  CHECK_EQUAL(128, stub.run(128).accesses);
}

TEST("the memory plan touches what it asks for, on heap and stack") {
  const auto result =
      latlab::stubs::run_memory_plan({{0, 1'048'576, 0}, {1'000'000, 0, 262'144}, {2'000'000, 0, 0}});
  CHECK(result.page_faults >= 250);
  CHECK(result.wall_ns >= 1'900'000);
}

TEST("bytes that are sent over loopback at a rate arrive, no faster than the rate") {
  const auto result = latlab::stubs::run_network(100'000, 20e6, 1'000'000, 10'000);
  CHECK_EQUAL(100'000, result.bytes);
  CHECK(result.wall_ns >= 4'000'000);
  CHECK(result.first_byte_ns >= 900'000);
}

TEST("a global load is busy for its part of the time and ends when it is told to") {
  latlab::stubs::GlobalLoad load({.cpus = {0}, .duty = 0.2, .period_ns = 2'000'000, .disk_path = {}});
  load.start();
  // Until it has come to its turn, however loaded the machine is.
  for (int turn = 0; turn < 1000 && load.busy_ns() == 0; ++turn) {
    latlab::stubs::thread_sleeper().sleep(20'000'000, latlab::stubs::SleepMode::kPlain);
  }
  load.stop();
  CHECK(load.busy_ns() > 0);
}

TEST(
    "by the schedule a late thread makes its lateness good in its next sleep, and so do those that wait for "
    "it") {
  latlab::stubs::PlayPlan plan;
  plan.scheduled = true;
  // Twenty waits of 1 ms each, handed to and fro: their latencies would add up to a millisecond and more.
  std::vector<Action> first;
  std::vector<Action> second;
  for (std::int64_t i = 0; i < 20; ++i) {
    first.push_back({Verb::kReady, 500'000, 0});
    first.push_back({Verb::kSignal, 0, 0});
    first.push_back({Verb::kWait, 0, 1});
    second.push_back({Verb::kWait, 0, 0});
    second.push_back({Verb::kSleep, 500'000, 0});
    second.push_back({Verb::kSignal, 0, 1});
  }
  plan.threads = {first, second};
  plan.created = {false, false};
  plan.semaphores = {0, 0};
  const auto played = latlab::stubs::play(plan);
  CHECK(!played.timed_out);
  CHECK(played.total_ns >= 19'900'000);
  // Only a schedule that was about kept leaves time to be ready in: a loaded machine is late for all of it.
  if (played.total_ns < 22'000'000) CHECK(played.threads[0].ready_ns >= std::int64_t{2'000'000});
}

TEST("without a schedule `ready` is left out, since the threads contend by themselves") {
  latlab::stubs::PlayPlan plan;
  plan.threads = {{{Verb::kReady, 5'000'000'000, 0}, {Verb::kRun, 100'000, 0}}};
  plan.created = {false};
  CHECK(latlab::stubs::play(plan).total_ns < 5'000'000'000);
}
