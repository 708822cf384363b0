// Threads: one thread owns a decoder.
//
// BATS/Cboe PITCH, binary ("Multicast PITCH Specification" 2.x) and ASCII ("PITCH Specification" 1.x),
// decoded to the same events as ITCH. PITCH has no locate codes: symbols are numbered as they first appear.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "market/event.hpp"

namespace latlab::market::pitch {

// What became of a message: an event, a known message without one, an unknown type, or a malformed one.
enum class Result : std::uint8_t { event, other, unknown, malformed };

template <class T>
[[nodiscard]] inline T little_endian(const std::uint8_t* at) noexcept {
  static_assert(std::endian::native == std::endian::little);
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// Symbol names to numbers from 1 on; 0 when 65,535 are taken.
class SymbolNumbers {
 public:
  std::uint16_t number(const std::uint8_t* name, std::size_t size) {
    std::array<char, 8> key;
    key.fill(' ');
    std::memcpy(key.data(), name, size);
    std::uint64_t word = 0;
    std::memcpy(&word, key.data(), 8);
    const auto at = numbers_.find(word);
    if (at != numbers_.end()) return at->second;
    if (names_.size() >= UINT16_MAX) return 0;
    names_.push_back(key);
    numbers_.emplace(word, static_cast<std::uint16_t>(names_.size()));
    return static_cast<std::uint16_t>(names_.size());
  }
  [[nodiscard]] const std::vector<std::array<char, 8>>& names() const noexcept { return names_; }

 private:
  std::unordered_map<std::uint64_t, std::uint16_t> numbers_;
  std::vector<std::array<char, 8>> names_;
};

// The smallest length of a binary message of each type; later versions append fields. 0: unknown.
inline constexpr std::array<std::uint8_t, 256> kLengths = [] {
  std::array<std::uint8_t, 256> lengths{};
  lengths[0x20] = 6;   // time
  lengths[0x21] = 34;  // add, long
  lengths[0x22] = 26;  // add, short
  lengths[0x23] = 26;  // executed
  lengths[0x24] = 38;  // executed at price or size
  lengths[0x25] = 18;  // reduce, long
  lengths[0x26] = 16;  // reduce, short
  lengths[0x27] = 27;  // modify, long
  lengths[0x28] = 19;  // modify, short
  lengths[0x29] = 14;  // delete
  lengths[0x2A] = 41;  // trade, long
  lengths[0x2B] = 33;  // trade, short
  lengths[0x2C] = 14;  // trade break
  lengths[0x2D] = 6;   // end of session
  lengths[0x2F] = 40;  // add, expanded
  lengths[0x30] = 43;  // trade, expanded
  lengths[0x31] = 18;  // trading status
  lengths[0x95] = 28;  // auction update
  lengths[0x96] = 27;  // auction summary
  lengths[0x97] = 6;   // unit clear
  lengths[0x98] = 15;  // retail price improvement
  return lengths;
}();

class BinaryDecoder {
 public:
  // frame: the unit's number, then the message as on the wire.
  Result decode(const std::uint8_t* frame, std::size_t size, Event& event) {
    if (size < 3 || frame[1] != size - 1) return Result::malformed;
    const std::uint8_t unit = frame[0];
    const std::uint8_t* m = frame + 1;
    const std::uint8_t least = kLengths[m[1]];
    event.type = static_cast<char>(m[1]);
    if (least == 0) return Result::unknown;
    if (size - 1 < least) return Result::malformed;
    if (m[1] == 0x20) {
      seconds_[unit] = little_endian<std::uint32_t>(m + 2);
      event.ts_ns = seconds_[unit] * kSecond;
      return Result::other;
    }
    event.ts_ns = seconds_[unit] * kSecond + little_endian<std::uint32_t>(m + 2);
    event.ref = size - 1 >= 14 ? little_endian<std::uint64_t>(m + 6) : 0;
    switch (m[1]) {
      case 0x21:
        return long_entry(event, Kind::add, m, 6);
      case 0x22:
        return short_entry(event, Kind::add, m);
      case 0x2F:
        return long_entry(event, Kind::add, m, 8);
      case 0x2A:
        event.new_ref = little_endian<std::uint64_t>(m + 33);
        return long_entry(event, Kind::trade, m, 6);
      case 0x2B:
        event.new_ref = little_endian<std::uint64_t>(m + 25);
        return short_entry(event, Kind::trade, m);
      case 0x30:
        event.new_ref = little_endian<std::uint64_t>(m + 35);
        return long_entry(event, Kind::trade, m, 8);
      case 0x23:
        event.kind = Kind::execute;
        event.qty = little_endian<std::uint32_t>(m + 14);
        event.new_ref = little_endian<std::uint64_t>(m + 18);
        return Result::event;
      case 0x24:
        event.kind = Kind::execute_left;
        event.qty = little_endian<std::uint32_t>(m + 14);
        event.new_ref = little_endian<std::uint32_t>(m + 18);
        return priced(event, long_price(m + 30));
      case 0x25:
        event.kind = Kind::reduce;
        event.qty = little_endian<std::uint32_t>(m + 14);
        return Result::event;
      case 0x26:
        event.kind = Kind::reduce;
        event.qty = little_endian<std::uint16_t>(m + 14);
        return Result::event;
      case 0x27:
        event.kind = Kind::modify;
        event.qty = little_endian<std::uint32_t>(m + 14);
        return priced(event, long_price(m + 18));
      case 0x28:
        event.kind = Kind::modify;
        event.qty = little_endian<std::uint16_t>(m + 14);
        return priced(event, short_price(m + 16));
      case 0x29:
        event.kind = Kind::remove;
        return Result::event;
      case 0x2C:
        event.kind = Kind::broken;
        event.new_ref = std::exchange(event.ref, 0);
        return Result::event;
      case 0x97:
        event.kind = Kind::clear_all;
        return Result::event;
      default:
        return Result::other;
    }
  }

  [[nodiscard]] const SymbolNumbers& symbols() const noexcept { return symbols_; }

 private:
  static constexpr std::uint64_t kSecond = 1'000'000'000;

  static std::uint64_t long_price(const std::uint8_t* at) { return little_endian<std::uint64_t>(at); }
  static std::uint64_t short_price(const std::uint8_t* at) {
    return std::uint64_t{100} * little_endian<std::uint16_t>(at);
  }

  // A price beyond 429,496.7295 does not fit the books' 32 bits: an error, and no silent wrap.
  static Result priced(Event& event, std::uint64_t price) {
    event.price = static_cast<std::uint32_t>(price);
    return price > UINT32_MAX ? Result::malformed : Result::event;
  }
  // A message of the long form, whose symbol has 6 or 8 characters; and one of the short form.
  Result long_entry(Event& event, Kind kind, const std::uint8_t* m, std::size_t name_size) {
    const std::uint8_t* const name = m + 19;
    return entry(event, kind, m, little_endian<std::uint32_t>(m + 15), name, name_size,
                 long_price(name + name_size));
  }
  Result short_entry(Event& event, Kind kind, const std::uint8_t* m) {
    return entry(event, kind, m, little_endian<std::uint16_t>(m + 15), m + 17, 6, short_price(m + 23));
  }
  Result entry(Event& event, Kind kind, const std::uint8_t* m, std::uint32_t qty, const std::uint8_t* name,
               std::size_t name_size, std::uint64_t price) {
    event.kind = kind;
    event.side = m[14] == 'S' ? Side::offer : Side::bid;
    event.qty = qty;
    event.locate = symbols_.number(name, name_size);
    return event.locate == 0 ? Result::malformed : priced(event, price);
  }

  std::array<std::uint64_t, 256> seconds_{};
  SymbolNumbers symbols_;
};

// Digits to the base (10, or 36 for references), right-justified with blanks allowed; nothing when it is
// none.
[[nodiscard]] inline std::optional<std::uint64_t> text_number(std::string_view text, unsigned base) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  if (text.empty()) return std::nullopt;
  std::uint64_t value = 0;
  for (const char c : text) {
    unsigned digit = 99;
    if (c >= '0' && c <= '9') digit = static_cast<unsigned>(c - '0');
    if (c >= 'A' && c <= 'Z') digit = static_cast<unsigned>(c - 'A') + 10;
    if (digit >= base) return std::nullopt;
    value = value * base + digit;
  }
  return value;
}

class AsciiDecoder {
 public:
  // frame: a line without its end.
  Result decode(const std::uint8_t* frame, std::size_t size, Event& event) {
    std::string_view line(reinterpret_cast<const char*>(frame), size);
    if (!line.empty() && line.front() == 'S') line.remove_prefix(1);  // files have it, the old feed has not
    // The longest has 68; more are two of which the end between them is damaged.
    if (line.size() < 9 || line.size() > kLongest) return Result::malformed;
    const auto ms = text_number(line.substr(0, 8), 10);
    if (!ms) return Result::malformed;
    event.ts_ns = *ms * 1'000'000;
    event.type = line[8];
    line.remove_prefix(9);
    switch (event.type) {
      case 'A':
      case 'd':
        return entry(event, Kind::add, line, event.type == 'd' ? 8 : 6);
      case 'P':
      case 'r':
        return entry(event, Kind::trade, line, event.type == 'r' ? 8 : 6);
      case 'E':
      case 'X': {
        const auto ref = text_number(line.substr(0, 12), 36);
        const auto qty = line.size() < 18 ? std::nullopt : text_number(line.substr(12, 6), 10);
        if (!ref || !qty) return Result::malformed;
        event.ref = *ref;
        event.qty = static_cast<std::uint32_t>(*qty);
        event.kind = event.type == 'E' ? Kind::execute : Kind::reduce;
        if (event.type == 'E') {
          const auto match = line.size() < 30 ? std::nullopt : text_number(line.substr(18, 12), 36);
          if (!match) return Result::malformed;
          event.new_ref = *match;
        }
        return Result::event;
      }
      case 's':
        event.kind = Kind::clear;
        if (line.size() < 8) return Result::malformed;
        event.locate = symbols_.number(reinterpret_cast<const std::uint8_t*>(line.data()), 8);
        return event.locate == 0 ? Result::malformed : Result::event;
      case 'B': {
        const auto match = line.size() < 12 ? std::nullopt : text_number(line.substr(0, 12), 36);
        if (!match) return Result::malformed;
        event.kind = Kind::broken;
        event.new_ref = *match;
        return Result::event;
      }
      case 'H':
      case 'I':
      case 'J':
      case 'R':
        return Result::other;
      default:
        return Result::unknown;
    }
  }

