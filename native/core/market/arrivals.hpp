// When messages of a market arrive: in clusters with short gaps, now and then a microburst of hundreds.
//
// Threads: none of its own; an Arrivals belongs to one thread.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "market/generator_message.hpp"

namespace latlab::market {

// Gaps inside a cluster of messages, in ns: the quantiles of a real day's inter-arrival times over all
// symbols (p5 676, p10 1,061, p25 3,801, p50 18,788, p75 72,398), with 1 % of all gaps below 300 ns.
inline constexpr std::array<std::array<std::uint32_t, 2>, 8> kGap{{{0, 20},
                                                                   {560, 300},
                                                                   {3'800, 700},
                                                                   {7'600, 1'100},
                                                                   {18'000, 3'800},
                                                                   {36'000, 19'000},
                                                                   {55'000, 72'000},
                                                                   {65'536, 200'000}}};
// The same inside a microburst: hundreds of messages in a millisecond.
inline constexpr std::array<std::array<std::uint32_t, 2>, 4> kBurstGap{
    {{0, 20}, {4'000, 300}, {60'000, 1'500}, {65'536, 4'000}}};
inline constexpr std::array<std::array<std::uint32_t, 2>, 6> kCluster{
    {{0, 1}, {26'000, 1}, {56'000, 6}, {64'800, 40}, {65'490, 200}, {65'536, 250}}};
inline constexpr std::uint32_t kBurstShare = 65'500;  // clusters beyond it are microbursts
inline constexpr std::uint32_t kMicroburst =
    300;  // messages of the smallest one; the largest has thrice as many

// The times of messages for ever: clusters begin by a Poisson process, and a cluster that has not ended
// delays the next. The same seed gives the same times.
class Arrivals {
 public:
  // mean_ns: of the time between messages, over a long while; below some 40 µs clusters leave no pause, and
  // what comes has a mean of 31 µs.
  Arrivals(std::uint64_t seed, std::uint64_t mean_ns)
      : state_(seed), mean_cluster_ns_(static_cast<double>(mean_ns) * mean_size()) {}

  // Time of the next message, in ns since the first one could have come.
  std::uint64_t next() {
    if (left_ == 0) {
      const std::uint32_t share = below(65'536);
      size_ = share >= kBurstShare ? kMicroburst + below(kMicroburst * 2)
                                   : std::max(1U, interpolate(kCluster, share));
      left_ = size_;
      start_ns_ += -mean_cluster_ns_ * std::log((below(1U << 24) + 0.5) / (1U << 24));
      at_ns_ = std::max(at_ns_, static_cast<std::uint64_t>(start_ns_));
    } else {
      const std::uint32_t share = below(65'536);
      at_ns_ += size_ >= kMicroburst ? interpolate(kBurstGap, share) : interpolate(kGap, share);
    }
    --left_;
    return at_ns_;
  }

  // Messages of a cluster, in the mean.
  static double mean_size() {
    double sum = 0;
    for (std::uint32_t share = 0; share < kBurstShare; ++share)
      sum += std::max(1U, interpolate(kCluster, share));
    return (sum + (65'536.0 - kBurstShare) * 2 * kMicroburst) / 65'536;
  }

 private:
  std::uint32_t below(std::uint32_t bound) noexcept {  // SplitMix64
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return static_cast<std::uint32_t>((((z ^ (z >> 31)) >> 32) * bound) >> 32);
  }

  std::uint64_t state_;
  double mean_cluster_ns_;
  double start_ns_ = 0;
  std::uint64_t at_ns_ = 0;
  std::uint32_t left_ = 0;
  std::uint32_t size_ = 0;
};

}  // namespace latlab::market
