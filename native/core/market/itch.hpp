// Threads: pure functions and cursors; a cursor belongs to one thread.
//
// NASDAQ TotalView-ITCH 5.0: message lengths, framing (BinaryFILE: a 2-byte big-endian length before each
// message) and decoding in place. Source: "NASDAQ TotalView-ITCH 5.0" and "NASDAQ BinaryFILE 1.00".
//
// How to use it:
//
//   itch::FrameCursor frames(bytes);                  // bytes: std::span<const std::uint8_t>
//   itch::Frame frame;
//   while (frames.next(frame)) {                      // false: at the end, or inside a truncated frame
//     if (!itch::well_formed(frame)) continue;        // unknown type, or a length that disagrees with its
//     type const Event event = itch::decode(frame);        // type, kind, locate, ts_ns, ref, side, qty,
//     price books.apply(event);                             // market/book.hpp
//   }
//   if (frames.truncated()) ...                       // frames.offset() is where the torn frame begins
//
// Policy for a zero length: BinaryFILE ends a session with one. It is a frame without a message; the cursor
// returns it (size 0), readers count it and go on.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "market/event.hpp"

namespace latlab::market::itch {

inline constexpr char kTypes[] = "SRHYLVWKJhAFECXDUPQBINO";
inline constexpr std::size_t kTypeCount = sizeof(kTypes) - 1;
static_assert(kTypeCount == 23);

// The length on the wire of each type; 0: not a type of ITCH 5.0.
inline constexpr std::array<std::uint8_t, 256> kLengths = [] {
  std::array<std::uint8_t, 256> lengths{};
  constexpr std::array<std::uint8_t, kTypeCount> known{12, 39, 25, 20, 26, 35, 12, 28, 35, 21, 36, 40,
                                                       31, 36, 23, 19, 35, 44, 40, 19, 50, 20, 48};
  for (std::size_t i = 0; i < kTypeCount; ++i) lengths[static_cast<unsigned char>(kTypes[i])] = known[i];
  return lengths;
}();
inline constexpr std::size_t kMaxLength = 50;

template <class T>
[[nodiscard]] inline T big_endian(const std::uint8_t* at) noexcept {
  T value;
  std::memcpy(&value, at, sizeof value);
  if constexpr (std::endian::native == std::endian::little) {
    if constexpr (sizeof(T) == 2) value = __builtin_bswap16(value);
    if constexpr (sizeof(T) == 4) value = __builtin_bswap32(value);
    if constexpr (sizeof(T) == 8) value = __builtin_bswap64(value);
  }
  return value;
}

// The six bytes of a time stamp, without reading beyond them.
[[nodiscard]] inline std::uint64_t big_endian_48(const std::uint8_t* at) noexcept {
  return std::uint64_t{big_endian<std::uint16_t>(at)} << 32 | big_endian<std::uint32_t>(at + 2);
}

struct Frame {
  const std::uint8_t* data = nullptr;  // the message, behind its length
  std::uint64_t offset = 0;            // of the length field in the stream
  std::uint16_t size = 0;              // of the message

  [[nodiscard]] char type() const noexcept { return size ? static_cast<char>(data[0]) : '\0'; }
};

// True when the type is known and the length is the type's; only then may the message be decoded.
[[nodiscard]] inline bool well_formed(const Frame& frame) noexcept {
  return frame.size != 0 && kLengths[frame.data[0]] == frame.size;
}

class FrameCursor {
 public:
  // base: the stream's offset of the first byte, when the stream comes in pieces.
  explicit FrameCursor(std::span<const std::uint8_t> bytes, std::uint64_t base = 0) noexcept
      : bytes_(bytes), base_(base) {}

  bool next(Frame& frame) noexcept {
    if (bytes_.size() - at_ < 2) return false;
    const auto size = big_endian<std::uint16_t>(bytes_.data() + at_);
    if (bytes_.size() - at_ - 2 < size) return false;
    frame = {.data = bytes_.data() + at_ + 2, .offset = base_ + at_, .size = size};
    at_ += 2U + size;
    return true;
  }

  // After next() returned false: are there bytes that are no whole frame?
  [[nodiscard]] bool truncated() const noexcept { return at_ != bytes_.size(); }
  [[nodiscard]] std::uint64_t offset() const noexcept { return base_ + at_; }
  [[nodiscard]] std::size_t consumed() const noexcept { return at_; }
  // How many bytes there are from the frame's message on, those of later frames too.
  [[nodiscard]] std::size_t room(const Frame& frame) const noexcept {
    return static_cast<std::size_t>(bytes_.data() + bytes_.size() - frame.data);
  }

