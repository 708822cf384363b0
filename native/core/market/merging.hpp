// Threads: the pieces of a merge are written at once, each by one thread.
//
// Rows that several sinks made of their symbols, put into the order of the feed: by the offset of the message
// that each row is of. The feed is cut into as many periods as there are threads, so that each writes its own
// part of the result.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "market/crew.hpp"

namespace latlab::market {

class Merging {
 public:
  // offsets: of each share's rows, rising.
  explicit Merging(std::vector<const std::vector<std::uint64_t>*> offsets, std::size_t periods)
      : offsets_(std::move(offsets)), begins_(periods + 1, std::vector<std::size_t>(offsets_.size())) {
    std::uint64_t first = UINT64_MAX;
    std::uint64_t last = 0;
    for (const auto* rows : offsets_) {
      if (rows->empty()) continue;
      first = std::min(first, rows->front());
      last = std::max(last, rows->back());
    }
    for (std::size_t share = 0; share < offsets_.size(); ++share) {
      const auto& rows = *offsets_[share];
      begins_[periods][share] = rows.size();
      for (std::size_t period = 1; period < periods && first < last; ++period) {
        const std::uint64_t at = first + (last - first) / periods * period;
        begins_[period][share] =
            static_cast<std::size_t>(std::lower_bound(rows.begin(), rows.end(), at) - rows.begin());
      }
    }
  }

  [[nodiscard]] std::size_t periods() const noexcept { return begins_.size() - 1; }
  // The first row of a period, of a share; of the period behind the last one: how many rows it has.
  [[nodiscard]] std::size_t begin(std::size_t period, std::size_t share) const noexcept {
    return begins_[period][share];
  }
  // How many rows all shares have before a period.
  [[nodiscard]] std::size_t rows_before(std::size_t period) const noexcept {
    std::size_t all = 0;
    for (const std::size_t rows : begins_[period]) all += rows;
    return all;
  }
  [[nodiscard]] std::size_t rows() const noexcept { return rows_before(periods()); }

  // f(share, row) for each row of a period, in order. A message makes rows in one share only.
  template <class F>
  void visit(std::size_t period, F&& f) const {
    std::vector<std::size_t> next = begins_[period];
    const auto& ends = begins_[period + 1];
    const auto offset = [&](std::size_t share) {
      return next[share] == ends[share] ? UINT64_MAX : (*offsets_[share])[next[share]];
    };
    for (;;) {
      std::size_t share = 0;
      std::uint64_t least = offset(0);
      for (std::size_t other = 1; other < next.size(); ++other) {
        const std::uint64_t its = offset(other);
        share = its < least ? other : share;
        least = std::min(least, its);
      }
      if (least == UINT64_MAX) return;
      f(share, next[share]++);
    }
  }

 private:
  std::vector<const std::vector<std::uint64_t>*> offsets_;
  std::vector<std::vector<std::size_t>> begins_;  // by period and share
};

}  // namespace latlab::market
