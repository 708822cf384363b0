// Threads: pure functions; a stretch belongs to who scans it.
//
// The first pass over ITCH frames: where each message begins, and what is counted of a feed whoever has its
// symbols. It stops at a frame that is not plain (empty, of an unknown type, of a wrong length, a system
// event), so that nothing is to be decided for the others.
//
//   Stretch stretch;
//   scan(bytes, bytes.size(), stretch, [&](const std::uint8_t* message) { ...; return true; });
//   stretch.end                                   // where it stopped: at a frame that isn't plain or is torn
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "market/itch.hpp"

namespace latlab::market {

// Plain frames in a row.
struct Stretch {
  std::array<std::uint64_t, 256> types{};
  std::uint64_t back = 0;  // messages with an earlier time than the one before
  std::uint64_t first_ns = 0;
  std::uint64_t last_ns = 0;
  std::size_t begin = 0;  // in the bytes: of its first frame, and behind its last
  std::size_t end = 0;

  [[nodiscard]] bool empty() const noexcept { return begin == end; }
};

// The length of each type that is plain.
inline constexpr std::array<std::uint8_t, 256> kPlain = [] {
  auto lengths = itch::kLengths;
  lengths['S'] = 0;  // of all symbols, and a day may begin with it
  return lengths;
}();

// On from stretch.end, up to the first frame that begins at `to` or behind it. note(message) -> whether to go
// on, for each message.
template <class Note>
[[gnu::always_inline]] inline void scan(std::span<const std::uint8_t> bytes, std::size_t to, Stretch& stretch,
                                        Note&& note) {
  const std::uint8_t* const begin = bytes.data();
  const std::uint8_t* const end = begin + bytes.size();
  const std::uint8_t* const last = begin + to;
  const std::uint8_t* at = begin + stretch.end;
  std::uint64_t last_ns = stretch.last_ns;  // 0 before the first
  std::uint64_t back = 0;
  bool more = true;
  // In variables of its own: bytes that are read might be any member's, for all that a compiler knows.
  while (more && at < last && end - at >= 3) {
    const std::size_t size = itch::big_endian<std::uint16_t>(at);
    const std::uint8_t* const message = at + 2;
    if ((kPlain[message[0]] != size) | (size == 0)) break;
    if (static_cast<std::size_t>(end - message) < size) break;
    const std::uint64_t ts_ns = itch::big_endian_48(message + 5);
    ++stretch.types[message[0]];
    back += static_cast<std::uint64_t>(ts_ns < last_ns);
    last_ns = ts_ns;
    more = note(message);
    at = message + size;
  }
  if (stretch.empty() && at != begin + stretch.end)
    stretch.first_ns = itch::big_endian_48(begin + stretch.end + 7);
  stretch.back += back;
  stretch.last_ns = last_ns;
  stretch.end = static_cast<std::size_t>(at - begin);
}

}  // namespace latlab::market
