// Over 400 lines: bindings only, one after the other, with their signatures for the type stubs.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "latlab/guarded_map.hpp"
#include "market/generator.hpp"
#include "market/make_sinks.hpp"
#include "market/pipeline.hpp"
#include "market/pitch_records.hpp"
#include "market/records.hpp"
#include "market/research.hpp"
#include "market/stats.hpp"
#include "market/transport.hpp"

namespace nb = nanobind;
using namespace nb::literals;
namespace market = latlab::market;

namespace {

using Buffer = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
auto array(std::vector<T> values) {
  auto* owned = new std::vector<T>(std::move(values));
  const nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::ndarray<nb::numpy, T, nb::ndim<1>>(owned->data(), {owned->size()}, owner);
}

market::Selection selection(const std::vector<std::string>& symbols, std::uint64_t from_ns,
                            std::uint64_t to_ns) {
  return {.symbols = {symbols.begin(), symbols.end()}, .from_ns = from_ns, .to_ns = to_ns};
}

// A sink for each of the threads that share a feed's symbols; make(shares).
template <class Make>
market::Pipeline pipeline_of(const std::string& framing, bool lenient, std::size_t jobs, Make&& make) {
  const std::size_t shares = std::clamp<std::size_t>(jobs, 1, market::kMostShares);
  market::Pipeline::Sinks sinks;
  while (sinks.size() < shares) sinks.push_back(make(shares));
  return {framing, lenient, std::move(sinks)};
}

template <class Result>
Result& result(market::Pipeline& pipeline) {
  auto* found = dynamic_cast<Result*>(&pipeline.sink());
  if (found == nullptr) throw std::invalid_argument("this pipeline makes no such result");
  return *found;
}

using Counts = std::map<std::string, std::uint64_t>;
using Columns = nb::typed<nb::dict, nb::str, nb::object>;
template <class T>
using Array = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

Counts counts(const market::Pipeline& pipeline) {
  const auto& c = pipeline.counts();
  return {{"messages", c.messages},         {"unknown", c.unknown},       {"empty", c.empty},
          {"malformed", c.malformed},       {"first_ns", c.first_ns},     {"last_ns", c.last_ns},
          {"out_of_order", c.out_of_order}, {"early_ends", c.early_ends}, {"jumped", c.jumped},
          {"offset", pipeline.offset()}};
}

std::map<int, std::uint64_t> by_type(const market::Pipeline& pipeline) {
  std::map<int, std::uint64_t> out;
  const auto& types = pipeline.counts().by_type;
  for (std::size_t type = 0; type < types.size(); ++type) {
    if (types[type] != 0) out.emplace(static_cast<int>(type), types[type]);
  }
  return out;
}

Counts transport_counts(const market::TransportCounts& c) {
  return {{"packets", c.packets},       {"ignored", c.ignored}, {"heartbeats", c.heartbeats},
          {"duplicates", c.duplicates}, {"gaps", c.gaps},       {"lost", c.lost},
          {"recovered", c.recovered},   {"late", c.late},       {"ends", c.ends},
          {"malformed", c.malformed}};
}

Counts anomalies(const market::Pipeline& pipeline) {
  const auto a = pipeline.anomalies();
  return {{"unknown_order", a.unknown_order},
          {"beyond_quantity", a.beyond_quantity},
          {"duplicate_order", a.duplicate_order},
          {"zero_quantity", a.zero_quantity},
          {"other_symbol", a.other_symbol}};
}

Counts side_counts(const market::Pipeline& pipeline) {
  const auto c = pipeline.side_counts();
  return {{"flushes", c.flushes}, {"refills", c.refills}, {"far", c.far}, {"off_tick", c.off_tick}};
}

nb::bytes text_of(const market::Symbol& name) {
  const std::string_view text(name.data(), name.size());
  return nb::bytes(text.data(), text.find_last_not_of(std::string_view(" \0", 2)) + 1);
}

using NameMap = std::map<int, nb::bytes>;
NameMap names_of(const std::vector<std::pair<std::uint16_t, market::Symbol>>& all) {
  NameMap out;
  for (const auto& [locate, name] : all) out.emplace(locate, text_of(name));
  return out;
}

NameMap symbols(const market::Pipeline& pipeline) {
  return names_of(pipeline.names());
}

std::pair<Array<std::uint64_t>, Array<std::uint64_t>> histogram(const market::Counter& counter) {
  std::vector<std::uint64_t> values;
  std::vector<std::uint64_t> times;
  for (const auto& [value, count] : counter.counts()) {
    values.push_back(value);
    times.push_back(count);
  }
  return {array(std::move(values)), array(std::move(times))};
}

// A column of each member, by name; letters are numbers.
template <class Row>
void add_columns(Columns& /*to*/, const std::vector<Row>& /*rows*/) {}

template <class Row, class Member, class... More>
void add_columns(Columns& to, const std::vector<Row>& rows, const char* name, Member Row::* member,
                 More... more) {
  std::vector<std::conditional_t<std::is_same_v<Member, char>, std::uint8_t, Member>> values;
  values.reserve(rows.size());
  for (const auto& row : rows)
    values.push_back(static_cast<typename decltype(values)::value_type>(row.*member));
  to[name] = array(std::move(values));
  add_columns(to, rows, more...);
}

Columns take_trades(market::Pipeline& pipeline) {
  auto& found = result<market::TradesResult>(pipeline);
  const auto rows = std::exchange(found.trades, {});
  Columns out;
  using Row = market::Trade;
  add_columns(out, rows, "ts_ns", &Row::ts_ns, "locate", &Row::locate, "type", &Row::type, "side", &Row::side,
              "aggressor", &Row::aggressor, "price", &Row::price, "qty", &Row::qty, "match", &Row::match,
              "day", &Row::day, "printable", &Row::printable);
  return out;
}

Columns snapshot(market::Pipeline& pipeline) {
  const auto rows = result<market::SnapshotResult>(pipeline).levels();
  Columns out;
  using Row = market::SnapshotLevel;
  add_columns(out, rows, "locate", &Row::locate, "side", &Row::side, "level", &Row::level, "price",
              &Row::price, "qty", &Row::qty, "orders", &Row::orders);
  return out;
}

template <class Weight>
nb::tuple distribution(const market::LogHistogram<Weight>& histogram) {
  const auto& bins = histogram.bins();
  return nb::make_tuple(array(std::vector<Weight>(bins.begin(), bins.end())), histogram.min(),
                        histogram.max());
}

nb::tuple distribution(const market::EventHistogram& histogram) {
  return nb::make_tuple(array(histogram.bins()), histogram.min(), histogram.max());
}

nb::tuple distributions(const market::SymbolRates& rates) {
  return nb::make_tuple(rates.samples(), distribution(rates.rate(0)), distribution(rates.rate(1)),
                        distribution(rates.rate(2)), distribution(rates.arrival()),
                        distribution(rates.processing()));
}

// Samples and the five distributions (rates in 1 s, 1 ms, 1 us; arrival; processing in ticks) by symbol
// number, those of all symbols under -1; each distribution is its bins, least and greatest value.
nb::typed<nb::dict, nb::int_, nb::object> statistics(market::Pipeline& pipeline) {
  const auto& r = result<market::StatsResult>(pipeline);
  nb::typed<nb::dict, nb::int_, nb::object> out;
  out[nb::int_(-1)] = distributions(r.all);
  for (std::size_t locate = 0; locate < r.symbols.size(); ++locate) {
    if (r.symbols[locate] != nullptr) out[nb::int_(locate)] = distributions(*r.symbols[locate]);
  }
  return out;
}

template <class Taker>
void feed(Taker& self, const Buffer& buffer) {
  const nb::gil_scoped_release release;
  self.feed({buffer.data(), buffer.size()});
}

void bind_records(nb::module_& m) {
  using market::RecordDecoder;
  m.def(
      "record_layouts",
      [](const std::string& dialect) {
        std::vector<std::tuple<int, int, std::vector<std::tuple<std::string, int, int, bool>>>> out;
        if (dialect != "I") {
          const bool binary = dialect == "P";
          for (const auto& layout : market::pitch::record_layouts(binary ? 'P' : 'T')) {
            std::vector<std::tuple<std::string, int, int, bool>> fields{{"type", 0, 1, !binary}};
            if (binary) fields.emplace_back("unit", 1, 1, false);
            fields.emplace_back("ts_ns", static_cast<int>(market::pitch::kRecordTime), 8, false);
            for (const auto& f : layout.fields) {
              fields.emplace_back(f.name, f.record, f.width, f.kind == market::pitch::FieldKind::text);
            }
            out.emplace_back(layout.type, layout.size, std::move(fields));
          }
          return out;
        }
        for (const auto& layout : market::record_layouts()) {
          std::vector<std::tuple<std::string, int, int, bool>> fields;
          for (const auto& f : layout.fields) fields.emplace_back(f.name, f.record, f.width, f.text);
          out.emplace_back(static_cast<unsigned char>(layout.type), layout.size, std::move(fields));
        }
        return out;
      },
      "dialect"_a = "I",
      "(type, bytes of a record, [(field, offset, bytes, text)]) of each type; the last 8 bytes are the "
      "frame's offset.");
  m.def(
      "decode_sum",
      [](const Buffer& buffer, int permutation) {
        const nb::gil_scoped_release release;
        return RecordDecoder::sum({buffer.data(), buffer.size()},
                                  static_cast<market::Permutation>(permutation));
      },
      "frames"_a, "permutation"_a,
      "Decode a buffer of whole frames into the same small space; for measuring.");
  m.def("best_permutation", [] { return static_cast<int>(market::best_permutation()); });
  nb::class_<RecordDecoder>(m, "RecordDecoder", "All fields of messages as arrays of records.")
      .def(
          "__init__",
          [](RecordDecoder* self, bool lenient, int permutation, const std::string& dialect) {
            new (self) RecordDecoder(
                lenient,
                permutation < 0 ? market::best_permutation() : static_cast<market::Permutation>(permutation),
                dialect.empty() ? 'I' : dialect[0]);
          },
          "lenient"_a, "permutation"_a = -1, "dialect"_a = "I")
      .def("feed", &feed<RecordDecoder>, "frames"_a)
      .def("finish", &RecordDecoder::finish)
      .def(
          "take",
          [](RecordDecoder& self) {
            std::vector<std::pair<std::size_t, Array<std::uint8_t>>> arrays;
            for (auto& column : self.take())
              arrays.emplace_back(column.count, array(std::move(column.bytes)));
            return arrays;
          },
          "(count, bytes) of the records of each type since the last take.")
      .def_prop_ro("stopped", &RecordDecoder::stopped)
      .def_prop_ro("messages", &RecordDecoder::messages)
      .def_prop_ro("unknown", &RecordDecoder::unknown)
      .def_prop_ro("malformed", &RecordDecoder::malformed)
      .def_prop_ro("early_ends", &RecordDecoder::early_ends)
      .def_prop_ro("out_of_order", &RecordDecoder::out_of_order)
      .def_prop_ro("offset", &RecordDecoder::offset)
      .def("errors", [](const RecordDecoder& self) {
        std::vector<std::pair<std::uint64_t, std::string>> out;
        for (const auto& error : self.errors()) out.emplace_back(error.offset, error.what);
        return out;
      });

  nb::class_<market::Transport>(m, "Transport", "Frames out of captures, streams and packets.")
      .def(nb::new_([](const std::string& which) { return market::make_transport(which); }), "which"_a)
      .def(
          "feed",
          [](market::Transport& self, const Buffer& buffer) { self.feed({buffer.data(), buffer.size()}); },
          "bytes"_a)
      .def("finish", &market::Transport::finish)
      .def(
          "take",
          [](market::Transport& self, bool strict) {
            const market::Bytes taken = strict ? self.sound_frames() : self.frames();
            std::vector<std::uint8_t> frames(taken.begin(), taken.end());
            self.drop();
            return array(std::move(frames));
          },
          "strict"_a = false, "The frames since the last take; strict: those before the first error only.")
      .def("missing", &market::Transport::missing,
           "Gaps that packets wait for: first missing sequence number, and how many are missing.")
      .def_prop_ro("dialect", [](const market::Transport& self) { return std::string(1, self.dialect()); })
      .def("counts", [](const market::Transport& self) { return transport_counts(self.counts()); })
      .def("errors", [](const market::Transport& self) {
        std::vector<std::pair<std::uint64_t, std::string>> out;
        for (const auto& error : self.errors()) out.emplace_back(error.offset, error.what);
        return out;
      });
}

void bind_generator(nb::module_& m) {
  m.attr("MAX_JOBS") = market::kMostShares;
  m.attr("MAX_SYMBOLS") = market::kMaxSymbols;
  nb::class_<market::Generator>(m, "Generator", "A deterministic ITCH-5.0 day.")
      .def(
          "__init__",
          [](market::Generator* self, std::uint64_t seed, std::uint64_t messages, std::uint32_t symbols) {
            new (self) market::Generator({.seed = seed, .messages = messages, .symbols = symbols});
          },
          "seed"_a, "messages"_a, "symbols"_a)
      .def(
          "fill",
          [](market::Generator& self, std::size_t size) {
            std::vector<std::uint8_t> buffer(size < 64 ? 64 : size);
            std::size_t used = 0;
            {
              const nb::gil_scoped_release release;
              used = self.fill(buffer);
            }
            return nb::bytes(buffer.data(), used);
          },
          "size"_a, "At most this many bytes of whole BinaryFILE frames; empty when the day is over.")
      .def_prop_ro("written", &market::Generator::written)
      .def_prop_ro("symbols", &market::Generator::symbols);
}

void bind_pipeline(nb::module_& m) {
  using market::Pipeline;
  using Names = std::vector<std::string>;
  nb::class_<Pipeline>(m, "Pipeline", "An input's bytes, through transport, session and books, to a result.")
      .def_static(
          "census",
          [](const std::string& framing, bool lenient, const std::string& book, std::size_t capacity,
             std::size_t jobs) {
            return pipeline_of(framing, lenient, jobs, [&](std::size_t shares) {
              return market::make_census(book, capacity, shares);
            });
          },
          "framing"_a, "lenient"_a, "book"_a = "ladder", "capacity"_a = market::kDefaultCapacity,
          "jobs"_a = 1)
      .def_static(
          "inside",
          [](const std::string& framing, bool lenient, const std::string& book, std::size_t capacity,
             std::size_t levels, bool text, std::uint64_t skip, const Names& symbols, std::uint64_t from_ns,
             std::uint64_t to_ns, std::size_t jobs) {
            return pipeline_of(framing, lenient, jobs, [&](std::size_t shares) {
              return market::make_inside(book, capacity, levels, text, skip,
                                         selection(symbols, from_ns, to_ns), shares);
            });
          },
          "framing"_a, "lenient"_a, "book"_a, "capacity"_a, "levels"_a, "text"_a, "skip"_a, "symbols"_a,
          "from_ns"_a, "to_ns"_a, "jobs"_a = 1)
      .def_static(
          "depth",
          [](const std::string& framing, bool lenient, const std::string& book, std::size_t capacity,
             const Names& symbols, std::uint64_t from_ns, std::uint64_t to_ns, std::size_t jobs) {
            return pipeline_of(framing, lenient, jobs, [&](std::size_t shares) {
              return market::make_depth(book, capacity, selection(symbols, from_ns, to_ns), shares);
            });
          },
          "framing"_a, "lenient"_a, "book"_a, "capacity"_a, "symbols"_a, "from_ns"_a, "to_ns"_a, "jobs"_a = 1)
      .def_static(
          "trades",
          [](const std::string& framing, bool lenient, const Names& symbols, std::uint64_t from_ns,
             std::uint64_t to_ns, std::size_t jobs) {
            return pipeline_of(framing, lenient, jobs, [&](std::size_t shares) {
              return market::make_trades(selection(symbols, from_ns, to_ns), shares);
            });
          },
          "framing"_a, "lenient"_a, "symbols"_a, "from_ns"_a, "to_ns"_a, "jobs"_a = 1)
      .def_static(
          "snapshot",
          [](const std::string& framing, bool lenient, std::uint64_t at_ns) {
            return Pipeline(framing, lenient, market::make_snapshot(at_ns));
          },
          "framing"_a, "lenient"_a, "at_ns"_a)
      .def_static(
          "books",
          [](const std::string& framing, bool lenient, std::size_t levels, std::uint64_t every_ns,
             const Names& symbols, std::uint64_t from_ns, std::uint64_t to_ns) {
            return Pipeline(framing, lenient,
                            market::make_books(levels, every_ns, selection(symbols, from_ns, to_ns)));
          },
          "framing"_a, "lenient"_a, "levels"_a, "every_ns"_a, "symbols"_a, "from_ns"_a, "to_ns"_a)
      .def_static(
          "lobster",
          [](const std::string& framing, bool lenient, std::size_t levels, const Names& symbols,
             std::uint64_t from_ns, std::uint64_t to_ns) {
            return Pipeline(framing, lenient,
                            market::make_lobster(levels, selection(symbols, from_ns, to_ns)));
          },
          "framing"_a, "lenient"_a, "levels"_a, "symbols"_a, "from_ns"_a, "to_ns"_a)
      .def_static(
          "stats",
          [](const std::string& framing, bool lenient, const std::string& book, bool over_messages) {
            return Pipeline(framing, lenient, market::make_stats(book, over_messages));
          },
          "framing"_a, "lenient"_a, "book"_a, "over_messages"_a)
      .def_static(
          "events",
          [](const std::string& framing, bool lenient) {
            return Pipeline(framing, lenient, market::make_events());
          },
          "framing"_a, "lenient"_a)
      .def("feed", &feed<Pipeline>, "bytes"_a)
      .def("finish", &Pipeline::finish, nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("over", &Pipeline::over)
      .def_prop_ro("stopped", &Pipeline::stopped)
      .def_prop_ro("entangled", &Pipeline::entangled,
                   "Threads that share symbols may not have made what one would: begin again with one.")
      .def_prop_ro("dialect", [](const Pipeline& self) { return std::string(1, self.dialect()); })
      .def("take_errors",
           [](Pipeline& self) {
             std::vector<std::pair<std::uint64_t, std::string>> out;
             for (const auto& error : self.take_errors()) out.emplace_back(error.offset, error.what);
             return out;
           })
      .def("counts", &counts)
      .def("by_type", &by_type)
      .def("transport_counts", [](const Pipeline& self) { return transport_counts(self.transport_counts()); })
      .def("anomalies", &anomalies)
      .def("side_counts", &side_counts)
      .def("standing", &Pipeline::standing)
      .def("symbols", &symbols, "Names by number.")
      .def(
          "take_ended",
          [](Pipeline& self) {
            std::vector<std::pair<std::size_t, NameMap>> out;
            for (const auto& day : self.take_ended()) out.emplace_back(day.rows, names_of(day.names));
            return out;
          },
          "Of the days that have ended since the last call: the untaken rows up to its end, and its symbols.")
      .def(
          "former_symbols",
          [](const Pipeline& self) {
            std::vector<nb::bytes> out;
            for (const auto& name : self.former()) out.push_back(text_of(name));
            return out;
          },
          "The names of the days that have been taken.")
      .def_prop_ro("first_day_rows", &Pipeline::first_day_rows,
                   "How many of the rows that were taken last are of the input's first day, at most.")
      .def("changes", [](Pipeline& self) { return result<market::InsideResult>(self).changes; })
      .def("take_text",
           [](Pipeline& self) {
             auto& text = result<market::InsideResult>(self).text;
             nb::bytes out(text.data(), text.size());
             text.clear();
             return out;
           })
      .def("take_columns",
           [](Pipeline& self) {
             auto& r = result<market::InsideResult>(self);
             return std::make_tuple(array(std::exchange(r.times, {})), array(std::exchange(r.locates, {})),
                                    array(std::exchange(r.values, {})));
           })
      .def(
          "take_books",
          [](Pipeline& self) {
            auto& r = result<market::BooksResult>(self);
            return std::make_tuple(array(std::exchange(r.times, {})), array(std::exchange(r.locates, {})),
                                   array(std::exchange(r.values, {})));
          },
          "Times, symbols' numbers, and six numbers a level: price, shares, orders of bid and offer.")
      .def("take_lobster",
           [](Pipeline& self) {
             auto& r = result<market::LobsterResult>(self);
             const auto rows = std::exchange(r.messages, {});
             Columns out;
             using Row = market::LobsterResult::Message;
             add_columns(out, rows, "ts_ns", &Row::ts_ns, "type", &Row::type, "ref", &Row::ref, "qty",
                         &Row::qty, "price", &Row::price, "direction", &Row::direction);
             out["levels"] = array(std::exchange(r.levels, {}));
             return out;
           })
      .def("event_depth",
           [](Pipeline& self) { return histogram(result<market::DepthResult>(self).event_depth); })
      .def("book_depth",
           [](Pipeline& self) { return histogram(result<market::DepthResult>(self).book_depth); })
      .def("statistics", &statistics)
      .def("ns_per_tick",
           [](Pipeline& self) {
             const auto& r = result<market::StatsResult>(self);
             const double hz = latlab::ticks_hz(r.begin, r.end);
             return hz > 0 ? 1e9 / hz : 0.0;
           })
      .def(
          "take_events",
          [](Pipeline& self) {
            const auto events = std::exchange(result<market::EventsSink>(self).events, {});
            return nb::bytes(events.data(), events.size() * sizeof(market::Event));
          },
          "Book events as bytes of 48 each.")
      .def("take_trades", &take_trades)
      .def(
          "take_broken",
          [](Pipeline& self) {
            auto& found = result<market::TradesResult>(self);
            return std::make_tuple(array(std::exchange(found.broken, {})),
                                   array(std::exchange(found.broken_days, {})));
          },
          "Matches of the trades that were taken back since the last call, and the day of each.")
      .def("snapshot_levels", &snapshot);
}

using latlab::GuardedMap;

void bind_mapped_piece(nb::module_& m) {
  nb::class_<GuardedMap>(m, "MappedPiece", "A piece of a file that somebody may cut short while it is read.")
      .def(
          "__init__",
          [](GuardedMap* self, int fd, std::size_t offset, std::size_t bytes) {
            auto* const made = new (self) GuardedMap();
            if (made->map(fd, bytes, offset)) return;
            const int why = errno;
            made->~GuardedMap();
            throw std::system_error(why, std::generic_category(), "a file can't be mapped");
          },
          "fd"_a, "offset"_a, "bytes"_a, "The offset is a multiple of the page.")
      .def_prop_ro("cut", &GuardedMap::cut, "It was cut, and zeros were read in place of what was there.")
      .def(
          "array",
          [](const nb::handle_t<GuardedMap>& self) {
            const auto& map = nb::cast<const GuardedMap&>(self);
            const auto* const bytes = reinterpret_cast<const std::uint8_t*>(map.data());
            return nb::ndarray<nb::numpy, const std::uint8_t, nb::ndim<1>>(bytes, {map.size()}, self);
          },
          "Its bytes, which keep it mapped.");
}

}  // namespace

NB_MODULE(market, m) {
  m.doc() = "Market data: feeds, books, statistics.";
  bind_mapped_piece(m);
  bind_generator(m);
  bind_pipeline(m);
  bind_records(m);
}
