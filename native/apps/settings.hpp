// Threads: pure functions.
//
// What latlab's own programs are told on their command line: numbers, and words of the form key=value.
#pragma once

#include <charconv>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

namespace latlab::apps {

// Throws std::invalid_argument for anything but a whole number.
inline std::uint64_t number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (bad != std::errc{} || end != text.data() + text.size()) {
    throw std::invalid_argument("'" + std::string(text) + "' is not a number");
  }
  return value;
}

struct Setting {
  std::string_view key;
  std::string_view value;
};

// Throws std::invalid_argument for a word without an equals sign.
inline Setting setting(std::string_view word) {
  const auto equals = word.find('=');
  if (equals == std::string_view::npos) {
    throw std::invalid_argument("'" + std::string(word) + "' is not key=value");
  }
  return {.key = word.substr(0, equals), .value = word.substr(equals + 1)};
}

}  // namespace latlab::apps