  [[nodiscard]] const SymbolNumbers& symbols() const noexcept { return symbols_; }

 private:
  static constexpr std::size_t kLongest = 72;

  Result entry(Event& event, Kind kind, std::string_view line, std::size_t name_size) {
    // Behind the price: a display, a participant, a customer, or an execution.
    if (line.size() < 19 + name_size + 10 || line.size() > 19 + name_size + 10 + 14) return Result::malformed;
    const auto ref = text_number(line.substr(0, 12), 36);
    const auto qty = text_number(line.substr(13, 6), 10);
    const auto price = text_number(line.substr(19 + name_size, 10), 10);
    if (!ref || !qty || !price || *price > UINT32_MAX) return Result::malformed;
    if (line[12] != 'B' && line[12] != 'S') return Result::malformed;
    event.kind = kind;
    event.ref = *ref;
    event.side = line[12] == 'S' ? Side::offer : Side::bid;
    event.qty = static_cast<std::uint32_t>(*qty);
    event.price = static_cast<std::uint32_t>(*price);
    event.locate = symbols_.number(reinterpret_cast<const std::uint8_t*>(line.data()) + 19, name_size);
    if (kind == Kind::trade && line.size() >= 41 + name_size) {
      event.new_ref = text_number(line.substr(29 + name_size, 12), 36).value_or(0);
    }
    return event.locate == 0 ? Result::malformed : Result::event;
  }

  SymbolNumbers symbols_;
};

}  // namespace latlab::market::pitch
