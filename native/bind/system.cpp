#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <latlab/hardware_count.hpp>

#include <memory>
#include <system_error>
#include <utility>

#include "columns.hpp"
#include "system/bpf_trace.hpp"
#include "system/perf_trace.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using latlab::HardwareCount;
using latlab::system::BpfEvent;
using latlab::system::BpfRequest;
using latlab::system::BpfTrace;
using latlab::system::PerfTrace;
using latlab::system::TraceRequest;

using latlab::bind::column, latlab::bind::Columns;

namespace {

nb::dict columns_of(latlab::system::TraceSamples& samples) {
  return latlab::bind::dict_of("stride", samples.stride, "time_ns", std::move(samples.time_ns), "cpu",
                               std::move(samples.cpu), "pid", std::move(samples.pid), "tid",
                               std::move(samples.tid), "raw_bytes", std::move(samples.raw_bytes), "raw",
                               std::move(samples.raw));
}

nb::typed<nb::list, Columns> take(PerfTrace& trace) {
  std::vector<latlab::system::TraceSamples> all;
  {
    nb::gil_scoped_release release;
    all = trace.take();
  }
  nb::list out;
  for (auto& samples : all) out.append(columns_of(samples));
  return nb::typed<nb::list, Columns>(out);
}

nb::typed<nb::list, Columns> take_bpf(BpfTrace& trace) {
  std::vector<latlab::system::BpfSamples> all;
  {
    nb::gil_scoped_release release;
    all = trace.take();
  }
  nb::list out;
  for (auto& samples : all) {
    nb::dict columns = columns_of(samples);
    columns["registers"] = column(std::move(samples.registers));
    columns["context"] = column(std::move(samples.context));
    columns["payload_stride"] = samples.payload_stride;
    columns["payload"] = column(std::move(samples.payload));
    out.append(columns);
  }
  return nb::typed<nb::list, Columns>(out);
}

nb::typed<nb::tuple, nb::any, nb::any> notes(BpfTrace& trace) {
  latlab::system::BpfNotes found = trace.notes();
  return nb::typed<nb::tuple, nb::any, nb::any>(
      nb::make_tuple(column(std::move(found.descriptors)), column(std::move(found.children))));
}

nb::typed<nb::list, nb::any> counts(BpfTrace& trace) {
  nb::list out;
  for (auto& one : trace.counts())
    out.append(nb::make_tuple(column(std::move(one.keys)), column(std::move(one.counts))));
  return nb::typed<nb::list, nb::any>(out);
}

}  // namespace

NB_MODULE(system, m) {
  m.doc() = "The machine: kernel tracepoints and hardware counters.";
  latlab::bind::raise_system_errors_as_os_errors();
  nb::class_<HardwareCount>(m, "HardwareCount", "Events that the CPU counts for one task.")
      .def(
          "__init__",
          [](HardwareCount* self, const std::string& name, int task, bool inherit) {
            const auto what = latlab::counted_by_name(name);
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
  nb::class_<BpfTrace>(m, "BpfTrace", "Tracepoints of all CPUs by BPF programs.")
      .def(
          "__init__",
          [](BpfTrace* self, const std::vector<std::uint64_t>& event_ids,
             const std::vector<std::uint32_t>& raw_bytes, const std::vector<bool>& registers,
             const std::vector<std::uint32_t>& payload_bytes, const std::vector<std::uint32_t>& length_at,
             const std::vector<bool>& chosen, const std::vector<std::uint32_t>& key_at,
             const std::vector<int>& keeps_at, const std::vector<std::uint32_t>& word_at,
             const std::vector<bool>& clears, const std::vector<std::uint64_t>& untimed,
             const std::vector<std::uint32_t>& adopts_at, const std::vector<std::uint32_t>& reports,
             const std::vector<std::string>& typed, const std::vector<std::vector<std::uint32_t>>& places,
             const std::vector<bool>& counted, const std::vector<std::int32_t>& watched_calls,
             const std::vector<int>& stacks, std::size_t ring_bytes, std::size_t most_bytes) {
            for (const std::size_t given :
                 {raw_bytes.size(), registers.size(), payload_bytes.size(), length_at.size(), chosen.size(),
                  key_at.size(), keeps_at.size(), word_at.size(), clears.size(), untimed.size(),
                  adopts_at.size(), reports.size(), typed.size(), places.size(), counted.size()})
              if (given != event_ids.size()) throw nb::value_error("one size and one flag an event");
            BpfRequest request{{}, {}, ring_bytes, most_bytes, watched_calls};
            if (stacks.size() == 4) request.stacks = {stacks[0], stacks[1], stacks[2], stacks[3]};
            for (std::size_t i = 0; i < event_ids.size(); ++i)
              request.events.push_back(BpfEvent{event_ids[i], raw_bytes[i], registers[i], payload_bytes[i],
                                                length_at[i], chosen[i], key_at[i], keeps_at[i], word_at[i],
                                                clears[i], untimed[i], adopts_at[i], reports[i], typed[i],
                                                places[i], counted[i]});
            new (self) BpfTrace(request);
          },
          "event_ids"_a, "raw_bytes"_a, "registers"_a, "payload_bytes"_a, "length_at"_a, "chosen"_a,
          "key_at"_a, "keeps_at"_a, "word_at"_a, "clears"_a, "untimed"_a, "adopts_at"_a, "reports"_a,
          "typed"_a, "places"_a, "counted"_a, "watched_calls"_a, "stacks"_a = std::vector<int>(),
          "ring_bytes"_a = 1U << 25U, "most_bytes"_a = 1ULL << 30U)
      .def("start", &BpfTrace::start)
      .def("stop", &BpfTrace::stop, nb::call_guard<nb::gil_scoped_release>())
      .def("lost", &BpfTrace::lost)
      .def("add_process", &BpfTrace::add_process, "pid"_a)
      .def("sample", &BpfTrace::sample, "below"_a, "From now on only keys whose hash is less than this.")
      .def_prop_ro("salt", &BpfTrace::salt, "Of the keys' hashes.")
      .def_prop_ro("registers", &BpfTrace::registers, "Whether the kernel lets the programs read registers.")
      .def_prop_ro("stacks", &BpfTrace::stacks, "Whether stacks are taken, by what a StackSampler shares.")
      .def_prop_ro("typed", &BpfTrace::typed, "Indices of the events that the kernel's own tracepoints give.")
      .def("notes", &notes,
           "Since the last time: process and descriptor of each call in turn, parent and child of each fork.")
      .def("counts", &counts, "Since the last time: of each event the keys, and how many came with each.")
      .def("waiting", &BpfTrace::waiting, "How many of each event `take` would give.")
      .def("take", &take_bpf, "The columns of every event so far, one dictionary an event of the request.");
}
