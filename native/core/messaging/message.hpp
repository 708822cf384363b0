// Threads: every function is pure; a Form or Pattern never changes and may be shared.
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
inline constexpr std::size_t kCompared =
    1024;  // the largest message whose pattern is compared, not summed up
inline constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15ULL;

constexpr std::size_t pattern_offset(std::size_t size) noexcept {
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

// Whether two bodies are equal; inline and without a branch a word, unlike memcmp.
inline bool same(const std::byte* a, const std::byte* b, std::size_t length) noexcept {
  using Pair [[gnu::vector_size(16)]] = std::uint64_t;
  Pair differ{};
  std::size_t at = 0;
  for (; at + 16 <= length; at += 16) {
    Pair x;
    Pair y;
    std::memcpy(&x, a + at, 16);
    std::memcpy(&y, b + at, 16);
    differ |= x ^ y;
  }
  if ((differ[0] | differ[1]) != 0) return false;
  return at == length || std::memcmp(a + at, b + at, length - at) == 0;
}

inline std::uint32_t checksum(std::uint64_t sum, std::uint32_t sequence) noexcept {
  return static_cast<std::uint32_t>((sum + (sequence + 1ULL) * kOdd) >> 32);
}

// What is the same in every message of a run. A small value: a loop that copies it to a local need not read
// it again after every store that it makes.
class Form {
 public:
  Form(const std::byte* body, std::size_t size) noexcept
      : body_(body),
        size_(size),
        from_(pattern_offset(size)),
        width_(size >= 4 ? 4 : (size >= 2 ? 2 : 1)),
        sum_(pattern_sum(body + from_, size - from_)) {}
  std::size_t size() const noexcept { return size_; }
  const std::byte* data() const noexcept { return body_; }
  std::size_t width() const noexcept { return width_; }

  // Writes sequence number and checksum over the front of a body that holds the pattern.
  void stamp(std::byte* body, std::uint32_t sequence) const noexcept {
    if (size_ >= kChecked) {
      const std::array<std::uint32_t, 2> front{sequence, checksum(sum_, sequence)};
      std::memcpy(body, front.data(), 8);
      if (size_ >= kBrokered) std::memset(body + 8, 0, 8);
    } else {
      std::memcpy(body, &sequence, width_);
    }
  }

  // The sequence number; `expected` tells the missing upper bits of a short one (the nearest number is
  // meant).
  template <std::size_t kSize = 0>
  std::uint32_t sequence(const std::byte* body, std::uint32_t expected) const noexcept {
    std::uint32_t low = 0;
    if (kSize >= 4 || width_ == 4) [[likely]] {
      std::memcpy(&low, body, 4);
      return low;
    }
    std::memcpy(&low, body, width_);
    const std::uint32_t mask = width_ == 1 ? 0xFFU : 0xFFFFU;
    const std::uint32_t ahead = (low - expected) & mask;
    return ahead <= mask / 2 ? expected + ahead : expected - (mask + 1U - ahead);
  }

  // Whether the message is as it was sent. A body below 8 bytes has no checksum: its pattern is compared. So
  // is a short one's, which takes fewer instructions than to sum it up; of a long one the pattern would fill
  // the cache.
  // A size that is known to the compiler (else 0) saves the loop a third of its instructions.
  template <std::size_t kSize = 0>
  bool intact(const std::byte* body) const noexcept {
    const std::size_t size = kSize != 0 ? kSize : size_;
    const std::size_t from = kSize != 0 ? pattern_offset(kSize) : from_;
    if (size < kChecked) return std::memcmp(body + width_, body_ + width_, size - width_) == 0;
    std::array<std::uint32_t, 2> front;
    std::memcpy(front.data(), body, 8);
    if (size <= kCompared) {
      return front[1] == checksum(sum_, front[0]) && same(body + from, body_ + from, size - from);
    }
    return front[1] == checksum(pattern_sum(body + from, size - from), front[0]);
  }

 private:
  const std::byte* body_;
  std::size_t size_, from_, width_;
  std::uint64_t sum_;
};

// Owns the body that a Form speaks of.
class Pattern {
 public:
  explicit Pattern(std::size_t size) : body_(filled(size)), form_(body_.data(), size) {}
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;
  const Form& form() const noexcept { return form_; }
  std::size_t size() const noexcept { return form_.size(); }
  const std::byte* data() const noexcept { return form_.data(); }

 private:
  static std::vector<std::byte> filled(std::size_t size) {
    std::vector<std::byte> body(size);
    std::uint64_t state = size;
    for (auto& byte : body) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      byte = static_cast<std::byte>(state >> 56);
    }
    if (size >= kBrokered) std::memset(body.data() + 8, 0, 8);
    return body;
  }
  std::vector<std::byte> body_;
  Form form_;
};

}  // namespace latlab::messaging
