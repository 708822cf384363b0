// Threads: as of a sink.
//
// Every sink by the name of its book sides ("ladder", "array", "map"): so the many kinds are compiled in one
// place. shares: how many of them have the symbols among them (market/sharing.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "market/sinks.hpp"

namespace latlab::market {

std::unique_ptr<AnyBooks> make_census(const std::string& book, std::size_t capacity, std::size_t shares = 1);
std::unique_ptr<AnyBooks> make_inside(const std::string& book, std::size_t capacity, std::size_t levels,
                                      bool text, std::uint64_t skip, Selection selection,
                                      std::size_t shares = 1);
std::unique_ptr<AnyBooks> make_depth(const std::string& book, std::size_t capacity, Selection selection,
                                     std::size_t shares = 1);
std::unique_ptr<AnyBooks> make_stats(const std::string& book, bool over_messages);
std::unique_ptr<AnyBooks> make_trades(Selection selection, std::size_t shares = 1);
std::unique_ptr<AnyBooks> make_snapshot(std::uint64_t at_ns);
std::unique_ptr<AnyBooks> make_books(std::size_t levels, std::uint64_t every_ns, Selection selection);
std::unique_ptr<AnyBooks> make_lobster(std::size_t levels, Selection selection);
std::unique_ptr<AnyBooks> make_events();

}  // namespace latlab::market
