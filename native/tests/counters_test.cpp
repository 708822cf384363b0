#include <sys/wait.h>
#include <latlab/counters.hpp>
#include <latlab/queue.hpp>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "check.hpp"

using namespace latlab;

namespace {
CounterFile& file() {
  return CounterFile::process();
}
struct Stamped {
  int puts = 0;
};
void before_put(Stamped& event) noexcept {
  ++event.puts;
}
void before_put(Stamped*& event) noexcept {
  ++event->puts;
}
}  // namespace

TEST("an event that wants to is told that it is put in, and not that there was no room") {
  SpscRing<Stamped> values(1, {}, file());
  CHECK(values.try_push({}));
  CHECK(!values.try_push({}));
  CHECK_EQUAL(1, values.front()->puts);
  Stamped event;
  SpscRing<Stamped*> pointers(1, {}, file());
  CHECK(pointers.try_push(&event));
  CHECK(!pointers.try_push(&event));
  CHECK_EQUAL(1, event.puts);
  UnboundedQueue<Stamped> unbounded({}, file());
  unbounded.emplace();
  CHECK_EQUAL(1, unbounded.front()->puts);
}

TEST("a bounded ring holds exactly its capacity, also where that is not a power of two") {
  SpscRing<int> ring(5, {.name = "five"}, file());
  for (int i = 0; i < 5; ++i) CHECK(ring.try_push(i));
  CHECK(!ring.try_push(5));
  CHECK_EQUAL(5U, ring.size());
}

TEST("a ring's indices are its counters") {
  SpscRing<int> ring(4, {.name = "counted"}, file());
  int value = 0;
  for (int i = 0; i < 10; ++i) {
    ring.try_push(i);
    ring.try_pop(value);
  }
  ring.try_push(1);
  CHECK_EQUAL(11U, ring.slot().producer().in.load());
  CHECK_EQUAL(10U, ring.slot().consumer().out.load());
}

TEST("what does not fit is counted as dropped") {
  SpscRing<int> ring(1, {}, file());
  CHECK(ring.push_or_drop(1));
  CHECK(!ring.push_or_drop(2));
  CHECK_EQUAL(1U, ring.slot().producer().dropped.load());
}

TEST("events in a ring are destroyed with it") {
  const auto shared = std::make_shared<int>(7);
  {
    SpscRing<std::shared_ptr<int>> ring(8, {}, file());
    ring.try_push(shared);
    ring.try_push(shared);
    CHECK_EQUAL(3, shared.use_count());
  }
  CHECK_EQUAL(1, shared.use_count());
}

TEST("two threads exchange every event in order through a bounded ring") {
  SpscRing<std::uint64_t> ring(64, {}, file());
  constexpr std::uint64_t kEvents = 200000;
  std::thread producer([&] {
    for (std::uint64_t i = 0; i < kEvents;) {
      if (ring.try_push(i)) {
        ++i;
      } else {
        std::this_thread::yield();
      }
    }
  });
  bool in_order = true;
  for (std::uint64_t i = 0; i < kEvents;) {
    std::uint64_t value = 0;
    if (!ring.try_pop(value)) {
      std::this_thread::yield();
      continue;
    }
    in_order = in_order && value == i;
    ++i;
  }
  producer.join();
  CHECK(in_order);
  CHECK_EQUAL(0U, ring.size());
}

TEST("two threads exchange every event in order through an unbounded queue") {
  UnboundedQueue<std::string, 16> queue({}, file());
  constexpr int kEvents = 20000;
  std::thread producer([&] {
    for (int i = 0; i < kEvents; ++i) queue.emplace(std::to_string(i));
  });
  bool in_order = true;
  for (int i = 0; i < kEvents;) {
    std::string value;
    if (!queue.try_pop(value)) {
      std::this_thread::yield();
      continue;
    }
    in_order = in_order && value == std::to_string(i);
    ++i;
  }
  producer.join();
  CHECK(in_order);
}

TEST("four threads lose and double nothing through a ring for many producers and consumers") {
  MpmcRing<std::uint64_t> ring(32, {}, file());
  constexpr std::uint64_t kEach = 20000;
  std::atomic<std::uint64_t> sum{0};
  std::atomic<std::uint64_t> taken{0};
  std::vector<std::thread> threads;
  for (int p = 0; p < 2; ++p) {
    threads.emplace_back([&] {
      for (std::uint64_t i = 1; i <= kEach;) {
        if (ring.try_push(i)) {
          ++i;
        } else {
          std::this_thread::yield();
        }
      }
    });
    threads.emplace_back([&] {
      while (taken.load() < 2 * kEach) {
        std::uint64_t value = 0;
        if (ring.try_pop(value)) {
          sum += value;
          ++taken;
        } else {
          std::this_thread::yield();
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK_EQUAL(kEach * (kEach + 1), sum.load());
}

TEST("a pool counts takings and returns, and an empty one says so") {
  Pool<int> pool(2, {.name = "pool"}, file());
  int* const first = pool.take();
  int* const second = pool.take();
  CHECK(first != nullptr && second != nullptr && first != second);
  CHECK(pool.take() == nullptr);
  CHECK_EQUAL(1U, pool.slot().consumer().empty.load());
  pool.give_back(first);
  CHECK_EQUAL(1U, pool.available());
}

TEST("many threads register queues at once and each gets a slot of its own") {
  std::vector<std::thread> threads;
  std::vector<std::vector<std::unique_ptr<SpscRing<int>>>> made(4);
  threads.reserve(made.size());
  for (auto& mine : made) {
    threads.emplace_back([&mine] {
      for (int i = 0; i < 50; ++i) mine.push_back(std::make_unique<SpscRing<int>>(2, QueueInfo{}, file()));
    });
  }
  for (auto& thread : threads) thread.join();
  std::vector<bool> seen(CounterFile::kQueues, false);
  for (auto& mine : made) {
    for (auto& ring : mine) {
      CHECK(!seen[ring->slot().slot()]);
      seen[ring->slot().slot()] = true;
    }
  }
}

TEST("the child of a fork counts in a file of its own") {
  SpscRing<int> ring(16, {.name = "forked"}, file());
  ring.try_push(1);
  const std::string parents = file().path();
  const pid_t child = ::fork();
  if (child == 0) {
    ring.try_push(2);
    const bool own = !file().published() || file().path() != parents;
    ::unlink(file().path().c_str());
    ::_exit(own && ring.slot().producer().in.load() == 2 ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK_EQUAL(0, status);
  CHECK_EQUAL(1U, ring.slot().producer().in.load());
}

TEST("a text that is too long is cut where a character ends") {
  SharedText<8> text{};
  text.store("abcdef\xC3\xA9");  // the last letter takes two bytes, and one is left
  CHECK_EQUAL(std::string("abcdef"), text.load());
}

TEST("a stage's time is the sum of its stretches") {
  StageSlot stage = file().add_stage({.stage = {"book", "book-1"}});
  const std::uint64_t start = stage.line().since_ticks.load();
  stage.enter(StageState::busy, start + 100);
  stage.enter(StageState::blocked, start + 350);
  stage.enter(StageState::idle, start + 400);
  CHECK_EQUAL(100U, stage.line().idle_ticks.load());
  CHECK_EQUAL(250U, stage.line().busy_ticks.load());
  CHECK_EQUAL(50U, stage.line().blocked_ticks.load());
}
