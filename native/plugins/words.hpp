// Threads: none of its own.
//
// What a plug-in is told, "NAME=VALUE&…" as in a URL's query.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>

namespace latlab::plugins {

inline std::string decoded(std::string_view text) {
  std::string found;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(&text[i + 1], &text[i + 1] + 2, value, 16).ptr == &text[i + 1] + 2) {
      found += static_cast<char>(value);
      i += 2;
    } else {
      found += text[i];
    }
  }
  return found;
}

inline std::size_t number(const std::string& text) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) throw std::invalid_argument(text);
  return value;
}

// What is asked for, by kind: where each name's value goes.
struct Places {
  std::map<std::string_view, std::string*> texts{};
  std::map<std::string_view, std::size_t*> numbers{};
  std::map<std::string_view, bool*> switches{};  // yes or no
};

// Throws std::invalid_argument for what is no option; other(name, value) says whether it knows the rest.
template <class Other>
void read_words(std::string_view text, const Places& places, Other&& other) {
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(text.size(), one.size() + 1));
    const std::size_t equals = one.find('=');
    if (equals == std::string_view::npos) throw std::invalid_argument(std::string(one));
    const std::string_view name = one.substr(0, equals);
    const std::string value = decoded(one.substr(equals + 1));
    if (const auto into = places.texts.find(name); into != places.texts.end()) {
      *into->second = value;
    } else if (const auto count = places.numbers.find(name); count != places.numbers.end()) {
      *count->second = number(value);
    } else if (const auto on = places.switches.find(name); on != places.switches.end()) {
      *on->second = value == "yes";
    } else if (!other(name, value)) {
      throw std::invalid_argument(std::string(one));
    }
  }
}

inline void read_words(std::string_view text, const Places& places) {
  read_words(text, places, [](std::string_view, const std::string&) { return false; });
}

}  // namespace latlab::plugins
