#include "jitter/core_to_core.hpp"

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <latlab/clock.hpp>
#include <thread>

namespace latlab::jitter {
namespace {

struct Line {
  alignas(128) std::atomic<std::uint64_t> turn{
      0};  // two lines wide: the adjacent one may be prefetched along
  alignas(128) std::atomic<bool> stop{false};
};

int pin(int cpu) {
  cpu_set_t* set = CPU_ALLOC(static_cast<std::size_t>(cpu) + 1);
  const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(cpu) + 1);
  CPU_ZERO_S(bytes, set);
  CPU_SET_S(static_cast<std::size_t>(cpu), bytes, set);
  const int error = pthread_setaffinity_np(pthread_self(), bytes, set);
  CPU_FREE(set);
  return error;
}

PairLatency measure(int from, int to, std::size_t batches, std::size_t round_trips, std::uint64_t limit_ns) {
  PairLatency out{.from = from, .to = to, .error = 0, .one_way_ns = {}};
  out.one_way_ns.reserve(batches);
  Line line;
  std::atomic<int> error{0};
  std::atomic<int> ready{0};
  std::thread echo([&] {
    error = pin(to);
    ++ready;
    std::uint64_t expected = 1;
    // Acquire and release on the one word that is handed over: each side sees the other's turn, nothing else
    // is shared.
    while (!line.stop.load(std::memory_order_relaxed)) {
      if (line.turn.load(std::memory_order_acquire) == expected) {
        line.turn.store(expected + 1, std::memory_order_release);
        expected += 2;
      }
    }
  });
  std::thread caller([&] {
    if (const int own = pin(from); own != 0) error = own;
    while (ready == 0) sched_yield();
    std::uint64_t turn = 1;
    const std::uint64_t started = monotonic_ns();
    for (std::size_t batch = 0; batch < batches && error == 0; ++batch) {
      const std::uint64_t before = monotonic_ns();
      if (before - started > limit_ns) break;
      for (std::size_t i = 0; i < round_trips; ++i, turn += 2) {
        line.turn.store(turn, std::memory_order_release);
        while (line.turn.load(std::memory_order_acquire) != turn + 1) {
        }
      }
      const std::uint64_t taken = monotonic_ns() - before;
      out.one_way_ns.push_back(static_cast<double>(taken) / static_cast<double>(2 * round_trips));
    }
    line.stop.store(true, std::memory_order_relaxed);
  });
  caller.join();
  echo.join();
  out.error = error;
  if (out.error != 0) out.one_way_ns.clear();
  return out;
}

}  // namespace

std::vector<PairLatency> core_to_core(const std::vector<int>& cpus, std::size_t batches,
                                      std::size_t round_trips, std::uint64_t limit_ns) {
  std::vector<PairLatency> out;
  for (std::size_t i = 0; i < cpus.size(); ++i)
    for (std::size_t k = i + 1; k < cpus.size(); ++k)
      out.push_back(measure(cpus[i], cpus[k], batches, round_trips, limit_ns));
  return out;
}

}  // namespace latlab::jitter
