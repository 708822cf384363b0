// What counting adds to a queue, at a given work per event: pairs of the same queue with and without it,
// interleaved, each pushed to and popped from with the work between. Prints "name plain_ns counted_ns" a
// round.
#include <latlab/counted.hpp>
#include <latlab/queue.hpp>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <memory>
#include <mutex>
#include <queue>
#include <vector>

namespace {

using latlab::Counted;
using latlab::Counts;
using latlab::Writers;

// An application's ring between two threads, with indices of its own.
class Ring {
 public:
  using value_type = std::uint64_t;
  explicit Ring(std::size_t cells) : mask_(cells - 1), cells_(cells) {}
  bool try_push(std::uint64_t value) noexcept {
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    if (tail - seen_head_ > mask_) {
      seen_head_ = head_.load(std::memory_order_acquire);
      if (tail - seen_head_ > mask_) return false;
    }
    cells_[tail & mask_] = value;
    tail_.store(tail + 1, std::memory_order_release);
    return true;
  }
  bool try_pop(std::uint64_t& value) noexcept {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    if (head == seen_tail_) {
      seen_tail_ = tail_.load(std::memory_order_acquire);
      if (head == seen_tail_) return false;
    }
    value = cells_[head & mask_];
    head_.store(head + 1, std::memory_order_release);
    return true;
  }

 protected:
  alignas(64) std::atomic<std::uint64_t> tail_{0};
  std::uint64_t seen_head_ = 0;
  alignas(64) std::atomic<std::uint64_t> head_{0};
  std::uint64_t seen_tail_ = 0;
  alignas(64) std::size_t mask_;
  std::vector<std::uint64_t> cells_;
};

// The same with the hooks of the mixin.
class HookedRing : public Ring, public Counts<Writers::one> {
 public:
  explicit HookedRing(std::size_t cells) : Ring(cells), Counts<Writers::one>({.name = "hooked"}) {}
  bool try_push(std::uint64_t value) noexcept {
    const bool done = Ring::try_push(value);
    if (done) tell_in(tail_.load(std::memory_order_relaxed));
    return done;
  }
  bool try_pop(std::uint64_t& value) noexcept {
    const bool done = Ring::try_pop(value);
    if (done) tell_out(head_.load(std::memory_order_relaxed));
    return done;
  }
};

// A queue behind a lock.
class Locked {
 public:
  using value_type = std::uint64_t;
  bool try_push(std::uint64_t value) {
    const std::lock_guard guard(lock_);
    events_.push(value);
    return true;
  }
  bool try_pop(std::uint64_t& value) {
    const std::lock_guard guard(lock_);
    if (events_.empty()) return false;
    value = events_.front();
    events_.pop();
    return true;
  }

 private:
  std::mutex lock_;
  std::queue<std::uint64_t> events_;
};

// A chain of multiplications: about a nanosecond a step, which nothing can hide but what is independent of
// it.
std::uint64_t worked(std::uint64_t value, int steps) noexcept {
  for (int i = 0; i < steps; ++i) value = value * 6364136223846793005ULL + 1442695040888963407ULL;
  return value;
}

template <class Q>
double once_ns(Q& queue, int steps, std::uint64_t events, std::uint64_t& sink) {
  const std::uint64_t begin = latlab::monotonic_ns();
  std::uint64_t value = sink;
  for (std::uint64_t i = 0; i < events; ++i) {
    queue.try_push(value);
    queue.try_pop(value);
    value = worked(value, steps);
  }
  sink = value;
  return static_cast<double>(latlab::monotonic_ns() - begin) / static_cast<double>(events);
}

template <class Plain, class With>
void pair(const char* name, Plain& plain, With& with, int steps, int round, std::uint64_t events,
          std::uint64_t& sink) {
  double times[2];
  for (int i = 0; i < 2; ++i) {
    const int which = (i + round) % 2;  // who goes first changes from round to round
    times[which] = which == 0 ? once_ns(plain, steps, events, sink) : once_ns(with, steps, events, sink);
  }
  std::cout << name << ' ' << times[0] << ' ' << times[1] << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 300;
  const auto events = static_cast<std::uint64_t>(argc > 2 ? std::atoll(argv[2]) : 10'000);
  const double wanted_ns = argc > 3 ? std::atof(argv[3]) : 50;
  std::uint64_t sink = 1;
  double step_ns = 1e9;
  for (int i = 0; i < 50; ++i) {  // the fastest: the others were disturbed
    const std::uint64_t begin = latlab::monotonic_ns();
    sink = worked(sink, 100'000);
    step_ns = std::min(step_ns, static_cast<double>(latlab::monotonic_ns() - begin) / 1e5);
  }
  const int steps = static_cast<int>(wanted_ns / step_ns + 1);
  Ring ring(1024);
  Ring again(1024);
  HookedRing hooked(1024);
  Counted<Ring, Writers::one> wrapped({.name = "wrapped", .capacity = 1024}, 1024);
  Counted<Ring> shared({.name = "wrapped-many", .capacity = 1024}, 1024);
  Locked locked;
  Counted<Locked, Writers::one> counted_lock({.name = "locked"});
  for (int round = 0; round < rounds; ++round) {
    pair("same", ring, again, steps, round, events, sink);
    pair("hooks", ring, hooked, steps, round, events, sink);
    pair("wrapper", ring, wrapped, steps, round, events, sink);
    pair("wrapper-many", ring, shared, steps, round, events, sink);
    pair("locked", locked, counted_lock, steps, round, events, sink);
  }
  return sink == 42 ? 1 : 0;
}
