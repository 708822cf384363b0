// Threads: pure functions; what they read must not change meanwhile.
//
// The analysis of long series of whole numbers, in one pass each: a series becomes its distinct values and
// how often each occurs, from which every rank, mean and deviation follows exactly, without a sort of the
// series.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace latlab::messaging {

struct Counted {
  std::vector<std::int64_t> values{};  // rising, each once
  std::vector<std::int64_t> counts{};
};

// Counts to[i] - from[i]; an empty `from` counts `to` itself. The spans are equally long or `from` is empty.
Counted count_differences(std::span<const std::int64_t> to, std::span<const std::int64_t> from);

struct Steps {
  std::uint64_t rising = 0;      // L_n > L_{n-1}
  std::uint64_t falling = 0;     // L_n < L_{n-1}
  std::uint64_t violations = 0;  // RO_n - SO_n differs from L_n - L_{n-1}
  std::uint64_t backwards = 0;   // sent before the message before it, or received before it was sent
};

// Looks at every message's step from the one before it (M = 1).
Steps steps(std::span<const std::int64_t> sent, std::span<const std::int64_t> received,
            std::span<const std::int64_t> latency);

}  // namespace latlab::messaging
