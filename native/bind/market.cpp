#include <nanobind/nanobind.h>

#include <cstdint>
#include <vector>

#include "market/generator.hpp"

namespace nb = nanobind;
using namespace nb::literals;
namespace market = latlab::market;

NB_MODULE(market, m) {
  m.doc() = "Market data: feeds, books, statistics.";
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
          "size"_a, "At most so many bytes of whole BinaryFILE frames; empty when the day is over.")
      .def_prop_ro("written", &market::Generator::written)
      .def_prop_ro("symbols", &market::Generator::symbols);
}
