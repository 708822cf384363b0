// Threads: one thread owns it.
//
// The end of an input's piece that is not a whole packet, kept until the next piece has come.
#pragma once

#include <cstdint>
#include <vector>

#include "market/transport.hpp"

namespace latlab::market {

class Pieces {
 public:
  // The bytes to look at now: the rest of before and the new piece.
  Bytes join(Bytes piece) {
    if (rest_.empty()) return piece;
    rest_.insert(rest_.end(), piece.begin(), piece.end());
    joined_.swap(rest_);
    rest_.clear();
    return joined_;
  }
  void keep(Bytes all, std::size_t consumed) {
    offset_ += consumed;
    const auto rest = all.subspan(consumed);
    rest_.assign(rest.begin(), rest.end());
  }
  [[nodiscard]] std::uint64_t offset() const noexcept { return offset_; }
  [[nodiscard]] Bytes rest() const noexcept { return rest_; }

 private:
  std::vector<std::uint8_t> rest_;
  std::vector<std::uint8_t> joined_;
  std::uint64_t offset_ = 0;
};

}  // namespace latlab::market
