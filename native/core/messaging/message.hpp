// Threads: every function is pure; a Pattern is immutable after its construction and may be shared.
//
// The body of a measured message. It carries what its size has room for, in the machine's byte order:
//
//   offset  bytes  from size  content
//        0      1          1  sequence number, lowest 8 bits (2 bytes from size 2, 4 bytes from size 4)
//        4      4          8  checksum of the sequence number and of the pattern
//        8      4         16  ticks spent in a broker of ours (0: not sampled); not covered by the checksum
//       12      4         16  the broker's CPU time in us, lowest 32 bits; not covered either
//    8 / 16   rest             a pseudo-random pattern, the same in every message of a run
//
// The checksum is a multilinear sum (each word times an odd constant of its own) folded to its upper half.
// The sender's costs one multiplication a message, since the pattern's part never changes; the receiver reads
// it all.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace latlab::messaging {

inline constexpr std::size_t kChecked = 8;    // the smallest message with a checksum
inline constexpr std::size_t kBrokered = 16;  // the smallest message with room for the broker's times
inline constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15ULL;

inline std::size_t pattern_offset(std::size_t size) noexcept {
  return size >= kBrokered ? kBrokered : (size < kChecked ? size : kChecked);
}

// The sum over [data, data + length); the last word is padded with zeros.
inline std::uint64_t pattern_sum(const std::byte* data, std::size_t length) noexcept {
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  std::uint64_t factor = kOdd;
  std::size_t at = 0;
  for (; at + 16 <= length; at += 16) {  // two sums, so that one multiplication doesn't wait for the other
    std::array<std::uint64_t, 2> words;
    std::memcpy(words.data(), data + at, 16);
    a += words[0] * factor;
    b += words[1] * (factor + 2);
    factor += 4;
  }
  while (at < length) {
    std::uint64_t word = 0;
    const std::size_t part = length - at < 8 ? length - at : 8;
    std::memcpy(&word, data + at, part);
    a += word * factor;
    factor += 2;
    at += part;
  }
  return a + b;
}

inline std::uint32_t checksum(std::uint64_t sum, std::uint32_t sequence) noexcept {
  return static_cast<std::uint32_t>((sum + (sequence + 1ULL) * kOdd) >> 32);
}

class Pattern {
 public:
  explicit Pattern(std::size_t size) : body_(size) {
    std::uint64_t state = size;
    for (auto& byte : body_) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      byte = static_cast<std::byte>(state >> 56);
    }
    if (size >= kBrokered) std::memset(body_.data() + 8, 0, 8);
    const std::size_t from = pattern_offset(size);
    sum_ = pattern_sum(body_.data() + from, size - from);
  }
  std::size_t size() const noexcept { return body_.size(); }
  const std::byte* data() const noexcept { return body_.data(); }

  // Writes sequence number and checksum over the front of a body that holds the pattern.
  void stamp(std::byte* body, std::uint32_t sequence) const noexcept {
    if (size() >= kChecked) {
      const std::array<std::uint32_t, 2> front{sequence, checksum(sum_, sequence)};
      std::memcpy(body, front.data(), 8);
      if (size() >= kBrokered) std::memset(body + 8, 0, 8);
    } else {
      std::memcpy(body, &sequence, width());
    }
  }

  // The sequence number; `expected` tells the missing upper bits of a short one (the nearest number is
  // meant).
  std::uint32_t sequence(const std::byte* body, std::uint32_t expected) const noexcept {
    std::uint32_t low = 0;
    std::memcpy(&low, body, width());
    if (width() == 4) return low;
    const std::uint32_t mask = width() == 1 ? 0xFFU : 0xFFFFU;
    const std::uint32_t ahead = (low - expected) & mask;
    return ahead <= mask / 2 ? expected + ahead : expected - (mask + 1U - ahead);
  }

  // Whether the message is as it was sent. A body below 8 bytes has no checksum: its pattern is compared.
  bool intact(const std::byte* body) const noexcept {
    if (size() < kChecked) return std::memcmp(body + width(), data() + width(), size() - width()) == 0;
    std::array<std::uint32_t, 2> front;
    std::memcpy(front.data(), body, 8);
    const std::size_t from = pattern_offset(size());
    return front[1] == checksum(pattern_sum(body + from, size() - from), front[0]);
  }

  std::size_t width() const noexcept { return size() >= 4 ? 4 : (size() >= 2 ? 2 : 1); }

 private:
  std::vector<std::byte> body_;
  std::uint64_t sum_ = 0;
};

}  // namespace latlab::messaging
