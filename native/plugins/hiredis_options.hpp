// Threads: none of its own.
//
// What the plug-in is told about its server and its way through it, from "NAME=VALUE&…" as in a URL's query.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>

#include "hiredis_connection.hpp"
#include "words.hpp"

namespace latlab::hiredis {

enum class Kind { kList, kStream, kPubsub };

struct Options {
  Server server{};
  std::string key{"latlab"};
  Kind kind = Kind::kList;
  std::size_t connections = 1, pipeline = 1, prefetch = 100, maxlen = 0;
  bool ack = false;
};

// Throws std::invalid_argument for what is no option.
inline Options options_of(std::string_view text) {
  static const std::map<std::string, Kind, std::less<>> kKinds{
      {"list", Kind::kList}, {"stream", Kind::kStream}, {"pubsub", Kind::kPubsub}};
  Options o;
  const plugins::Places places{
      .texts = {{"library", &o.server.library},
                {"host", &o.server.host},
                {"user", &o.server.user},
                {"password", &o.server.password},
                {"db", &o.server.database},
                {"key", &o.key}},
      .numbers = {{"connections", &o.connections},
                  {"pipeline", &o.pipeline},
                  {"prefetch", &o.prefetch},
                  {"maxlen", &o.maxlen},
                  {"port", &o.server.port}},
      .switches = {{"ack", &o.ack}},
  };
  plugins::read_words(text, places, [&](std::string_view name, const std::string& value) {
    const auto kind = kKinds.find(value);
    if (name != "kind" || kind == kKinds.end()) return false;
    o.kind = kind->second;
    return true;
  });
  if (o.connections < 1 || o.pipeline < 1 || o.prefetch < 1) throw std::invalid_argument("0");
  return o;
}

}  // namespace latlab::hiredis
