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
  static constexpr std::size_t kJoin = 32;  // packets that are waited for before a sequence is begun

  // A packet with the messages from `first` on. take(payload, offset, skip) is given those of which messages
  // are due, behind the first `skip`, at once or later. A packet of no messages tells what is missing before
  // it.
  template <class Take>
  void packet(std::uint64_t first, std::uint64_t count, Bytes payload, std::uint64_t offset,
              TransportCounts& counts, Take&& take) {
    if (expected_ == 0 && first == 1) start(first);
    if (first > expected_) {
      hold(first, count, payload, offset, counts);
      // A sequence is joined where it stands: at the earliest of its first packets, which may have been
      // overtaken.
      if (expected_ == 0 && held_.size() >= kJoin) join(counts, take);
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
    if (expected_ == 0) return join(counts, take);
    ++counts.gaps;
    counts.lost += held_.begin()->first - expected_;
    expected_ = held_.begin()->first;
    drain(counts, take);
  }

  // Begin anew at a number; what was held is forgotten.
  void restart(std::uint64_t expected) {
    if (expected == 1) {
      start(expected);
    } else {
      expected_ = 0;
    }
    held_.clear();
    bytes_ = 0;
  }

  // The first gaps: number of the first message that is missing, and how many.
  void missing(Transport::Gaps& gaps) const {
    if (expected_ == 0) return;  // where it begins is not known yet
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
    std::uint64_t offset = 0;
    std::uint64_t count = 0;
  };

  void start(std::uint64_t first) noexcept { expected_ = begun_ = first; }

  template <class Take>
  void join(TransportCounts& counts, Take&& take) {
    start(held_.begin()->first);
    drain(counts, take);
  }

  void hold(std::uint64_t first, std::uint64_t count, Bytes payload, std::uint64_t offset,
            TransportCounts& counts) {
    const auto [at, added] = held_.try_emplace(first);
    Held& held = at->second;
    if (!added && held.count >= count) {
      counts.duplicates += count;
      return;
    }
    // The one with more messages says it all; a heartbeat has none.
    bytes_ += payload.size() - held.payload.size();
    counts.duplicates += held.count;
    held = {{payload.begin(), payload.end()}, offset, count};
  }

  template <class Take>
  void deliver(std::uint64_t first, std::uint64_t count, Bytes payload, std::uint64_t offset,
               TransportCounts& counts, Take&& take) {
    const std::uint64_t skip = std::min(expected_ - first, count);
    const std::uint64_t late = first < begun_ ? std::min(begun_ - first, count) : 0;
    counts.late += late;
    counts.duplicates += skip - late;
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

  std::uint64_t expected_ = 0;  // 0: not begun yet
  std::uint64_t begun_ = 0;     // the number of the first message that was due
  std::map<std::uint64_t, Held> held_;
  std::size_t bytes_ = 0;  // in held_
};

}  // namespace latlab::market