 private:
  std::span<const std::uint8_t> bytes_;
  std::size_t at_ = 0;
  std::uint64_t base_;
};

// Feeds frames that come in pieces of any size: one that a piece has torn is completed from the next, and the
// rest is read where it lies.
class FrameJoiner {
 public:
  // run(bytes) -> bytes of whole frames used; stopped() -> no more is wanted.
  template <class Run, class Stopped>
  void feed(std::span<const std::uint8_t> frames, Run&& run, Stopped&& stopped) {
    while (!rest_.empty() && !frames.empty() && !stopped()) {
      std::size_t want = 2;
      if (rest_.size() >= 2) want = 2U + big_endian<std::uint16_t>(rest_.data());
      const std::size_t take = std::min(want - rest_.size(), frames.size());
      rest_.insert(rest_.end(), frames.begin(), frames.begin() + static_cast<std::ptrdiff_t>(take));
      frames = frames.subspan(take);
      if (rest_.size() >= 2 && rest_.size() == 2U + big_endian<std::uint16_t>(rest_.data())) {
        run(std::span<const std::uint8_t>(rest_));
        rest_.clear();
      }
    }
    if (stopped() || frames.empty()) return;
    const std::size_t used = run(frames);
    if (!stopped()) rest_.assign(frames.begin() + static_cast<std::ptrdiff_t>(used), frames.end());
  }
  // Bytes of a frame whose end has not come.
  [[nodiscard]] std::size_t rest() const noexcept { return rest_.size(); }

 private:
  std::vector<std::uint8_t> rest_;
};

namespace detail {
// Where a type has what books are told, as byte offsets in the message. A field that it has not is read at 0
// and masked away, so that a decoder needs no branch for the type: which one comes next is what a processor
// can't foretell.
struct Fields {
  std::uint64_t ref_mask = 0;      // the reference stands at 11 in all that have one
  std::uint64_t new_ref_mask = 0;  // also the match number
  std::uint32_t qty_mask = 0;
  std::uint32_t price_mask = 0;
  std::uint8_t new_ref = 0;
  std::uint8_t qty = 0;
  std::uint8_t price = 0;
  std::uint8_t side = 0;
  std::uint8_t printable = 0;
  Kind kind = Kind::none;
};

inline constexpr std::array<Fields, 256> kFields = [] {
  std::array<Fields, 256> all{};
  const auto set = [&all](char type, Kind kind, std::uint8_t qty, std::uint8_t price, std::uint8_t new_ref) {
    auto& f = all[static_cast<unsigned char>(type)];
    f.kind = kind;
    f.ref_mask = UINT64_MAX;
    f.qty = qty;
    f.qty_mask = qty != 0 ? UINT32_MAX : 0;
    f.price = price;
    f.price_mask = price != 0 ? UINT32_MAX : 0;
    f.new_ref = new_ref;
    f.new_ref_mask = new_ref != 0 ? UINT64_MAX : 0;
  };
  set('A', Kind::add, 20, 32, 0);
  set('F', Kind::add, 20, 32, 0);
  set('E', Kind::execute, 19, 0, 23);
  set('C', Kind::execute_at, 19, 32, 23);
  set('X', Kind::reduce, 19, 0, 0);
  set('D', Kind::remove, 0, 0, 0);
  set('U', Kind::replace, 27, 31, 19);
  set('P', Kind::trade, 20, 32, 36);
  set('Q', Kind::cross, 15, 27, 31);  // its shares have 8 bytes: see decode()
  for (const char type : {'A', 'F', 'P'}) all[static_cast<unsigned char>(type)].side = 19;
  all['H'].qty = 16;  // the letter of its state, at 19
  all['H'].qty_mask = 0xFF;
  set('B', Kind::broken, 0, 0, 11);
  all['B'].ref_mask = 0;
  all['C'].printable = 31;
  return all;
}();

// Reads kRoom bytes from the message on.
[[nodiscard, gnu::always_inline]] inline Event decode(const std::uint8_t* m, std::uint64_t offset) noexcept {
  const Fields& f = kFields[m[0]];
  Event event{.ts_ns = big_endian_48(m + 5),
              .ref = big_endian<std::uint64_t>(m + 11) & f.ref_mask,
              .new_ref = big_endian<std::uint64_t>(m + f.new_ref) & f.new_ref_mask,
              .offset = offset,
              .qty = big_endian<std::uint32_t>(m + f.qty) & f.qty_mask,
              .price = big_endian<std::uint32_t>(m + f.price) & f.price_mask,
              .locate = big_endian<std::uint16_t>(m + 1),
              .type = static_cast<char>(m[0]),
              .kind = f.kind,
              .side = static_cast<Side>((m[f.side] == 'S') & (f.side != 0)),
              .printable = static_cast<bool>((m[f.printable] != 'N') | (f.printable == 0))};
  if (m[0] == 'S' && m[11] == 'O') [[unlikely]]
    event.kind = Kind::new_day;  // start of messages
  // Its shares have 8 bytes, all of which stand where others have a reference.
  if (m[0] == 'Q' && event.ref > UINT32_MAX) [[unlikely]]
    event.qty = UINT32_MAX;
  return event;
}
}  // namespace detail

inline constexpr std::size_t kRoom = 64;

// The message as an event. The frame must be well formed. room: how many bytes may be read from frame.data
// on; with kRoom or more the message is decoded where it lies.
[[nodiscard, gnu::always_inline]] inline Event decode(const Frame& frame, std::size_t room = 0) noexcept {
  if (room >= kRoom) [[likely]]
    return detail::decode(frame.data, frame.offset);
  std::array<std::uint8_t, kRoom> message{};
  std::memcpy(message.data(), frame.data, std::min<std::size_t>(frame.size, kRoom));
  return detail::decode(message.data(), frame.offset);
}

}  // namespace latlab::market::itch
