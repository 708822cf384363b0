// Threads: call from one thread; it starts two pinned ones for each pair of cores and joins them.
//
// How long a cache line takes from one core to another: two threads hand a counter to and fro.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace latlab::jitter {

struct PairLatency {
  int from = 0, to = 0;
  int error = 0;                   // errno of pinning; no samples then
  std::vector<double> one_way_ns;  // half a round trip, the mean of each batch
};

// `batches` of `round_trips` for every unordered pair of `cpus`; a pair that takes longer than `limit_ns`
// (its threads share their cores with others) keeps the batches that it finished.
std::vector<PairLatency> core_to_core(const std::vector<int>& cpus, std::size_t batches,
                                      std::size_t round_trips, std::uint64_t limit_ns);

}  // namespace latlab::jitter
