// Over 400 lines: one class of queue after the other, by the same few helpers.
#include <sys/wait.h>
#include <unistd.h>
#include <latlab/counted.hpp>
#include <latlab/counter_reader.hpp>
#include <latlab/queue_groups.hpp>
#include <latlab/shared_queue.hpp>

#include <deque>
#include <mutex>
#include <optional>
#include <queue>
#include <string>
#include <thread>
#include <vector>

#include "check.hpp"

using namespace latlab;

namespace {

// Queues as applications have them: none knows of latlab.
struct Ring {  // indices that start again at its size
  explicit Ring(std::size_t size) : cells(size) {}
  std::vector<int> cells;
  std::size_t head = 0;
  std::size_t tail = 0;
};

struct CountedRing : Ring, Counts<Writers::one> {
  CountedRing(std::size_t size, const QueueInfo& info) : Ring(size), Counts<Writers::one>(info) {}
  void put(int value) {
    cells[tail] = value;
    tail = (tail + 1) % cells.size();
    tell_in(tail, cells.size());
  }
  int get() {
    const int value = cells[head];
    head = (head + 1) % cells.size();
    tell_out(head, cells.size());
    return value;
  }
};

struct Bounded {
  using value_type = std::pair<int, int>;
  explicit Bounded(std::size_t most) : most_(most) {}
  bool try_push(const value_type& value) {
    if (events_.size() == most_) return false;
    events_.push_back(value);
    return true;
  }
  bool try_pop(value_type& value) {
    if (events_.empty()) return false;
    value = events_.front();
    events_.pop_front();
    return true;
  }
  std::size_t try_dequeue_bulk(value_type* to, std::size_t most) {
    std::size_t count = 0;
    while (count < most && try_pop(to[count])) ++count;
    return count;
  }
  bool enqueue_bulk(const value_type* from, std::size_t count) {
    if (events_.size() + count > most_) return false;
    for (std::size_t i = 0; i < count; ++i) events_.push_back(from[i]);
    return true;
  }
  const value_type* push(const value_type* from, const value_type* to) {
    while (from != to && try_push(*from)) ++from;
    return from;
  }
  [[nodiscard]] std::size_t capacity() const { return most_; }

 private:
  std::size_t most_;
  std::deque<value_type> events_;
};

struct Modern {
  std::deque<std::string> events;
  void push(std::string value) { events.push_back(std::move(value)); }
  std::optional<std::string> poll() {
    if (events.empty()) return std::nullopt;
    std::optional<std::string> value = std::move(events.front());
    events.pop_front();
    return value;
  }
};

struct Blocks {
  std::vector<int*> free;
  explicit Blocks(std::vector<int>& from) {
    for (int& one : from) free.push_back(&one);
  }
  int* acquire() {
    if (free.empty()) return nullptr;
    int* const one = free.back();
    free.pop_back();
    return one;
  }
  void release(int* one) { free.push_back(one); }
};

Counted<std::queue<int>> early({.name = "early"});

template <class Q>
std::uint64_t in(Q& queue) {
  return queue.slot().producer().in.load();
}
template <class Q>
std::uint64_t out(Q& queue) {
  return queue.slot().consumer().out.load();
}

QueueView described(std::uint32_t slot) {
  const CounterReader reader(CounterFile::process().path());
  QueueView view;
  CHECK(reader.readable() && reader.describe(slot, view));
  return view;
}

}  // namespace

TEST("a queue that keeps its own indices is counted over their rounds") {
  CountedRing ring(7, {.name = "rounds"});
  for (int i = 0; i < 100; ++i) {
    ring.put(i);
    if (i >= 3) CHECK_EQUAL(i - 3, ring.get());
  }
  CHECK_EQUAL(100U, in(ring));
  CHECK_EQUAL(97U, out(ring));
}

TEST("a 32-bit index is counted past its end") {
  Counts<Writers::one> counts;
  counts.tell_in(0xFFFFFFFEU, 1ULL << 32U);
  counts.tell_in(3, 1ULL << 32U);
  CHECK_EQUAL((1ULL << 32U) + 3, counts.slot().producer().in.load());
}

