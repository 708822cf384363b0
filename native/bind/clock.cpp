#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <latlab/clock.hpp>

#include <tuple>

#include "system/machine.hpp"

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
  m.def("invariant", &latlab::system::counter_is_invariant,
        "Whether the counter keeps one rate through changes of frequency and sleep.");
  m.def("hypervisor", &latlab::system::hypervisor,
        "The hypervisor by the name that it gives itself; empty on bare metal.");
  m.def("compiler", &latlab::system::compiler, "What built the compiled modules.");
}
