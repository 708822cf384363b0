// Threads: one thread owns it.
//
// Going on behind damage. Nothing marks where a message begins but the lengths before it, so that one flipped
// bit of a length loses all that follows it. Three plausible lengths in a row are what no chance brings
// about: behind something implausible, the next such row is where a reading goes on.
//
//   find_row(bytes, from, length_of, last)   where the next row begins
//   Resync                                   ITCH frames: sound ones out, what was jumped over told
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "market/itch.hpp"

namespace latlab::market {

inline constexpr std::size_t kMoreNeeded = SIZE_MAX;
inline constexpr std::size_t kRow = 3;

struct Row {
  std::size_t at = 0;
  bool found = false;
  bool undecided = false;  // it may begin at `at`: more bytes would tell
};

// length_of(bytes) -> the length of the thing that begins there, 0: none does, kMoreNeeded: too few bytes to
// tell. last: no bytes will follow, and a row may end with them.
template <class Length>
[[nodiscard]] bool row_at(std::span<const std::uint8_t> all, std::size_t at, Length&& length_of, bool last,
                          bool& undecided) {
  for (std::size_t count = 0; count < kRow; ++count) {
    const std::size_t room = all.size() - at;
    if (room == 0) {
      undecided = !last;
      return last && count != 0;
    }
    const std::size_t length = length_of(all.subspan(at));
    if (length == 0) return false;
    if (length == kMoreNeeded || length > room) {
      undecided = !last;
      return last && count == kRow - 1;  // torn, behind two that are whole
    }
    at += length;
  }
  return true;
}

template <class Length>
[[nodiscard]] Row find_row(std::span<const std::uint8_t> all, std::size_t from, Length&& length_of,
                           bool last) {
  for (std::size_t at = from; at < all.size(); ++at) {
    bool undecided = false;
    if (row_at(all, at, length_of, last, undecided)) return {.at = at, .found = true};
    if (undecided) return {.at = at, .undecided = true};
  }
  return {.at = all.size()};
}

// A frame with the length of its type, and within a day.
[[nodiscard]] inline std::size_t sound_frame(std::span<const std::uint8_t> at) noexcept {
  constexpr std::uint64_t kDayNs = 86'400ULL * 1'000'000'000;
  if (at.size() < 3) return kMoreNeeded;
  const std::size_t size = itch::big_endian<std::uint16_t>(at.data());
  if (size == 0 || itch::kLengths[at[2]] != size) return 0;
  if (at.size() < 2 + size) return kMoreNeeded;
  return itch::big_endian_48(at.data() + 7) < kDayNs ? 2 + size : 0;
}

class Resync {
 public:
  using Bytes = std::span<const std::uint8_t>;

  // run(bytes): frames that may be read one behind the other; jump(count): bytes that hold none.
  template <class Run, class Jump>
  void feed(Bytes piece, Run&& run, Jump&& jump) {
    if (rest_.empty()) {
      const std::size_t used = go(piece, false, run, jump);
      rest_.assign(piece.begin() + static_cast<std::ptrdiff_t>(used), piece.end());
      return;
    }
    rest_.insert(rest_.end(), piece.begin(), piece.end());
    const std::size_t used = go(rest_, false, run, jump);
    rest_.erase(rest_.begin(), rest_.begin() + static_cast<std::ptrdiff_t>(used));
  }
  template <class Run, class Jump>
  void finish(Run&& run, Jump&& jump) {
    const std::size_t used = go(rest_, true, run, jump);
    rest_.erase(rest_.begin(), rest_.begin() + static_cast<std::ptrdiff_t>(used));
  }
  // Bytes of a frame whose end has not come.
  [[nodiscard]] std::size_t rest() const noexcept { return rest_.size(); }

 private:
  // A damaged length reaches no further, and the row behind it is seen too.
  static constexpr std::size_t kWindow = UINT16_MAX + 2 + kRow * (itch::kMaxLength + 2);
  template <class Run, class Jump>
  std::size_t go(Bytes all, bool last, Run&& run, Jump&& jump) {
    std::size_t given = 0;  // what was run or jumped over
    std::size_t at = 0;
    const auto flush = [&] {
      if (at != given) run(all.subspan(given, at - given));
      given = at;
    };
    const auto leap = [&](std::size_t to) {
      flush();
      jump(to - at);
      given = at = to;
    };
    const auto row = [&](std::size_t from) {
      bool undecided = false;
      return from <= all.size() && row_at(all, from, sound_frame, last, undecided);
    };
    while (at < all.size()) {
      const Bytes here = all.subspan(at);
      const std::size_t size = here.size() < 2 ? 0 : itch::big_endian<std::uint16_t>(here.data());
      if (here.size() >= 3 && itch::kLengths[here[2]] == size && size != 0) {
        if (here.size() < 2 + size) break;
        at += 2 + size;
        continue;
      }
      if (!last && here.size() < kWindow) break;
      if (here.size() < 3) {
        if (here.size() == 2 && size == 0) at += 2;  // the end of the session
        break;
      }
      // Either its length or its type is wrong: what follows says which. The nearer row first, since a far
      // one may be met by chance.
      const std::size_t own = itch::kLengths[here[2]];
      const bool nearer = own != 0 && own < size && row(at + 2 + own);
      if (!nearer && (row(at + 2 + size) || (last && at + 2 + size == all.size()))) {
        at += 2 + size;
      } else if (nearer || (own > size && row(at + 2 + own))) {
        leap(at + 2 + own);
      } else {
        const Row next = find_row(all, at + 1, sound_frame, last);
        leap(next.at);
        if (next.undecided) break;
      }
    }
    flush();
    return given;
  }

  std::vector<std::uint8_t> rest_;
};

}  // namespace latlab::market
