// The memory-bound fixtures of `bench_memory`: MORE is how many thousandths more of the same work a run does.
#include <latlab/bench.hpp>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <unordered_map>
#include <vector>

namespace {

using latlab::bench::do_not_optimize;
using latlab::bench::Parameters;

constexpr std::size_t more(std::size_t work) {
  return work + work * MORE / 1000;
}

// A walk through lines of memory, each of which names the next: one cycle through all of them.
template <std::size_t megabytes>
struct Chase {
  struct alignas(64) Line {
    std::uint64_t next;
  };
  std::vector<Line> lines{(megabytes << 20U) / sizeof(Line)};
  std::uint64_t at = 0;

  explicit Chase(const Parameters& /*p*/) {
    std::vector<std::uint64_t> order(lines.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937_64(7));  // NOLINT: the same walk each time
    for (std::size_t i = 0; i < order.size(); ++i) lines[order[i]].next = order[(i + 1) % order.size()];
  }

  void run() {
    for (std::size_t i = 0; i < more(2000); ++i) at = lines[at].next;
    do_not_optimize(at);
  }
};
using Chase4 = Chase<4>;
using Chase16 = Chase<16>;
using Chase64 = Chase<64>;

struct Probe {
  std::unordered_map<std::uint64_t, std::uint64_t> table;
  std::uint64_t state = 1;

  explicit Probe(const Parameters& /*p*/) {
    table.reserve(400'000);
    for (std::uint64_t i = 0; i < 400'000; ++i) table[i * 0x9E3779B97F4A7C15U] = i;
  }

  void run() {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < more(2000); ++i) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      sum += table.find((state >> 33U) % 400'000 * 0x9E3779B97F4A7C15U)->second;
    }
    do_not_optimize(sum);
  }
};

struct Transpose {
  static constexpr std::size_t columns = 1024;
  std::vector<double> from = std::vector<double>(columns * columns, 1.0), to = from;

  explicit Transpose(const Parameters& /*p*/) {}

  void run() {
    for (std::size_t row = 0; row < more(1000); ++row) {
      const std::size_t y = row % columns;
      for (std::size_t x = 0; x < columns; ++x) to[x * columns + y] = from[y * columns + x];
    }
    latlab::bench::clobber();
  }
};

}  // namespace

LATLAB_BENCHMARK(Chase4)
LATLAB_BENCHMARK(Chase16)
LATLAB_BENCHMARK(Chase64)
LATLAB_BENCHMARK(Probe)
LATLAB_BENCHMARK(Transpose)
