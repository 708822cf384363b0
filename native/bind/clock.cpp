#include <nanobind/nanobind.h>
#include <nanobind/stl/tuple.h>
#include <latlab/clock.hpp>

#include <tuple>

namespace nb = nanobind;
using namespace nb::literals;

NB_MODULE(clock, m) {
  m.doc() = "The laboratory's clock: the time-stamp counter and its tie to CLOCK_MONOTONIC.";
  m.def("ticks", &latlab::ticks, "The time-stamp counter.");
  m.def("ticks_ordered", &latlab::ticks_ordered,
        "The time-stamp counter, ordered against everything around it.");
  m.def(
      "reference",
      [](int attempts) {
        const auto reference = latlab::clock_reference(attempts);
        return std::make_tuple(reference.ticks, reference.ns);
      },
      "attempts"_a = 16, "(ticks, CLOCK_MONOTONIC in ns) at one instant.");
}
