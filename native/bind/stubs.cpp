#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <latlab/clock.hpp>
#include <latlab/stub_work.hpp>
#include <tuple>
#include <vector>

#include "columns.hpp"
#include "stubs/calibrate.hpp"
#include "stubs/io.hpp"
#include "stubs/memory.hpp"
#include "stubs/player.hpp"
#include "stubs/sleep.hpp"
#include "stubs/spin.hpp"

namespace nb = nanobind;
namespace st = latlab::stubs;
using namespace nb::literals;
using latlab::bind::dict_of;

namespace {

using Fields = nb::typed<nb::dict, nb::str, nb::any>;

// A C++ vector that becomes a numpy array which owns it.
template <class T>
nb::ndarray<nb::numpy, T, nb::ndim<1>> to_array(std::vector<T> values) {
  auto* owned = new std::vector<T>(std::move(values));
  const nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return {owned->data(), {owned->size()}, owner};
}

Fields to_dict(st::Achieved achieved) {
  Fields result;
  result["wall_ns"] = to_array(std::move(achieved.wall_ns));
  result["cpu_ns"] = to_array(std::move(achieved.cpu_ns));
  result["burned_ns"] = to_array(std::move(achieved.burned_ns));
  result["preempted"] = to_array(std::move(achieved.preempted));
  return result;
}

using RawAction = std::tuple<int, std::int64_t, std::int64_t, std::int64_t>;

Fields play(const std::vector<std::vector<RawAction>>& threads, const std::vector<bool>& created,
            const std::vector<std::int64_t>& semaphores, const std::string& io_path, std::int64_t timeout_ns,
            int priority, bool scheduled) {
  st::PlayPlan plan;
  plan.scheduled = scheduled;
  plan.created = created;
  plan.semaphores = semaphores;
  plan.io_path = io_path;
  plan.timeout_ns = timeout_ns;
  plan.priority = static_cast<st::Priority>(priority);
  for (const auto& thread : threads) {
    auto& actions = plan.threads.emplace_back();
    for (const auto& [verb, amount, target, turn] : thread) {
      actions.push_back({static_cast<st::Verb>(verb), amount, target, turn});
    }
  }
  st::PlayResult played;
  {
    const nb::gil_scoped_release release;
    played = st::play(plan);
  }
  nb::list rows;
  for (auto& thread : played.threads) {
    nb::dict row = dict_of("run_ns", thread.run_ns, "blocked_ns", thread.blocked_ns, "ready_ns",
                           thread.ready_ns, "start_ns", thread.start_ns, "end_ns", thread.end_ns, "budget_ns",
                           thread.budget_ns, "late_ns", thread.late_ns, "switches", thread.switches, "faults",
                           thread.faults, "finished", thread.finished, "slices",
                           to_array(std::move(thread.slices)), "events", to_array(std::move(thread.events)));
    rows.append(row);
  }
  Fields result;
  result["total_ns"] = played.total_ns;
  result["refused"] = played.refused;
  result["awake"] = played.awake;
  result["timed_out"] = played.timed_out;
  result["threads"] = rows;
  return result;
}

template <class T>
void add_fields(nb::class_<T>& /*to*/) {}

template <class T, class Field, class... More>
void add_fields(nb::class_<T>& to, const char* name, Field T::* field, More... more) {
  to.def_ro(name, field);
  add_fields(to, more...);
}

// A class that is only read: its fields, by name.
template <class T, class... Fields>
void record(nb::module_& m, const char* name, Fields... fields) {
  nb::class_<T> made(m, name);
  add_fields(made, fields...);
}

}  // namespace

