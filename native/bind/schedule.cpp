#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "columns.hpp"
#include "schedule/simulation.hpp"

namespace nb = nanobind;
using namespace nb::literals;

using latlab::bind::column, latlab::bind::Columns;

namespace {

template <class T>
using Column = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
std::span<const T> span_of(const Column<T>& column) {
  return {column.data(), column.size()};
}

Columns simulated(const Column<std::int64_t>& first, const Column<std::int64_t>& work_ns,
                  const Column<std::uint8_t>& deed, const Column<std::int64_t>& argument,
                  const Column<std::int64_t>& recorded_ns, const Column<std::int64_t>& born_ns,
                  const Column<std::uint64_t>& allowed, const Column<std::int64_t>& cost,
                  const Column<std::int64_t>& delay_ns, int cpus, std::int64_t wake_ns, std::int64_t slice_ns,
                  std::int64_t behind_ns, bool own_queues, std::int64_t stay_ns, bool turns) {
  latlab::schedule::Outcome outcome;
  {
    const nb::gil_scoped_release release;
    outcome = latlab::schedule::simulate(
        {span_of(first), span_of(work_ns), span_of(deed), span_of(argument), span_of(recorded_ns),
         span_of(born_ns), span_of(allowed), span_of(cost), span_of(delay_ns)},
        {cpus, wake_ns, slice_ns, behind_ns, own_queues, stay_ns, turns});
  }
  std::vector<std::int64_t> who, begin, end;
  for (const auto& turn : outcome.turns)
    who.push_back(turn.thread), begin.push_back(turn.begin_ns), end.push_back(turn.end_ns);
  return Columns(latlab::bind::dict_of(
      "ended_ns", std::move(outcome.ended_ns), "ready_ns", std::move(outcome.ready_ns), "blocked_ns",
      std::move(outcome.blocked_ns), "at_ns", std::move(outcome.at_ns), "step_ready_ns",
      std::move(outcome.step_ready_ns), "turn_thread", std::move(who), "turn_begin_ns", std::move(begin),
      "turn_end_ns", std::move(end), "forced", outcome.forced));
}

}  // namespace

NB_MODULE(schedule, m) {
  m.doc() = "The simulation of threads that compete for CPUs.";
  m.def("simulate", &simulated, "first"_a, "work_ns"_a, "deed"_a, "argument"_a, "recorded_ns"_a, "born_ns"_a,
        "allowed"_a, "cost"_a, "delay_ns"_a, nb::kw_only(), "cpus"_a, "wake_ns"_a, "slice_ns"_a,
        "behind_ns"_a, "own_queues"_a = false, "stay_ns"_a = 0, "turns"_a = false,
        "Let threads' steps compete for CPUs; columns by thread and by step. See "
        "native/core/schedule/simulation.hpp.");
}