TEST("a standard queue is counted where only its construction has changed") {
  Counted<std::queue<std::string>> queue({.name = "std", .source = {"feed", ""}});
  queue.push("a");
  queue.push({});
  CHECK_EQUAL(std::string("b"), queue.emplace("b"));
  queue.pop();
  CHECK_EQUAL(3U, in(queue));
  CHECK_EQUAL(1U, out(queue));
  CHECK_EQUAL(2U, queue.size());
  const QueueView view = described(queue.slot().slot());
  CHECK(view.kind == QueueKind::unbounded);
  CHECK_EQUAL(std::string("feed"), view.source_type);
  CHECK(view.implementation.find("std::queue") == 0);
}

TEST("a bounded queue is counted by what it accepted, and refusals by what becomes of them") {
  Counted<Bounded, Writers::one> queue({.name = "bounded"}, 2U);
  CHECK(queue.try_push({1, 2}));
  CHECK(queue.try_push({3, 4}));
  CHECK(!queue.try_push({5, 6}));
  std::pair<int, int> value;
  CHECK(queue.try_pop(value));
  CHECK(queue.try_pop(value));
  CHECK(!queue.try_pop(value));
  CHECK_EQUAL(2U, in(queue));
  CHECK_EQUAL(2U, out(queue));
  CHECK_EQUAL(1U, queue.slot().producer().blocked.load());
  CHECK_EQUAL(1U, queue.slot().consumer().empty.load());
  CHECK_EQUAL(2U, described(queue.slot().slot()).capacity);
  Counted<Bounded, Writers::one, Writers::one, Refused::lost> lossy({}, 0U);
  CHECK(!lossy.try_push({1, 1}));
  CHECK_EQUAL(1U, lossy.slot().producer().dropped.load());
}

TEST("calls for several events count the events and not the calls") {
  Counted<Bounded> queue({}, 5U);
  const std::pair<int, int> events[4] = {};
  CHECK(queue.enqueue_bulk(events, 3U));
  CHECK(!queue.enqueue_bulk(events, 3U));
  CHECK_EQUAL(2, queue.push(events, events + 4) - events);
  CHECK_EQUAL(5U, in(queue));
  std::pair<int, int> taken[8];
  CHECK_EQUAL(5U, queue.try_dequeue_bulk(taken, 8U));
  CHECK_EQUAL(5U, out(queue));
}

TEST("an optional without a value is not an event") {
  Counted<Modern> queue({});
  CHECK(!queue.poll().has_value());
  queue.push("x");
  CHECK_EQUAL(std::string("x"), queue.poll().value_or(""));
  CHECK_EQUAL(1U, out(queue));
  CHECK_EQUAL(1U, queue.slot().consumer().empty.load());
}

TEST("what a container held and what is cleared from it is counted") {
  Counted<std::deque<int>> queue({}, std::size_t{3}, 7);
  CHECK_EQUAL(3U, in(queue));
  queue.push_front(1);
  queue.clear();
  CHECK_EQUAL(4U, out(queue));
}

TEST("a counted pool is a queue of free objects") {
  std::vector<int> objects(2);
  CountedPool<Blocks> pool({.name = "blocks"}, objects.size(), objects);
  int* const first = pool.acquire();
  CHECK(pool.acquire() != nullptr);
  CHECK(pool.acquire() == nullptr);
  pool.release(first);
  CHECK_EQUAL(3U, in(pool));
  CHECK_EQUAL(2U, out(pool));
  CHECK_EQUAL(1U, pool.slot().consumer().empty.load());
  const QueueView view = described(pool.slot().slot());
  CHECK(view.kind == QueueKind::pool);
  CHECK_EQUAL(2U, view.capacity);
}