NB_MODULE(stubs, m) {
  m.doc() =
      "Performance stubs: chosen amounts of CPU time, sleep, memory and I/O, and the player of action files.";
  using Release = nb::call_guard<nb::gil_scoped_release>;

  record<st::SpinResult>(m, "SpinResult", "requested_ns", &st::SpinResult::requested_ns, "wall_ns",
                         &st::SpinResult::wall_ns, "cpu_ns", &st::SpinResult::cpu_ns, "longest_gap_ns",
                         &st::SpinResult::longest_gap_ns, "checkpoints", &st::SpinResult::checkpoints,
                         "preempted", &st::SpinResult::preempted);
  record<st::SpinCalibration>(m, "SpinCalibration", "ticks_per_ns", &st::SpinCalibration::ticks_per_ns,
                              "iterations_per_ns", &st::SpinCalibration::iterations_per_ns, "cpu_clock_ns",
                              &st::SpinCalibration::cpu_clock_ns, "spin_bias_ns",
                              &st::SpinCalibration::spin_bias_ns, "took_ns", &st::SpinCalibration::took_ns,
                              "switch_flag", &st::SpinCalibration::switch_flag);
  m.def("spin_calibration", &st::spin_calibration, nb::rv_policy::copy, "The calibration of this process.");
  m.def("measure_spin_calibration", &st::measure_spin_calibration, Release(),
        "Calibrate again, about 20 ms.");
  m.attr("INSTRUCTIONS_PER_ITERATION") = st::kInstructionsPerIteration;
  // The GIL stays held: a busy stub stands for Python code that would hold it too.
  m.def("spin_wall", &st::spin_wall, "ns"_a, "Hold the CPU until ns of wall time have passed.");
  m.def("spin_cpu", &st::spin_cpu, "ns"_a, "Hold the CPU until the thread got ns of CPU time.");
  m.def("spin_instructions", &st::spin_instructions, "instructions"_a, "Execute that many instructions.");
  m.def("spin_cpu_released", &st::spin_cpu, "ns"_a, Release(), "spin_cpu with the GIL released.");
  m.def(
      "gauge",
      [](std::uint64_t iterations, std::size_t loops) {
        std::vector<std::int64_t> took(loops);
        for (auto& one : took) {
          const auto begin = latlab::ticks_ordered();
          latlab::stub::detail::work(iterations);
          one = st::ticks_to_duration_ns(latlab::ticks_ordered() - begin);
        }
        return took;
      },
      "iterations"_a, "loops"_a, Release(), "What each of several loops of work took, ns.");
  m.def("thread_cpu_ns", &st::thread_cpu_ns, "CLOCK_THREAD_CPUTIME_ID in ns.");

  nb::enum_<st::SleepMode>(m, "SleepMode")
      .value("PLAIN", st::SleepMode::kPlain)
      .value("CORRECTED", st::SleepMode::kCorrected)
      .value("SPIN_END", st::SleepMode::kSpinEnd);
  record<st::SleepResult>(m, "SleepResult", "requested_ns", &st::SleepResult::requested_ns, "wall_ns",
                          &st::SleepResult::wall_ns, "burned_ns", &st::SleepResult::burned_ns);
  m.def(
      "sleep", [](std::int64_t ns, st::SleepMode mode) { return st::thread_sleeper().sleep(ns, mode); },
      "ns"_a, "mode"_a = st::SleepMode::kCorrected, Release(),
      "Leave the CPU for ns, with the GIL released.");

  nb::enum_<st::SpinMode>(m, "SpinMode")
      .value("WALL", st::SpinMode::kWall)
      .value("CPU", st::SpinMode::kCpu)
      .value("INSTRUCTIONS", st::SpinMode::kInstructions);
  m.def(
      "measure_spins",
      [](st::SpinMode mode, std::int64_t ns, int repetitions) {
        st::Achieved achieved;
        {
          const nb::gil_scoped_release release;
          achieved = st::measure_spins(mode, ns, repetitions);
        }
        return to_dict(std::move(achieved));
      },
      "mode"_a, "ns"_a, "repetitions"_a,
      "Achieved wall and CPU time of each repetition, measured from outside.");
  m.def(
      "measure_sleeps",
      [](st::SleepMode mode, std::int64_t ns, int repetitions, bool default_slack) {
        st::Achieved achieved;
        {
          const nb::gil_scoped_release release;
          achieved = st::measure_sleeps(mode, ns, repetitions, default_slack);
        }
        return to_dict(std::move(achieved));
      },
      "mode"_a, "ns"_a, "repetitions"_a, "default_slack"_a = false, "Achieved wall time of each sleep.");

  record<st::CacheResult>(m, "CacheResult", "accesses", &st::CacheResult::accesses, "misses",
                          &st::CacheResult::misses, "wall_ns", &st::CacheResult::wall_ns);
  nb::class_<st::CacheStub>(m, "CacheStub")
      .def(nb::init<std::size_t, std::size_t, double, std::uint64_t>(), "working_set_bytes"_a,
           "stride_bytes"_a = 64, "write_fraction"_a = 0.0, "seed"_a = 1)
      .def("run", &st::CacheStub::run, "accesses"_a, Release())
      .def("run_counted", &st::CacheStub::run_counted, "accesses"_a, Release())
      .def("run_for", &st::CacheStub::run_for, "ns"_a, Release());
  record<st::MemoryResult>(m, "MemoryResult", "wall_ns", &st::MemoryResult::wall_ns, "peak_heap_bytes",
                           &st::MemoryResult::peak_heap_bytes, "peak_stack_bytes",
                           &st::MemoryResult::peak_stack_bytes, "page_faults", &st::MemoryResult::page_faults,
                           "worst_lateness_ns", &st::MemoryResult::worst_lateness_ns);
  m.def(
      "run_memory_plan",
      [](const std::vector<std::tuple<std::int64_t, std::int64_t, std::int64_t>>& steps) {
        std::vector<st::MemoryStep> plan;
        plan.reserve(steps.size());
        for (const auto& [at, heap, stack] : steps) plan.push_back({at, heap, stack});
        return st::run_memory_plan(plan);
      },
      "steps"_a, Release(), "Steps of (at_ns, heap_bytes, stack_bytes), in order of time.");

  record<st::IoResult>(m, "IoResult", "wall_ns", &st::IoResult::wall_ns, "reads", &st::IoResult::reads,
                       "writes", &st::IoResult::writes, "fsyncs", &st::IoResult::fsyncs, "read_bytes",
                       &st::IoResult::read_bytes, "written_bytes", &st::IoResult::written_bytes);
  m.def(
      "run_io",
      [](std::string path, std::int64_t read_bytes, std::int64_t write_bytes, std::int64_t block_bytes,
         bool random_pattern, std::int64_t fsync_every, std::int64_t delay_ns, std::uint64_t seed) {
        return st::run_io({std::move(path), read_bytes, write_bytes, block_bytes,
                           random_pattern ? st::IoPattern::kRandom : st::IoPattern::kSequential, fsync_every,
                           delay_ns, seed});
      },
      "path"_a, "read_bytes"_a = 0, "write_bytes"_a = 0, "block_bytes"_a = 4096, "random_pattern"_a = false,
      "fsync_every"_a = 0, "delay_ns"_a = 0, "seed"_a = 1, Release(), "Read and write a file, and sleep.");
  record<st::NetworkResult>(m, "NetworkResult", "wall_ns", &st::NetworkResult::wall_ns, "bytes",
                            &st::NetworkResult::bytes, "first_byte_ns", &st::NetworkResult::first_byte_ns);
  m.def("run_network", &st::run_network, "bytes"_a, "bytes_per_s"_a = 0.0, "delay_ns"_a = 0,
        "chunk_bytes"_a = 16384, Release(), "Send bytes over loopback TCP at a rate, after a delay.");
  nb::class_<st::GlobalLoad>(m, "GlobalLoad")
      .def(
          "__init__",
          [](st::GlobalLoad* self, std::vector<int> cpus, double duty, std::int64_t period_ns,
             int memory_threads, std::int64_t memory_bytes, double memory_bytes_per_s, std::string disk_path,
             double disk_bytes_per_s) {
            new (self) st::GlobalLoad({std::move(cpus), duty, period_ns, memory_threads, memory_bytes,
                                       memory_bytes_per_s, std::move(disk_path), disk_bytes_per_s});
          },
          "cpus"_a, "duty"_a = 1.0, "period_ns"_a = 10'000'000, "memory_threads"_a = 0,
          "memory_bytes"_a = 64 << 20, "memory_bytes_per_s"_a = 0.0, "disk_path"_a = "",
          "disk_bytes_per_s"_a = 0.0)
      .def("start", &st::GlobalLoad::start, Release())
      .def("stop", &st::GlobalLoad::stop, Release())
      .def_prop_ro("busy_ns", &st::GlobalLoad::busy_ns)
      .def_prop_ro("memory_bytes", &st::GlobalLoad::memory_bytes)
      .def_prop_ro("disk_bytes", &st::GlobalLoad::disk_bytes)
      .def_prop_ro("disk_error", &st::GlobalLoad::disk_error);

  m.def("play", &play, "threads"_a, "created"_a, "semaphores"_a, "io_path"_a, "timeout_ns"_a, "priority"_a,
        "scheduled"_a,
        "Play action lists of (verb, amount, target, turn); verbs are numbered as in player.hpp.");
}
