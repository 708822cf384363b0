#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <utility>

#include "columns.hpp"
#include "jitter/collector.hpp"
#include "jitter/core_to_core.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using latlab::jitter::Collector;
using latlab::jitter::CoreRequest;
using latlab::jitter::CoreResult;

using latlab::bind::column, latlab::bind::Columns, latlab::bind::dict_of;

namespace {

template <class T, class Pick>
nb::ndarray<nb::numpy, T, nb::ndim<1>> gap_column(const CoreResult& result, Pick pick) {
  std::vector<T> values;
  values.reserve(result.ring.size());
  for (const auto& gap : result.ring) values.push_back(static_cast<T>(pick(gap)));
  return column(std::move(values));
}

nb::dict to_dict(CoreResult& result) {
  nb::dict out = dict_of(
      "cpu", result.cpu, "affinity_error", result.affinity_error, "scheduling_error", result.scheduling_error,
      "threshold_ticks", result.threshold_ticks, "first_ticks", result.first_ticks, "last_ticks",
      result.last_ticks, "deltas", result.deltas, "bridges", result.bridges, "pure_ticks", result.pure_ticks,
      "bridge_ticks", result.bridge_ticks, "gap_ticks", result.gap_ticks, "paused_ticks", result.paused_ticks,
      "gaps", result.gaps, "migrations", result.migrations, "stopped", result.stopped, "max_ticks",
      result.max_ticks, "begin", nb::make_tuple(result.begin.ticks, result.begin.ns), "end",
      nb::make_tuple(result.end.ticks, result.end.ns));
  out["gap_end_ticks"] = gap_column<std::uint64_t>(result, [](const auto& gap) { return gap.end_ticks; });
  out["gap_ticks_each"] = gap_column<std::uint64_t>(result, [](const auto& gap) { return gap.delta_ticks; });
  out["gap_preempted"] = gap_column<std::uint8_t>(result, [](const auto& gap) { return gap.preempted; });
  out["linear"] = column(std::move(result.linear));
  out["log"] = column(std::move(result.log));
  return out;
}

}  // namespace

NB_MODULE(jitter, m) {
  m.doc() = "System latency jitter: back-to-back readings of the time-stamp counter, a pinned thread a core.";
  nb::class_<Collector>(m, "Collector",
                        "Measures until its time is over or it is stopped; join() gives the results.")
      .def(
          "__init__",
          [](Collector* self, const std::vector<int>& cpus, std::uint64_t duration_ns,
             std::uint64_t threshold_ticks, std::size_t ring, std::uint64_t pause_ns, int fifo_priority,
             std::uint64_t stop_ticks, int marker_fd, int trace_on_fd) {
            std::vector<CoreRequest> requests;
            requests.reserve(cpus.size());
            for (const int cpu : cpus)
              requests.push_back(
                  {cpu, duration_ns, threshold_ticks, ring, pause_ns, fifo_priority, stop_ticks});
            new (self) Collector(requests, {.marker_fd = marker_fd, .on_fd = trace_on_fd});
          },
          "cpus"_a, "duration_ns"_a, "threshold_ticks"_a, "ring"_a = 10'000, "pause_ns"_a = 0,
          "fifo_priority"_a = 0, "stop_ticks"_a = 0, "marker_fd"_a = -1, "trace_on_fd"_a = -1)
      .def("start", &Collector::start, nb::call_guard<nb::gil_scoped_release>())
      .def("stop", &Collector::stop)
      .def("finished", &Collector::finished)
      .def("join", [](Collector& self) {
        std::vector<CoreResult> results;
        {
          nb::gil_scoped_release release;
          results = self.join();
        }
        nb::list out;
        for (auto& result : results) out.append(to_dict(result));
        return nb::typed<nb::list, Columns>(out);
      });
  m.def("automatic_threshold", &latlab::jitter::automatic_threshold, "hz"_a, "floor_ns"_a,
        "readings"_a = 20'000, "10 times the median of back-to-back deltas in ticks, but at least floor_ns.");
  m.def("bare_readings_per_second", &latlab::jitter::bare_readings_per_second, "duration_ns"_a,
        nb::call_guard<nb::gil_scoped_release>(), "Readings a second of a loop that does nothing else.");
  m.def("log_bin_upper", &latlab::jitter::log_bin_upper, "bin"_a,
        "The largest delta in ticks of a bin of `log`.");
  m.attr("LINEAR") = latlab::jitter::kLinear;
  m.def(
      "core_to_core",
      [](const std::vector<int>& cpus, std::size_t batches, std::size_t round_trips, std::uint64_t limit_ns) {
        std::vector<latlab::jitter::PairLatency> pairs;
        {
          nb::gil_scoped_release release;
          pairs = latlab::jitter::core_to_core(cpus, batches, round_trips, limit_ns);
        }
        nb::list out;
        for (auto& pair : pairs) {
          nb::dict one;
          one["from"] = pair.from;
          one["to"] = pair.to;
          one["error"] = pair.error;
          one["one_way_ns"] = column(std::move(pair.one_way_ns));
          out.append(one);
        }
        return nb::typed<nb::list, Columns>(out);
      },
      "cpus"_a, "batches"_a, "round_trips"_a, "limit_ns"_a,
      "The latency of a cache line between each pair of CPUs, in ns one way, batch by batch.");
}
