#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <latlab/clock.hpp>

#include <tuple>

#include "system/counter.hpp"
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
        std::uint64_t width = 0;
        const auto reference = latlab::clock_reference(attempts, &width);
        return std::make_tuple(reference.ticks, reference.ns, width);
      },
      "attempts"_a = 16,
      "(ticks, CLOCK_MONOTONIC in ns, width in ticks) at one instant, which lies within that width.");
  m.def("invariant", &latlab::system::counter_is_invariant,
        "Whether the counter keeps one rate through changes of frequency and sleep.");
  m.def(
      "quantum_ticks",
      [](std::size_t readings) {
        return latlab::system::counter_quantum(latlab::system::uneven_readings(readings));
      },
      "readings"_a = 4096, "The step that the counter moves in, from readings at uneven distances.");
  m.def(
      "read_cost_ticks",
      [](std::size_t batches) {
        using latlab::system::Read;
        using latlab::system::read_cost_ticks;
        return std::make_tuple(read_cost_ticks(Read::plain, batches), read_cost_ticks(Read::ordered, batches),
                               read_cost_ticks(Read::monotonic, batches));
      },
      "batches"_a = 31,
      "Ticks that a reading takes: of the counter, of the ordered counter, of CLOCK_MONOTONIC.");
  m.def("clock_cost_ticks", &latlab::system::clock_cost_ticks, "clock"_a, "batches"_a = 31,
        "Ticks that clock_gettime(clock) takes; -1: getrusage. 0 for a clock that this kernel has not.");
  m.def("largest_backward_step", &latlab::system::largest_backward_step, "count"_a,
        "The largest backward step in that many ordered readings; 0 for a monotonic counter.");
  m.def("hypervisor", &latlab::system::hypervisor,
        "The hypervisor by the name that it gives itself; empty on bare metal.");
  m.def("compiler", &latlab::system::compiler, "What built the compiled modules.");
}
