// Threads: one thread owns a sequence.
//
// Packets of numbered messages, from any number of lines that carry the same: each message once, in order. A
// packet that comes too early is held back until what is missing before it has come, or until it is given up.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "market/transport.hpp"

namespace latlab::market {

class Sequence {
 public:
  static constexpr std::size_t kMostGaps = 64;

  // A packet with the messages from `first` on. take(payload, offset, skip) is given those of which messages
  // are due, behind the first `skip`, at once or later. A packet of no messages tells what is missing before
  // it.
  template <class Take>
  void packet(std::uint64_t first, std::uint64_t count, Bytes payload, std::uint64_t offset,
              TransportCounts& counts, Take&& take) {
    if (expected_ == 0) expected_ = first;  // a sequence is joined where it stands
    if (first > expected_) {
      const auto [at, added] =
          held_.try_emplace(first, Held{{payload.begin(), payload.end()}, offset, count});
      bytes_ += added ? payload.size() : 0;
      return;
    }
    if (count == 0) return;
    const std::uint64_t before = expected_;
    deliver(first, count, payload, offset, counts, take);
    if (!held_.empty()) counts.recovered += expected_ - before;
    drain(counts, take);
  }

  // Give up the first gap.
  template <class Take>
  void release(TransportCounts& counts, Take&& take) {
    if (held_.empty()) return;
    ++counts.gaps;
    counts.lost += held_.begin()->first - expected_;
    expected_ = held_.begin()->first;
    drain(counts, take);
  }

  // Begin anew at a number; what was held is forgotten.
  void restart(std::uint64_t expected) {
    expected_ = expected;
    held_.clear();
    bytes_ = 0;
  }

  // The first gaps: number of the first message that is missing, and how many.
  void missing(Transport::Gaps& gaps) const {
    std::uint64_t next = expected_;
    for (const auto& [first, held] : held_) {
      if (gaps.size() >= kMostGaps) return;
      if (first > next) gaps.emplace_back(next, first - next);
      next = std::max(next, first + held.count);
    }
  }
  [[nodiscard]] bool waits() const noexcept { return !held_.empty(); }
  [[nodiscard]] bool exceeds(std::size_t packets, std::size_t bytes) const noexcept {
    return held_.size() > packets || bytes_ > bytes;
  }

 private:
  struct Held {
    std::vector<std::uint8_t> payload;
    std::uint64_t offset;
    std::uint64_t count;
  };

  template <class Take>
  void deliver(std::uint64_t first, std::uint64_t count, Bytes payload, std::uint64_t offset,
               TransportCounts& counts, Take&& take) {
    const std::uint64_t skip = std::min(expected_ - first, count);
    counts.duplicates += skip;
    if (skip < count) take(payload, offset, skip);
    expected_ = std::max(expected_, first + count);
  }
  template <class Take>
  void drain(TransportCounts& counts, Take&& take) {
    while (!held_.empty() && held_.begin()->first <= expected_) {
      const auto held = held_.extract(held_.begin());
      bytes_ -= held.mapped().payload.size();
      deliver(held.key(), held.mapped().count, held.mapped().payload, held.mapped().offset, counts, take);
    }
  }

  std::uint64_t expected_ = 0;  // 0: no packet yet
  std::map<std::uint64_t, Held> held_;
  std::size_t bytes_ = 0;  // in held_
};

}  // namespace latlab::market
