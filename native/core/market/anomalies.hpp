// Threads: plain values, no shared state.
//
// What books could not apply, or only in part: counted, never silently absorbed.
#pragma once

#include <cstdint>

namespace latlab::market {

struct Anomalies {
  std::uint64_t unknown_order = 0;    // E, C, X, D, U of a reference that does not stand: ignored
  std::uint64_t beyond_quantity = 0;  // E, C, X of more than stands: the order leaves
  std::uint64_t duplicate_order = 0;  // a reference that stands already: the newcomer is ignored
  std::uint64_t zero_quantity = 0;    // an order of no shares: it stands, and makes no level
  std::uint64_t other_symbol = 0;     // the message names another symbol than its order: the order's holds

  [[nodiscard]] std::uint64_t total() const noexcept {
    return unknown_order + beyond_quantity + duplicate_order + zero_quantity + other_symbol;
  }
  Anomalies& operator+=(const Anomalies& more) noexcept {
    unknown_order += more.unknown_order;
    beyond_quantity += more.beyond_quantity;
    duplicate_order += more.duplicate_order;
    zero_quantity += more.zero_quantity;
    other_symbol += more.other_symbol;
    return *this;
  }
};

}  // namespace latlab::market
