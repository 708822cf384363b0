#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <system_error>
#include <utility>

#include "system/hardware_count.hpp"
#include "system/perf_trace.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using latlab::system::HardwareCount;
using latlab::system::PerfTrace;
using latlab::system::TraceRequest;

namespace {

template <class T>
nb::ndarray<nb::numpy, T> column(std::vector<T>&& values) {
  auto owned = std::make_unique<std::vector<T>>(std::move(values));
  T* data = owned->data();
  const std::size_t count = owned->size();
  nb::capsule owner(owned.release(), [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::ndarray<nb::numpy, T>(data, {count}, owner);
}

using Columns = nb::typed<nb::dict, nb::str, nb::any>;

nb::typed<nb::list, Columns> take(PerfTrace& trace) {
  std::vector<latlab::system::TraceSamples> all;
  {
    nb::gil_scoped_release release;
    all = trace.take();
  }
  nb::list out;
  for (auto& samples : all) {
    nb::dict columns;
    columns["stride"] = samples.stride;
    columns["time_ns"] = column(std::move(samples.time_ns));
    columns["cpu"] = column(std::move(samples.cpu));
    columns["pid"] = column(std::move(samples.pid));
    columns["tid"] = column(std::move(samples.tid));
    columns["raw_bytes"] = column(std::move(samples.raw_bytes));
    columns["raw"] = column(std::move(samples.raw));
    out.append(columns);
  }
  return nb::typed<nb::list, Columns>(out);
}

}  // namespace

NB_MODULE(system, m) {
  m.doc() = "The machine: kernel tracepoints and hardware counters.";
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const std::system_error& error) {
      // OSError(errno, text) becomes PermissionError and its like, as Python's own calls raise them.
      PyErr_SetObject(PyExc_OSError, nb::make_tuple(error.code().value(), std::string(error.what())).ptr());
    }
  });
  nb::class_<HardwareCount>(m, "HardwareCount", "Events that the CPU counts for one task.")
      .def(
          "__init__",
          [](HardwareCount* self, const std::string& name, int task, bool inherit) {
            const auto what = latlab::system::counted_by_name(name);
            if (!what) throw nb::value_error(("no counter is called " + name).c_str());
            new (self) HardwareCount(*what, task, inherit);
            if (const int error = self->error(); error != 0) {
              self->~HardwareCount();
              throw std::system_error(error, std::generic_category(), name);
            }
          },
          "name"_a, "task"_a = 0, "inherit"_a = false)
      .def("now", &HardwareCount::now, "So far.");
  nb::class_<PerfTrace>(m, "PerfTrace", "Tracepoints of chosen CPUs, one ring a CPU.")
      .def(
          "__init__",
          [](PerfTrace* self, const std::vector<std::uint64_t>& event_ids,
             const std::vector<std::string>& filters, const std::vector<int>& cpus, int pid, bool inherit,
             std::size_t ring_bytes) {
            new (self) PerfTrace(TraceRequest{event_ids, filters, cpus, pid, inherit, ring_bytes});
          },
          "event_ids"_a, "filters"_a, "cpus"_a, "pid"_a = -1, "inherit"_a = false, "ring_bytes"_a = 1U << 20U)
      .def("start", &PerfTrace::start)
      .def("stop", &PerfTrace::stop, nb::call_guard<nb::gil_scoped_release>())
      .def("lost", &PerfTrace::lost)
      .def("take", &take, "The columns of every event so far, one dictionary an event of the request.");
}