TEST("a queue behind a lock is counted by plain stores, and loses no count") {
  struct Locked {
    std::mutex lock;
    Counted<std::queue<int>, Writers::one> queue{{.name = "locked"}};
  } shared;
  std::vector<std::thread> threads;
  threads.reserve(4);
  constexpr int kEach = 5000;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) {
        const std::lock_guard guard(shared.lock);
        shared.queue.push(i);
        if (i % 2 == 0) shared.queue.pop();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK_EQUAL(4U * kEach, in(shared.queue));
  CHECK_EQUAL(2U * kEach, out(shared.queue));
}

TEST("threads register, name and destroy counted queues at once while an observer reads them") {
  std::atomic<bool> done{false};
  std::thread observer([&] {
    while (!done.load()) {
      const CounterReader reader(CounterFile::process().path());
      QueueView view;
      for (std::uint32_t slot = 0; slot < reader.queue_count(); ++slot) {
        if (!reader.describe(slot, view)) continue;
        // Source and name are given under one version: both, or neither.
        if (view.group == "churn") CHECK_EQUAL(view.name, view.source_name);
      }
    }
  });
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 60; ++i) {
        const std::string name = std::to_string(t) + "-" + std::to_string(i);
        Counted<std::queue<int>> queue({.name = name, .source = {"", name}, .drain = {}, .group = "churn"});
        queue.push(1);
        queue.set_drain({"late", name});
        queue.slot().set_group("renamed");
      }
    });
  }
  for (auto& thread : threads) thread.join();
  done.store(true);
  observer.join();
}

TEST("a queue of static lifetime is registered before main") {
  early.push(1);
  CHECK_EQUAL(std::string("early"), described(early.slot().slot()).name);
}

TEST("the thread that first uses a side is noted, and again after a change") {
  SpscRing<int> ring(4, {.name = "noted"});
  CHECK_EQUAL(0U, ring.slot().producer().tid.load());
  std::uint32_t tid = 0;
  int value = 0;
  std::thread([&] {
    tid = detail::thread_id();
    ring.try_push(1);
  }).join();
  CHECK_EQUAL(tid, ring.slot().producer().tid.load());
  ring.try_pop(value);
  CHECK_EQUAL(detail::thread_id(), ring.slot().consumer().tid.load());
  ring.slot().set_source({"feed", "feed-2"});
  CHECK_EQUAL(0U, ring.slot().producer().tid.load());
  for (int i = 0; i < 5; ++i) {
    ring.try_push(i);
    ring.try_pop(value);
  }
  CHECK_EQUAL(detail::thread_id(), ring.slot().producer().tid.load());
}

TEST("threads that only set up or shut down become no ends") {
  Counted<std::queue<int>> queue({.name = "phases"});
  queue.push(1);
  queue.pop();
  CounterFile::process().set_phase(Phase::running);
  CHECK_EQUAL(0U, queue.slot().producer().tid.load());
  std::thread([&] { queue.push(2); }).join();
  const std::uint32_t worker = queue.slot().producer().tid.load();
  CHECK(worker != 0 && worker != detail::thread_id());
  CounterFile::process().set_phase(Phase::stopping);
  queue.push(3);
  queue.pop();
  CHECK_EQUAL(worker, queue.slot().producer().tid.load());
  CHECK_EQUAL(0U, queue.slot().consumer().tid.load());
  CounterFile::process().set_phase(Phase::starting);
}

TEST("a batch leaves the ring together, when its last event has been used") {
  SpscRing<int> ring(8, {.name = "batch"});
  for (int i = 0; i < 6; ++i) ring.try_push(i);
  int sum = 0;
  std::uint64_t during = 0;
  CHECK_EQUAL(4U, ring.consume(4, [&](int value) {
    sum += value;
    during = ring.size();
  }));
  CHECK_EQUAL(6, sum);
  CHECK_EQUAL(6U, during);
  CHECK_EQUAL(4U, out(ring));
  CHECK_EQUAL(2U, ring.consume(100, [](int) {}));
  CHECK_EQUAL(0U, ring.consume(100, [](int) {}));
}

