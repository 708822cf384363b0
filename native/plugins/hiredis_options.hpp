// Threads: none of its own.
//
// What the plug-in is told about its server and its way through it, from "NAME=VALUE&…" as in a URL's query.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>

#include "hiredis_connection.hpp"

namespace latlab::hiredis {

enum class Kind { kList, kStream, kPubsub };

struct Options {
  Server server{};
  std::string key{"latlab"};
  Kind kind = Kind::kList;
  std::size_t connections = 1, pipeline = 1, prefetch = 100, maxlen = 0;
  bool ack = false;
};

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

// Throws std::invalid_argument for what is no option.
inline Options options_of(std::string_view text) {
  static const std::map<std::string, Kind, std::less<>> kKinds{
      {"list", Kind::kList}, {"stream", Kind::kStream}, {"pubsub", Kind::kPubsub}};
  Options o;
  const std::map<std::string_view, std::string*> texts{
      {"library", &o.server.library},   {"host", &o.server.host},   {"user", &o.server.user},
      {"password", &o.server.password}, {"db", &o.server.database}, {"key", &o.key}};
  const std::map<std::string_view, std::size_t*> numbers{{"connections", &o.connections},
                                                         {"pipeline", &o.pipeline},
                                                         {"prefetch", &o.prefetch},
                                                         {"maxlen", &o.maxlen}};
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(text.size(), one.size() + 1));
    const std::size_t equals = one.find('=');
    if (equals == std::string_view::npos) throw std::invalid_argument(std::string(one));
    const std::string_view name = one.substr(0, equals);
    const std::string value = decoded(one.substr(equals + 1));
    if (const auto into = texts.find(name); into != texts.end()) {
      *into->second = value;
    } else if (const auto count = numbers.find(name); count != numbers.end()) {
      *count->second = number(value);
    } else if (name == "port") {
      o.server.port = static_cast<int>(number(value));
    } else if (name == "ack") {
      o.ack = value == "yes";
    } else if (name == "kind" && kKinds.contains(value)) {
      o.kind = kKinds.find(value)->second;
    } else {
      throw std::invalid_argument(std::string(one));
    }
  }
  if (o.connections < 1 || o.pipeline < 1 || o.prefetch < 1) throw std::invalid_argument("0");
  return o;
}

}  // namespace latlab::hiredis
