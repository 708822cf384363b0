// Threads: one thread records into a recorder; another may read it only when that one has stopped (or merge a
// copy that the recording thread made). Recording never allocates, locks, throws or calls the system.
//
// A High Dynamic Range histogram with HdrHistogram's own bins (Gil Tene, http://hdrhistogram.org), so that
// counts move between latlab and every other HdrHistogram without loss. Values below 2·10^digits units have
// bins of one unit; from there each doubling of the value doubles the bin's width, so a bin is never wider
// than 10^-digits of its value. What lies above `highest` is counted in `beyond()`, with its largest value: a
// histogram that drops the worst latencies would be worse than none.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <vector>

namespace latlab::stats {

// Which bin a value falls into, and which values a bin holds.
class HdrBins {
 public:
  // lowest: the smallest value that must be told from 0 (its power of two below is the unit); at least 1.
  // highest: the largest value that has a bin; at least twice `lowest`. digits: significant ones, 0 to 5.
  HdrBins(std::uint64_t lowest, std::uint64_t highest, unsigned digits)
      : lowest_(lowest), highest_(highest), digits_(digits) {
    constexpr std::uint64_t limit = std::numeric_limits<std::int64_t>::max();
    if (digits > 5) throw std::invalid_argument("significant digits lie between 0 and 5");
    if (lowest < 1 || lowest > limit / 2) throw std::invalid_argument("the lowest value is at least 1");
    if (highest < 2 * lowest || highest > limit) {
      throw std::invalid_argument("the highest value is at least twice the lowest, and below 2^63");
    }
    std::uint64_t single_unit = 2;
    for (unsigned i = 0; i < digits; ++i) single_unit *= 10;
    // The power of two at or above 2·10^digits: that many bins have the width of one unit.
    half_magnitude_ = static_cast<unsigned>(std::bit_width(single_unit - 1)) - 1;
    unit_magnitude_ = static_cast<unsigned>(std::bit_width(lowest)) - 1;
    if (half_magnitude_ + 1 + unit_magnitude_ > 62) {
      throw std::invalid_argument("the lowest value is too large for that many digits");
    }
    mask_ = ((std::uint64_t{2} << half_magnitude_) - 1) << unit_magnitude_;
    // One group of bins per doubling; the first covers twice as many values as the others do.
    std::uint64_t beyond = std::uint64_t{2} << (half_magnitude_ + unit_magnitude_);
    std::size_t groups = 1;
    while (beyond <= highest) {
      ++groups;
      if (beyond > limit / 2) break;
      beyond <<= 1U;
    }
    size_ = (groups + 1) << half_magnitude_;
  }

  std::uint64_t lowest() const noexcept { return lowest_; }
  std::uint64_t highest() const noexcept { return highest_; }
  unsigned digits() const noexcept { return digits_; }
  std::size_t size() const noexcept { return size_; }

  // The bin of a value; only below size() when the value is at most what the last bin holds.
  std::size_t index(std::uint64_t value) const noexcept {
    const auto group =
        static_cast<unsigned>(std::bit_width(value | mask_)) - (half_magnitude_ + 1) - unit_magnitude_;
    return (static_cast<std::size_t>(group) << half_magnitude_) +
           static_cast<std::size_t>(value >> (group + unit_magnitude_));
  }

  // The smallest value of a bin.
  std::uint64_t lower(std::size_t index) const noexcept {
    const std::size_t half = std::size_t{1} << half_magnitude_;
    if (index < 2 * half) return static_cast<std::uint64_t>(index) << unit_magnitude_;
    const auto group = static_cast<unsigned>(index >> half_magnitude_) - 1;
    return static_cast<std::uint64_t>((index & (half - 1)) + half) << (group + unit_magnitude_);
  }

 private:
  std::uint64_t lowest_;
  std::uint64_t highest_;
  std::uint64_t mask_ = 0;
  unsigned digits_;
  unsigned half_magnitude_ = 0;
  unsigned unit_magnitude_ = 0;
  std::size_t size_ = 0;
};

class HdrRecorder {
 public:
  HdrRecorder(std::uint64_t lowest, std::uint64_t highest, unsigned digits)
      : bins_(lowest, highest, digits), counts_(bins_.size(), 0) {}

  void record(std::uint64_t value, std::uint64_t times = 1) noexcept {
    if (value > bins_.highest()) {
      beyond_ += times;
      largest_beyond_ = std::max(largest_beyond_, value);
      return;
    }
    counts_[bins_.index(value)] += times;
  }

  // Records `value` and what coordinated omission hid behind it: while one event took `value`, the events due
  // every `interval` waited too, the first for value - interval, and so on (HdrHistogram's
  // recordValueWithExpectedInterval).
  void record_corrected(std::uint64_t value, std::uint64_t interval) noexcept {
    record(value);
    if (interval == 0) return;
    for (std::uint64_t missing = value; missing >= 2 * interval;) {
      missing -= interval;
      record(missing);
    }
  }

  void record_many(std::span<const std::uint64_t> values) noexcept {
    for (const std::uint64_t value : values) record(value);
  }

  // Adds what another recorder with the same bins holds.
  void merge(const HdrRecorder& other) {
    if (other.bins_.lowest() != bins_.lowest() || other.bins_.highest() != bins_.highest() ||
        other.bins_.digits() != bins_.digits()) {
      throw std::invalid_argument("recorders with different bins can't be merged");
    }
    for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
    beyond_ += other.beyond_;
    largest_beyond_ = std::max(largest_beyond_, other.largest_beyond_);
  }

  void reset() noexcept {
    std::fill(counts_.begin(), counts_.end(), 0);
    beyond_ = largest_beyond_ = 0;
  }

  const HdrBins& bins() const noexcept { return bins_; }
  std::span<const std::uint64_t> counts() const noexcept { return counts_; }
  std::uint64_t beyond() const noexcept { return beyond_; }
  std::uint64_t largest_beyond() const noexcept { return largest_beyond_; }

  // How many values were recorded, those beyond the highest included. Walks the bins: not for a measured
  // path.
  std::uint64_t total() const noexcept {
    std::uint64_t sum = beyond_;
    for (const std::uint64_t count : counts_) sum += count;
    return sum;
  }

 private:
  HdrBins bins_;
  std::vector<std::uint64_t> counts_;
  std::uint64_t beyond_ = 0;
  std::uint64_t largest_beyond_ = 0;
};

}  // namespace latlab::stats