TEST("a bidirectional queue is two directions that name each other and swap their roles") {
  DuplexQueue<int> queue(4, {.name = "gate", .source = {"book", "a"}, .drain = {"gateway", "b"}});
  auto first = queue.first();
  auto second = queue.second();
  CHECK(first.try_send(1));
  CHECK(first.try_send(2));
  int value = 0;
  CHECK(second.try_receive(value));
  CHECK(second.try_send(3));
  CHECK_EQUAL(1U, first.outgoing().size());
  CHECK_EQUAL(1U, first.incoming().size());
  const QueueView there = described(first.outgoing().slot().slot());
  const QueueView back = described(first.incoming().slot().slot());
  CHECK(there.kind == QueueKind::bidirectional && back.kind == QueueKind::bidirectional);
  CHECK_EQUAL(back.slot + 1, there.pair);
  CHECK_EQUAL(there.slot + 1, back.pair);
  CHECK_EQUAL(std::string("a"), there.source_name);
  CHECK_EQUAL(std::string("a"), back.drain_name);
  queue.set_first({"book", "c"});
  CHECK_EQUAL(std::string("c"), described(back.slot).drain_name);
}

TEST("a pool of workers has a partition each, of one group, and a full one is not helped by the others") {
  PartitionedQueue<int> queue(3, 2, {.name = "orders", .drain = {"worker", ""}});
  CHECK(queue.try_push(1, 10));
  CHECK(queue.try_push(4, 11));
  CHECK(!queue.try_push(7, 12));
  CHECK(queue.try_push(2, 13));
  CHECK_EQUAL(2U, queue.partition(1).size());
  CHECK_EQUAL(1U, queue.partition(2).size());
  const QueueView view = described(queue.partition(1).slot().slot());
  CHECK_EQUAL(std::string("orders.1"), view.name);
  CHECK_EQUAL(std::string("worker"), view.drain_type);
  CHECK_EQUAL(std::string("worker.1"), view.drain_name);
  CHECK_EQUAL(std::string("orders"), view.group);
}

TEST("an unbounded queue has no capacity and grows") {
  UnboundedQueue<int> queue({.name = "grows", .capacity = 9});
  for (int i = 0; i < 2000; ++i) queue.emplace(i);
  const QueueView view = described(queue.slot().slot());
  CHECK(view.kind == QueueKind::unbounded);
  CHECK_EQUAL(0U, view.capacity);
  CHECK_EQUAL(2000U, queue.size());
}

TEST("a queue between two processes has one identity and each side is published once") {
  const std::string path = "/dev/shm/latlab-counted-test-" + std::to_string(::getpid());
  SharedRing<int> ring = SharedRing<int>::create(path, 8, {.name = "wire"});
  for (int i = 0; i < 5; ++i) CHECK(ring.try_push(i));
  int ends[2];
  CHECK(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    SharedRing<int> mine = SharedRing<int>::attach(path, {.name = "wire"});
    int value = 0;
    for (int i = 0; i < 3; ++i) mine.try_pop(value);
    QueueView view;
    const CounterReader reader(CounterFile::process().path());
    const bool good = reader.describe(mine.slot().slot(), view) && view.sides == kConsumerSide;
    const std::uint64_t said[2] = {good ? view.identity : 0, mine.slot().consumer().out.load()};
    const bool written = ::write(ends[1], said, sizeof said) == sizeof said;
    ::unlink(CounterFile::process().path().c_str());
    ::_exit(written ? 0 : 1);
  }
  std::uint64_t said[2] = {};
  CHECK(::read(ends[0], said, sizeof said) == sizeof said);
  ::waitpid(child, nullptr, 0);
  ::close(ends[0]);
  ::close(ends[1]);
  const QueueView view = described(ring.slot().slot());
  CHECK_EQUAL(view.identity, said[0]);
  CHECK_EQUAL(kProducerSide, view.sides);
  CHECK_EQUAL(5U, ring.slot().producer().in.load());
  CHECK_EQUAL(3U, said[1]);
}
