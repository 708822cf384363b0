// Threads: plain values.
//
// What the generator's parts share: a message under construction, and quantiles to draw from.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "market/generator.hpp"
#include "market/itch.hpp"

namespace latlab::market {

using Quantiles = std::span<const std::array<std::uint32_t, 2>>;  // {share in 1/65,536, value}, ascending

inline std::uint32_t interpolate(Quantiles table, std::uint32_t at) {
  std::size_t i = 1;
  while (i + 1 < table.size() && table[i][0] <= at) ++i;
  const auto& [x0, y0] = table[i - 1];
  const auto& [x1, y1] = table[i];
  return y0 + static_cast<std::uint32_t>(std::uint64_t{y1 - y0} * (at - x0) / (x1 - x0));
}

// A message under construction: length, type and header first, fields appended big-endian.
struct Generator::Message {
  std::array<std::uint8_t, 64> bytes{};
  std::size_t size = 2;

  Message(char type, std::uint32_t locate, std::uint64_t ts_ns) {
    put8(static_cast<std::uint8_t>(type));
    put(static_cast<std::uint16_t>(locate));
    put(std::uint16_t{0});
    put(static_cast<std::uint16_t>(ts_ns >> 32));
    put(static_cast<std::uint32_t>(ts_ns));
  }
  void put8(std::uint8_t value) { bytes[size++] = value; }
  template <class T>
  Message& put(T value) {
    const T wire = itch::big_endian<T>(reinterpret_cast<const std::uint8_t*>(&value));  // its own inverse
    std::memcpy(bytes.data() + size, &wire, sizeof wire);
    size += sizeof wire;
    return *this;
  }
  Message& text(std::string_view value) {
    std::memcpy(bytes.data() + size, value.data(), value.size());
    size += value.size();
    return *this;
  }
  Message& text(const std::array<char, 8>& value) { return text(std::string_view(value.data(), 8)); }
};

}  // namespace latlab::market
