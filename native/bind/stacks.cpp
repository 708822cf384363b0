#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <system_error>
#include <utility>

#include "columns.hpp"
#include "system/libdw.hpp"
#include "system/stack_sampler.hpp"
#include "system/unwinder.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using latlab::system::StackRequest;
using latlab::system::StackSampler;

using latlab::bind::column, latlab::bind::Columns;

namespace {

Columns unwound(const StackSampler& sampler, std::size_t most) {
  latlab::system::Unwound all;
  {
    nb::gil_scoped_release release;
    all = latlab::system::unwind(sampler.samples(), sampler.processes(), most);
  }
  nb::list places;
  for (const auto& one : all.places)
    places.append(nb::make_tuple(one.function, one.file, one.line, one.module, one.offset, one.address,
                                 one.pid, one.behind));
  nb::list stacks;
  for (const auto& one : all.stacks) {
    nb::list stack;
    for (const std::int32_t place : one) stack.append(place);
    stacks.append(nb::tuple(stack));
  }
  return Columns(latlab::bind::dict_of("time_ns", std::move(all.time_ns), "pid", std::move(all.pid), "tid",
                                       std::move(all.tid), "running", std::move(all.running), "stack",
                                       std::move(all.stack), "base", std::move(all.base), "stacks", stacks,
                                       "places", places, "by_dwarf", all.by_dwarf));
}

}  // namespace

NB_MODULE(stacks, m) {
  m.doc() = "User stacks of running and of blocking threads, and the code in them.";
  latlab::bind::raise_system_errors_as_os_errors();
  m.def("libdw", [] { return latlab::system::libdw() != nullptr; }, "Whether elfutils' libdw is installed.");
  m.def(
      "demangled", [](const std::string& name) { return latlab::system::demangled(name.c_str()); }, "name"_a,
      "A C++ name as its source spells it.");
  nb::class_<StackSampler>(m, "StackSampler", "Raw copies of the stacks of chosen processes.")
      .def(
          "__init__",
          [](StackSampler* self, const std::vector<int>& cpus, const std::vector<int>& pids,
             unsigned running_hz, unsigned switches_hz, unsigned stack_bytes, std::size_t arena_bytes) {
            StackRequest request;
            request.cpus = cpus;
            request.pids = {pids.begin(), pids.end()};
            request.running_hz = running_hz;
            request.switches_hz = switches_hz;
            request.stack_bytes = stack_bytes;
            request.arena_bytes = arena_bytes;
            new (self) StackSampler(request);
          },
          "cpus"_a, "pids"_a, "running_hz"_a = 499, "switches_hz"_a = 400, "stack_bytes"_a = 8192,
          "arena_bytes"_a = 96U << 20U)
      .def("start", &StackSampler::start)
      .def("stop", &StackSampler::stop, nb::call_guard<nb::gil_scoped_release>())
      .def("follow", &StackSampler::follow, "pid"_a, "One more process, and its children.")
      .def(
          "share",
          [](StackSampler& self) {
            const latlab::system::bpf::StackGate gate = self.share();
            return std::vector<int>{gate.strangers, gate.spent, gate.gap, gate.outputs};
          },
          "Before start: what a BpfTrace takes the stacks of blocking threads by.")
      .def("shared", &StackSampler::shared, "taken"_a, "Then: whether it does.")
      .def("unwound", &unwound, "most"_a = 20000, "After stop: samples, stacks and places as columns.")
      .def_prop_ro("lost", &StackSampler::lost)
      .def_prop_ro("every_thread", &StackSampler::every_thread)
      .def_prop_ro("thinned", &StackSampler::thinned);
}
