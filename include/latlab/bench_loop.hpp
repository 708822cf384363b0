// Threads: the thread that calls is the one that is measured; nothing here is shared.
//
// The measuring loop: everything is allocated and touched beforehand, and between two readings of the clock
// lies nothing but the test. Where an iteration needs no set-up, one reading ends it and begins the next.
#pragma once

#include <latlab/clock.hpp>

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace latlab::bench {

// A reading that waits for all that comes before it. What comes after may begin some cycles early, which the
// next reading waits for; the second fence of ticks_ordered() would cost 4 of its 19 ns at every iteration.
inline std::uint64_t stamp() noexcept {
#if defined(__x86_64__)
  _mm_lfence();
  return __rdtsc();
#else
  return ticks_ordered();
#endif
}

// What the clock of this machine can resolve, found by reading it.
struct ClockGrain {
  std::uint64_t quantum_ticks = 1;  // usual step between two different readings
  double read_ticks = 0.0;          // what a reading costs
};

inline ClockGrain clock_grain() noexcept {
  constexpr int steps = 2000;
  std::uint64_t step[steps];
  int count = 0;
  std::uint64_t previous = ticks();
  for (int tries = 0; count < steps && tries < 100 * steps; ++tries) {
    const std::uint64_t now = ticks();
    if (now > previous) step[count++] = now - previous;
    previous = now;
  }
  ClockGrain out;
  // The usual step, not the least: a hypervisor that scales the counter shows a few of 1 between those of
  // 10 ns. Where the counter steps faster than it can be read, this is the time between two readings.
  if (count > 0) {
    std::nth_element(step, step + count / 2, step + count);
    out.quantum_ticks = step[count / 2];
  }
  // The cost of a reading, as the loop uses it: the least over groups, free of interruptions.
  std::uint64_t least = ~0ULL;
  for (int group = 0; group < 32; ++group) {
    const std::uint64_t from = stamp();
    for (int i = 0; i < 63; ++i) stamp();
    least = std::min(least, stamp() - from);
  }
  out.read_ticks = static_cast<double>(least) / 64.0;
  return out;
}

// A batch lasts this many quanta, so that the clock's step is a thousandth of what is measured.
inline constexpr std::uint64_t quanta_per_batch = 1000;

// Memory of twice the last cache's size: walking through it leaves nothing of what a test has in the caches.
class Evictor {
 public:
  Evictor() : memory_(size(), 1) {}

  void operator()() noexcept {
    for (std::size_t at = 0; at < memory_.size(); at += 64) memory_[at] = static_cast<char>(memory_[at] + 1);
    asm volatile("" : : "r"(memory_.data()) : "memory");
  }

 private:
  static std::size_t size() noexcept {
    constexpr long fallback = 32L << 20U;  // virtual machines may not say
    constexpr long most = 256L << 20U;
    const long last = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return static_cast<std::size_t>(std::min(most, 2 * (last > 0 ? last : fallback)));
  }
  std::vector<char> memory_;
};

// The smallest power of two of runs that lasts long enough. `run(batch)` makes so many runs. The shortest
// of three tries counts, since an interruption would make a batch look long enough.
template <class Run>
std::uint64_t find_batch(Run&& run, std::uint64_t quantum_ticks) {
  for (std::uint64_t batch = 1; batch < (1ULL << 40U); batch *= 2) {
    std::uint64_t shortest = ~0ULL;
    for (int i = 0; i < 3; ++i) {
      const std::uint64_t from = stamp();
      run(batch);
      shortest = std::min(shortest, stamp() - from);
      if (shortest < quantum_ticks * quanta_per_batch) break;
    }
    if (shortest >= quantum_ticks * quanta_per_batch) return batch;
  }
  return 1ULL << 40U;
}

// Runs `count` iterations of `run(i)` and stores the ticks of each in `out`. `run` returns whether to go on.
// Returns the iterations that were finished.
template <class Run>
std::size_t measure_back_to_back(std::uint64_t* out, std::size_t count, Run&& run) {
  std::uint64_t from = stamp();
  for (std::size_t i = 0; i < count; ++i) {
    if (!run(i)) return i;
    const std::uint64_t to = stamp();
    out[i] = to - from;
    from = to;
  }
  return count;
}

// The same with work before and after each iteration, outside of the measured time.
template <class SetUp, class Run, class TearDown>
std::size_t measure_with_setup(std::uint64_t* out, std::size_t count, SetUp&& set_up, Run&& run,
                               TearDown&& tear_down) {
  for (std::size_t i = 0; i < count; ++i) {
    if (!set_up()) return i;
    const std::uint64_t from = stamp();
    const bool go_on = run(i);
    const std::uint64_t to = stamp();
    if (!go_on) return i;
    out[i] = to - from;
    if (!tear_down()) return i;
  }
  return count;
}

// Two processes on one processor that measure in turns: what the machine does to both in the same
// milliseconds (its frequency above all) falls out of their ratio. Each has one end of a stream socket and
// may measure when it has received a byte. Alone, everything is one turn.
struct Turns {
  int peer = -1;               // the socket's end; -1: alone
  bool first = false;          // whose turn is the first
  std::size_t length = 0;      // measured iterations of a turn; 0: all of them
  std::size_t unmeasured = 0;  // iterations before those, for what the other side left of the caches

  // False where the other side has ended.
  [[nodiscard]] bool wait() const noexcept {
    if (peer < 0) return true;
    char byte = 0;
    ssize_t got = 0;
    do got = recv(peer, &byte, 1, 0);
    while (got < 0 && errno == EINTR);
    return got == 1;
  }
  void pass() const noexcept {
    if (peer < 0) return;
    const char byte = 1;
    while (send(peer, &byte, 1, MSG_NOSIGNAL) < 0 && errno == EINTR) {
    }
  }
};

// Measures `count` iterations in turns. `once()` is an iteration that isn't measured, `part(out, n)` measures
// n and returns those that were finished. Returns all that were; fewer where the other side has ended.
template <class Once, class Part>
std::size_t measure_in_turns(const Turns& turns, std::uint64_t* out, std::size_t count, Once&& once,
                             Part&& part) {
  const std::size_t length = turns.length == 0 ? count : turns.length;
  if (!turns.first) turns.pass();  // ready
  // Up to as many unmeasured ones again, drawn: what happens at every fiftieth call would else meet the
  // measured ones always or never.
  std::uint64_t drawn = stamp() | 1U;
  for (std::size_t at = 0; at < count; at += length) {
    if (!turns.wait()) return at;
    drawn = drawn * 6'364'136'223'846'793'005U + 1'442'695'040'888'963'407U;
    const std::size_t more = turns.unmeasured == 0 ? 0 : (drawn >> 33U) % (turns.unmeasured + 1);
    for (std::size_t i = 0; i < turns.unmeasured + more; ++i) once();
    const std::size_t wanted = std::min(length, count - at);
    const std::size_t finished = part(out + at, wanted);
    turns.pass();
    if (finished != wanted) return at + finished;
  }
  if (turns.first && !turns.wait()) return count;  // so that the other side's last turn isn't disturbed
  return count;
}

}  // namespace latlab::bench
