// Threads: one. What the calibration of `latlab bench` measures: a loop in registers, a loop that takes a
// branch at every cycle, lookups in a map of 20,000 nodes, and an allocation with a system call. `change`
// makes a side slower by so many thousandths.
#include <unistd.h>
#include <latlab/bench.hpp>

#include <map>
#include <memory>

namespace bench = latlab::bench;

#ifndef CHANGE
#define CHANGE 0  // unless the parameter says otherwise
#endif

namespace {

// A chain: each step needs the one before it, so that nothing but the clock's rate decides how long it takes.
struct RegisterLoop {
  std::uint64_t steps;
  explicit RegisterLoop(const bench::Parameters& p) : steps(10'000 + 10 * p.get("change", CHANGE)) {}
  void run() const {
    const std::uint64_t count = steps;
    std::uint64_t state = 1;
    for (std::uint64_t i = 0; i < count; ++i) {
      state = state * 6364136223846793005U + i;
      bench::do_not_optimize(state);
    }
  }
};

// As short as a loop can be: what feeds the processor with instructions decides, which a sibling thread of
// the same core shares.
struct BranchLoop {
  std::uint64_t steps;
  explicit BranchLoop(const bench::Parameters& p) : steps(10'000 + 10 * p.get("change", CHANGE)) {}
  void run() const {
    for (std::uint64_t i = 0; i < steps; ++i) bench::do_not_optimize(i);
  }
};

struct Map {
  std::map<std::uint64_t, std::uint64_t> nodes;
  std::uint64_t lookups;
  explicit Map(const bench::Parameters& p) : lookups(1'000 + p.get("change", CHANGE)) {
    std::uint64_t key = p.seed();
    while (nodes.size() < 20'000) nodes[next(key) >> 40U] = key;
  }
  void run() const {
    std::uint64_t key = 7;
    for (std::uint64_t i = 0; i < lookups; ++i) {
      const auto found = nodes.lower_bound(next(key) >> 40U);
      bench::do_not_optimize(found);
    }
  }
  static std::uint64_t next(std::uint64_t& state) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return state;
  }
};

struct Allocation {
  void run() {
    auto block = std::make_unique<char[]>(200'000);  // beyond malloc's threshold: mmap and munmap
    bench::do_not_optimize(block[0] = 1);
    bench::do_not_optimize(getppid());
  }
};

}  // namespace

LATLAB_BENCHMARK(RegisterLoop)
LATLAB_BENCHMARK(BranchLoop)
LATLAB_BENCHMARK(Map)
LATLAB_BENCHMARK(Allocation)
