// Workloads in C++ whose work grows by MORE thousandths; built by bench_workloads.py.
#include <algorithm>
#include <cstdint>
#include <latlab/bench.hpp>
#include <random>
#include <unordered_map>
#include <vector>

#ifndef MORE
#define MORE 0
#endif

static constexpr std::size_t scaled(std::size_t count) {
  return count * (1000 + MORE) / 1000;
}

static std::vector<std::uint64_t> drawn(std::size_t count) {
  std::mt19937_64 random{7};
  std::vector<std::uint64_t> out(count);
  std::ranges::generate(out, random);
  return out;
}

struct Hash {
  std::unordered_map<std::uint64_t, std::uint64_t> table;
  std::vector<std::uint64_t> keys = drawn(4000);
  Hash() {
    for (const auto key : keys) table[key] = key;
  }
  void run() {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < scaled(4000); ++i) sum += table.find(keys[i % keys.size()])->second;
    latlab::bench::do_not_optimize(sum);
  }
};

struct Sort {
  std::vector<std::uint64_t> values = drawn(scaled(1000));
  void run() {
    for (int i = 0; i < 10; ++i) {
      auto copy = values;
      std::ranges::sort(copy);
      latlab::bench::do_not_optimize(copy.data());
    }
  }
};

LATLAB_BENCHMARK(Hash)
LATLAB_BENCHMARK(Sort)
