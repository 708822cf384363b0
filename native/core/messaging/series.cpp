#include "messaging/series.hpp"

#include <algorithm>
#include <stdexcept>

namespace latlab::messaging {
namespace {

// 4 Mi bins of 4 bytes: all latencies up to 4 ms in steps of a nanosecond, in memory that a cache can nearly
// hold. What lies above is sorted.
constexpr std::uint64_t kBins = 1U << 22;

void append(Counted& counted, std::vector<std::int64_t>& rest) {
  std::sort(rest.begin(), rest.end());
  for (std::size_t i = 0; i < rest.size();) {
    const std::size_t first = i;
    while (i < rest.size() && rest[i] == rest[first]) ++i;
    counted.values.push_back(rest[first]);
    counted.counts.push_back(static_cast<std::int64_t>(i - first));
  }
}

template <class At>
Counted count(std::size_t size, At&& at) {
  Counted counted;
  if (size == 0) return counted;
  std::int64_t low = at(0);
  std::int64_t high = low;
  for (std::size_t i = 1; i < size; ++i) {
    low = std::min(low, at(i));
    high = std::max(high, at(i));
  }
  const std::uint64_t range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  std::vector<std::int64_t> rest;
  if (size < 1000) {  // bins would cost more than they save
    for (std::size_t i = 0; i < size; ++i) rest.push_back(at(i));
    append(counted, rest);
    return counted;
  }
  std::vector<std::uint32_t> bins(std::min(range, kBins - 1) + 1);
  for (std::size_t i = 0; i < size; ++i) {
    const std::uint64_t distance = static_cast<std::uint64_t>(at(i)) - static_cast<std::uint64_t>(low);
    if (distance < kBins) [[likely]]
      ++bins[distance];
    else
      rest.push_back(at(i));
  }
  for (std::size_t i = 0; i < bins.size(); ++i) {
    if (bins[i] == 0) continue;
    counted.values.push_back(low + static_cast<std::int64_t>(i));
    counted.counts.push_back(bins[i]);
  }
  append(counted, rest);
  return counted;
}

}  // namespace

Counted count_differences(std::span<const std::int64_t> to, std::span<const std::int64_t> from) {
  if (to.size() > 0xFFFFFFFFULL) throw std::invalid_argument("a series of more than 2^32 - 1 values");
  if (from.empty()) return count(to.size(), [to](std::size_t i) { return to[i]; });
  if (from.size() != to.size()) throw std::invalid_argument("two series of different lengths");
  return count(to.size(), [to, from](std::size_t i) { return to[i] - from[i]; });
}

Steps steps(std::span<const std::int64_t> sent, std::span<const std::int64_t> received,
            std::span<const std::int64_t> latency) {
  if (sent.size() != received.size() || sent.size() != latency.size()) {
    throw std::invalid_argument("series of different lengths");
  }
  Steps found;
  for (std::size_t i = 0; i < sent.size(); ++i) found.backwards += received[i] < sent[i] ? 1U : 0U;
  for (std::size_t i = 1; i < sent.size(); ++i) {
    const std::int64_t change = latency[i] - latency[i - 1];
    const std::int64_t sending = sent[i] - sent[i - 1];
    found.rising += change > 0 ? 1U : 0U;
    found.falling += change < 0 ? 1U : 0U;
    found.violations += received[i] - received[i - 1] - sending != change ? 1U : 0U;
    found.backwards += sending < 0 ? 1U : 0U;
  }
  return found;
}

}  // namespace latlab::messaging
