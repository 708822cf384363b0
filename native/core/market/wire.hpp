// Threads: pure functions.
//
// The layout of messages as text, field by field without holes: "ref:8 side:1t shares:4" is a number of 8
// bytes, one character and a number of 4.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace latlab::market {

struct Wire {
  std::string name;
  std::uint8_t size;
  char kind;  // the letter behind the size; 0: none
};

inline std::vector<Wire> wires(std::string_view text) {
  std::vector<Wire> fields;
  while (!text.empty()) {
    const std::string_view field = text.substr(0, text.find(' '));
    const std::size_t colon = field.find(':');
    std::uint8_t size = 0;
    const char* const end = field.data() + field.size();
    const char* const kind = std::from_chars(field.data() + colon + 1, end, size).ptr;
    fields.push_back({std::string(field.substr(0, colon)), size, kind == end ? '\0' : *kind});
    text.remove_prefix(std::min(field.size() + 1, text.size()));
  }
  return fields;
}

}  // namespace latlab::market
