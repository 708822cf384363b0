// Over 400 lines: bindings only, one after the other, with their signatures for the type stubs.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <latlab/counter_reader.hpp>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "columns.hpp"
#include "queues/sampler.hpp"
#include "queues/threads.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using latlab::bind::dict_of;
using namespace latlab::queues;

namespace {

template <class T>
using Column = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

// A column of a chunk, as an array of its own.
template <class T, class Rows, class Get>
nb::object column(const Rows& rows, std::size_t count, Get&& get) {
  T* const values = new T[count];
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<T>(get(rows[i]));
  nb::capsule owner(values, [](void* p) noexcept { delete[] static_cast<T*>(p); });
  return nb::cast(Column<T>(values, {count}, owner));
}

// CLOCK_MONOTONIC by the one line that the whole recording uses.
struct Line {
  latlab::ClockReference reference;
  double hz;
  std::int64_t operator()(std::uint64_t ticks) const {
    return static_cast<std::int64_t>(latlab::ticks_to_ns(ticks, reference, hz));
  }
};

nb::dict samples_of(const Chunk& chunk, const Line& ns) {
  nb::dict all;
  const auto add = [&]<class T>(const char* name, T, auto&& get) {
    all[name] = column<T>(chunk.samples, chunk.sample_count, get);
  };
  add("t_ns", std::int64_t{}, [&](const SampleRow& r) { return ns(r.begin_ticks); });
  add("t_end_ns", std::int64_t{}, [&](const SampleRow& r) { return ns(r.end_ticks); });
  add("queue", std::uint32_t{}, [](const SampleRow& r) { return r.queue; });
  add("in", std::uint64_t{}, [](const SampleRow& r) { return r.in; });
  add("out_low", std::uint64_t{}, [](const SampleRow& r) { return r.out_low; });
  add("out_high", std::uint64_t{}, [](const SampleRow& r) { return r.out_high; });
  add("dropped", std::uint64_t{}, [](const SampleRow& r) { return r.dropped; });
  add("blocked", std::uint64_t{}, [](const SampleRow& r) { return r.blocked; });
  add("empty", std::uint64_t{}, [](const SampleRow& r) { return r.empty; });
  add("skipped", std::uint32_t{}, [](const SampleRow& r) { return r.skipped; });
  return all;
}

nb::dict sweeps_of(const Chunk& chunk, const Line& ns) {
  nb::dict all;
  all["t_ns"] = column<std::int64_t>(chunk.sweeps, chunk.sweep_count,
                                     [&](const SweepRow& r) { return ns(r.begin_ticks); });
  all["duration_ns"] = column<std::uint32_t>(chunk.sweeps, chunk.sweep_count, [&](const SweepRow& r) {
    return static_cast<double>(r.duration_ticks) * 1e9 / ns.hz;
  });
  all["read"] =
      column<std::uint32_t>(chunk.sweeps, chunk.sweep_count, [](const SweepRow& r) { return r.read; });
  return all;
}

nb::dict gaps_of(const Chunk& chunk) {
  nb::dict all;
  all["from_ns"] =
      column<std::int64_t>(chunk.gaps, chunk.gap_count, [](const GapRow& r) { return r.from_ns; });
  all["to_ns"] = column<std::int64_t>(chunk.gaps, chunk.gap_count, [](const GapRow& r) { return r.to_ns; });
  all["periods"] =
      column<std::uint32_t>(chunk.gaps, chunk.gap_count, [](const GapRow& r) { return r.periods; });
  all["cause"] = column<std::uint32_t>(chunk.gaps, chunk.gap_count,
                                       [](const GapRow& r) { return static_cast<std::uint32_t>(r.cause); });
  return all;
}

// A name that some program gave: it need not be UTF-8, and a terminal must not obey it. Control characters
// and those that turn the direction of writing become question marks, here, for all who show or keep it.
nb::str name_text(const std::string& value) {
  nb::str text = nb::steal<nb::str>(
      PyUnicode_DecodeUTF8(value.data(), static_cast<Py_ssize_t>(value.size()), "replace"));
  if (!text.is_valid()) throw nb::python_error();
  const auto obeyed = [](Py_UCS4 c) {
    return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x061C || (c >= 0x200B && c <= 0x200F) ||
           (c >= 0x2028 && c <= 0x202E) || (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF;
  };
  const Py_ssize_t size = PyUnicode_GetLength(text.ptr());
  Py_ssize_t bad = 0;
  for (Py_ssize_t i = 0; i < size; ++i) bad += obeyed(PyUnicode_ReadChar(text.ptr(), i)) ? 1 : 0;
  if (bad == 0) return text;
  std::string clean;
  for (Py_ssize_t i = 0; i < size; ++i) {
    const Py_UCS4 c = PyUnicode_ReadChar(text.ptr(), i);
    const nb::object one = nb::steal<nb::object>(PyUnicode_FromOrdinal(static_cast<int>(c)));
    const char* const bytes = PyUnicode_AsUTF8AndSize(one.ptr(), nullptr);
    if (bytes == nullptr) PyErr_Clear();
    clean += obeyed(c) || bytes == nullptr ? "?" : bytes;
  }
  return nb::str(clean.data(), clean.size());
}

class Reader {
 public:
  explicit Reader(std::string path)
      : reader_(std::make_shared<const latlab::CounterReader>(std::move(path))) {}
  explicit Reader(std::shared_ptr<Mirror> mirror)
      : mirror_(std::move(mirror)),
        reader_(
            std::make_shared<const latlab::CounterReader>(latlab::CounterReader::of_own(mirror_->path()))) {}

  [[nodiscard]] const latlab::CounterReader& readable() const {
    if (!reader_->readable()) throw std::runtime_error(reader_->path() + ": " + to_text(reader_->state()));
    return *reader_;
  }
  [[nodiscard]] const latlab::CounterReader& any() const { return *reader_; }
  [[nodiscard]] std::shared_ptr<const latlab::CounterReader> share() const { return reader_; }
  [[nodiscard]] const std::shared_ptr<Mirror>& mirror() const { return mirror_; }

  [[nodiscard]] const latlab::CounterReader& at_queue(std::uint32_t slot) const {
    // The room for slots, not their count: whoever writes the file may take that back at any time.
    if (slot >= readable().queue_room()) throw std::out_of_range("there is no such queue slot");
    return *reader_;
  }

 private:
  std::shared_ptr<Mirror> mirror_;  // null: an application's own file
  std::shared_ptr<const latlab::CounterReader> reader_;
};

Reader reader_by_address(int pid, const nb::list& queues) {
  std::vector<RemoteQueue> all;
  for (const nb::handle item : queues) {
    const auto from = nb::cast<nb::dict>(item);
    const auto text = [&](const char* key) { return nb::cast<std::string>(from[key]); };
    const auto number = [&](const char* key) { return nb::cast<std::uint64_t>(from[key]); };
    all.push_back({.name = text("name"),
                   .source_type = text("source_type"),
                   .source_name = text("source_name"),
                   .drain_type = text("drain_type"),
                   .drain_name = text("drain_name"),
                   .in_address = number("in_address"),
                   .out_address = number("out_address"),
                   .index_bytes = static_cast<std::uint32_t>(number("index_bytes")),
                   .modulus = number("modulus"),
                   .capacity = number("capacity")});
    if (all.back().index_bytes != 4 && all.back().index_bytes != 8) {
      throw std::invalid_argument("an index has 4 or 8 bytes");
    }
  }
  return Reader(std::make_shared<Mirror>(pid, all));
}

nb::dict header_of(const Reader& reader) {
  const auto& head = reader.readable().header();
  nb::dict all;
  all["pid"] = head.pid;
  all["process_start"] = head.process_start;
  all["file_number"] = head.file_number;
  all["boot_id"] = nb::bytes(reinterpret_cast<const char*>(head.boot_id.data()), head.boot_id.size());
  all["clock_ticks"] = head.clock_ticks;
  all["clock_ns"] = head.clock_ns;
  all["clock_hz"] = head.clock_hz;
  all["queue_counts_offset"] = head.queue_hot_offset;
  all["queue_counts_bytes"] = sizeof(latlab::QueueHot);
  return all;
}

// What the descriptions of queues and of stages share.
template <class View, class... More>
nb::dict slot_of(const View& view, More&&... more) {
  return dict_of("slot", view.slot, "version", view.version, "generation", view.generation, "state",
                 static_cast<std::uint32_t>(view.state), std::forward<More>(more)...);
}

nb::object queue_of(const Reader& reader, std::uint32_t slot) {
  latlab::QueueView view;
  if (!reader.at_queue(slot).describe(slot, view)) return nb::none();
  return slot_of(view, "kind", static_cast<std::uint32_t>(view.kind), "capacity", view.capacity, "identity",
                 view.identity, "sides", view.sides, "pair", view.pair, "created_ticks", view.created_ticks,
                 "name", name_text(view.name), "source_type", name_text(view.source_type), "source_name",
                 name_text(view.source_name), "drain_type", name_text(view.drain_type), "drain_name",
                 name_text(view.drain_name), "group", name_text(view.group), "implementation",
                 name_text(view.implementation), "producer_tid", view.producer_tid, "consumer_tid",
                 view.consumer_tid);
}

nb::object stage_of(const Reader& reader, std::uint32_t slot) {
  if (slot >= reader.readable().stage_room()) throw std::out_of_range("there is no such stage slot");
  latlab::StageView view;
  if (!reader.any().describe(slot, view)) return nb::none();
  return slot_of(view, "wait", static_cast<std::uint32_t>(view.wait), "tid", view.tid, "cpu", view.cpu,
                 "type", name_text(view.type), "name", name_text(view.name), "group", name_text(view.group));
}

// (producer parts, consumer parts) of (reader, slot, generation) each.
using Parts = std::vector<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>>;
using TargetTuple = std::tuple<std::uint32_t, bool, Parts, Parts>;

void set_plan(Sampler& sampler, const std::vector<const Reader*>& readers,
              std::vector<std::uint64_t> versions, const std::vector<TargetTuple>& targets) {
  if (readers.size() != versions.size()) throw std::invalid_argument("one version for each reader");
  std::vector<std::shared_ptr<const latlab::CounterReader>> shared;
  std::vector<std::shared_ptr<Mirror>> mirrors;
  for (const Reader* reader : readers) {
    static_cast<void>(reader->readable());
    shared.push_back(reader->share());
    mirrors.push_back(reader->mirror());
  }
  const auto convert = [&](const Parts& parts) {
    std::vector<Part> result;
    for (const auto& [reader, slot, generation] : parts) {
      if (reader >= readers.size()) throw std::out_of_range("there is no such reader");
      static_cast<void>(readers[reader]->at_queue(slot));
      result.push_back({reader, slot, generation});
    }
    return result;
  };
  std::vector<Target> plan;
  plan.reserve(targets.size());
  for (const auto& [queue, adds, producers, consumers] : targets) {
    plan.push_back({queue, adds, convert(producers), convert(consumers)});
  }
  sampler.set_plan(std::move(shared), std::move(versions), plan, std::move(mirrors));
}

nb::list drain(Sampler& sampler, std::uint64_t ticks, std::uint64_t ns, double hz) {
  const Line line{{ticks, ns}, hz};
  nb::list result;
  while (const Chunk* const chunk = sampler.front()) {
    result.append(nb::make_tuple(samples_of(*chunk, line), sweeps_of(*chunk, line), gaps_of(*chunk)));
    sampler.release();
  }
  return result;
}

nb::dict statistics_of(const Sampler& sampler) {
  const SamplerStatistics statistics = sampler.statistics();
  return dict_of("sweeps", statistics.sweeps, "samples", statistics.samples, "reads", statistics.reads,
                 "torn", statistics.torn, "missed_periods", statistics.missed_periods, "lost_periods",
                 statistics.lost_periods, "discarded", statistics.discarded, "cpu_ns", statistics.cpu_ns,
                 "timer_slack_ns", statistics.timer_slack_ns, "trouble", statistics.trouble);
}

}  // namespace

NB_MODULE(queues, m) {
  m.doc() = "Counter files and the sampler of queues.";

  nb::class_<Reader>(m, "Reader", "A counter file, mapped read-only.")
      .def(nb::init<std::string>(), "path"_a)
      .def_static("by_address", &reader_by_address, "pid"_a, "queues"_a,
                  nb::sig("def by_address(pid: int, queues: list[dict[str, typing.Any]]) -> Reader"),
                  "Queues of a process that publishes nothing, by the addresses of their indices.")
      .def(
          "refresh", [](const Reader& r) { return r.mirror() == nullptr || r.mirror()->refresh(); },
          nb::call_guard<nb::gil_scoped_release>(),
          "Copy the indices of queues by address now; False where they can't be read any more.")
      .def_prop_ro("path", [](const Reader& r) { return r.any().path(); })
      .def_prop_ro(
          "state", [](const Reader& r) { return to_text(r.any().state()); },
          "What was found: ready, absent, too short, not ready, foreign, other version, bad geometry, "
          "other boot or dead.")
      .def_prop_ro("readable", [](const Reader& r) { return r.any().readable(); })
      .def(
          "alive", [](const Reader& r) { return r.any().alive(); }, nb::call_guard<nb::gil_scoped_release>())
      .def("header", &header_of, nb::sig("def header(self) -> dict[str, typing.Any]"))
      .def_prop_ro("application",
                   [](const Reader& r) { return name_text(r.readable().header().application.load()); })
      .def_prop_ro(
          "phase",
          [](const Reader& r) { return r.readable().header().phase.load(std::memory_order_acquire); })
      .def_prop_ro("topology_version",
                   [](const Reader& r) {
                     return r.readable().header().topology_version.load(std::memory_order_acquire);
                   })
      .def_prop_ro("queue_count", [](const Reader& r) { return r.readable().queue_count(); })
      .def_prop_ro("stage_count", [](const Reader& r) { return r.readable().stage_count(); })
      .def(
          "queue_version",
          [](const Reader& r, std::uint32_t slot) {
            return r.at_queue(slot).queue(slot).version.load(std::memory_order_acquire);
          },
          "slot"_a)
      .def("queue", &queue_of, "slot"_a,
           nb::sig("def queue(self, slot: int) -> dict[str, typing.Any] | None"),
           "A queue's description, or None while it is being written.")
      .def("stage", &stage_of, "slot"_a,
           nb::sig("def stage(self, slot: int) -> dict[str, typing.Any] | None"))
      .def(
          "counts",
          [](const Reader& r, std::uint32_t slot, int retries) {
            const latlab::QueueHot& hot = r.at_queue(slot).counts(slot);
            const auto counts = latlab::read_counts(hot.producer, hot.consumer, retries);
            return std::make_tuple(counts.in, counts.out_low, counts.out_high, counts.dropped, counts.blocked,
                                   counts.empty);
          },
          "slot"_a, "retries"_a = 3, "(in, out_low, out_high, dropped, blocked, empty)")
      .def(
          "threads_of",
          [](const Reader& r, std::uint32_t slot) {
            const latlab::QueueHot& hot = r.at_queue(slot).counts(slot);
            return std::make_tuple(hot.producer.tid.load(std::memory_order_acquire),
                                   hot.consumer.tid.load(std::memory_order_acquire));
          },
          "slot"_a, "(producer's thread, consumer's thread), 0 where unknown.")
      .def_prop_ro(
          "counts_ns", [](const Reader& r) { return r.any().counts_ns(); },
          "Its times are in nanoseconds of CLOCK_MONOTONIC, not in ticks.")
      .def(
          "stage_times",
          [](const Reader& r, std::uint32_t slot) -> nb::object {
            if (slot >= r.readable().stage_room()) throw std::out_of_range("there is no such stage slot");
            latlab::StageTimes times;
            if (!r.any().read_times(slot, times)) return nb::none();
            return nb::make_tuple(times.at_ticks, times.busy_ticks, times.blocked_ticks, times.idle_ticks,
                                  times.events, static_cast<std::uint32_t>(times.state), times.transitions);
          },
          "slot"_a,
          nb::sig("def stage_times(self, slot: int) -> tuple[int, int, int, int, int, int, int] | None"),
          "(at, busy, blocked, idle, events, state, transitions) in ticks, or None.");

  nb::class_<Sampler>(m, "Sampler", "Reads a plan of queues at a period, on a thread of its own.")
      .def(
          "__init__",
          [](Sampler* self, std::uint64_t period_ns, std::uint32_t stamp_every, int retries,
             std::uint32_t longest_skip, std::size_t chunk_samples, std::size_t chunks, int cpu,
             int priority) {
            if (period_ns < 1000) throw std::invalid_argument("the period is at least 1000 ns");
            if (chunk_samples < 64 || chunks < 2) throw std::invalid_argument("too few or too small chunks");
            new (self) Sampler(SamplerOptions{.period_ns = period_ns,
                                              .stamp_every = stamp_every,
                                              .retries = retries,
                                              .longest_skip = longest_skip,
                                              .chunk_samples = chunk_samples,
                                              .chunks = chunks,
                                              .cpu = cpu,
                                              .priority = priority});
          },
          nb::kw_only(), "period_ns"_a = 100'000, "stamp_every"_a = 4, "retries"_a = 3, "longest_skip"_a = 0,
          "chunk_samples"_a = 8192, "chunks"_a = 32, "cpu"_a = -1, "priority"_a = 0)
      .def("set_plan", &set_plan, "readers"_a, "versions"_a, "targets"_a,
           "targets: (queue, adds, producers, consumers), the last two lists of (reader, slot, generation).")
      .def("start", &Sampler::start)
      .def("stop", &Sampler::stop, nb::call_guard<nb::gil_scoped_release>())
      .def("sweep", &Sampler::sweep)
      .def("flush", &Sampler::flush)
      .def("set_period", &Sampler::set_period, "period_ns"_a)
      .def_prop_ro("period_ns", &Sampler::period_ns)
      .def_prop_ro("stale", &Sampler::stale)
      .def("drain", &drain, "ticks"_a, "ns"_a, "hz"_a,
           nb::sig("def drain(self, ticks: int, ns: int, hz: float) -> list[tuple[dict[str, typing.Any], "
                   "dict[str, typing.Any], dict[str, typing.Any]]]"),
           "[(samples, sweeps, gaps)], a dict of columns each, of the chunks that are full.")
      .def("statistics", &statistics_of, nb::sig("def statistics(self) -> dict[str, typing.Any]"));

  m.def(
      "read_threads",
      [](std::uint32_t pid, std::size_t most) {
        std::vector<ThreadTimes> threads;
        {
          nb::gil_scoped_release release;
          threads = read_threads(pid, most);
        }
        nb::list result;
        for (const ThreadTimes& t : threads) {
          result.append(
              nb::make_tuple(t.tid, t.at_ns, t.cpu_ns, t.wait_ns, t.voluntary, t.involuntary,
                             nb::steal<nb::str>(PyUnicode_DecodeUTF8(
                                 t.name.data(), static_cast<Py_ssize_t>(t.name.size()), "replace"))));
        }
        return result;
      },
      "pid"_a, "most"_a = 512,
      nb::sig(
          "def read_threads(pid: int, most: int = 512) -> list[tuple[int, int, int, int, int, int, str]]"),
      "[(tid, at_ns, cpu_ns, wait_ns, voluntary, involuntary, name)]");
  m.def("counter_folder", &latlab::counter_folder, "Where this user's counter files are.");
}
