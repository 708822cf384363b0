#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <latlab/counters.hpp>

#include <cstdint>
#include <string>

namespace nb = nanobind;
using namespace nb::literals;
using namespace latlab;

namespace {

// A queue's counts for Python: any number of threads on both sides, so every count is an atomic addition.
class Slot {
 public:
  explicit Slot(const QueueInfo& info) : slot_(CounterFile::process().add_queue(info)) {}

  void put(std::uint64_t events) noexcept {
    slot_.note_producer();
    slot_.producer().in.fetch_add(events, std::memory_order_release);
  }
  void get(std::uint64_t events) noexcept {
    slot_.note_consumer();
    slot_.consumer().out.fetch_add(events, std::memory_order_release);
  }
  void drop(std::uint64_t events) noexcept {
    slot_.producer().dropped.fetch_add(events, std::memory_order_relaxed);
  }
  void block() noexcept { slot_.producer().blocked.fetch_add(1, std::memory_order_relaxed); }
  void empty() noexcept { slot_.consumer().empty.fetch_add(1, std::memory_order_relaxed); }

  [[nodiscard]] std::uint64_t in() const noexcept {
    return slot_.producer().in.load(std::memory_order_acquire);
  }
  [[nodiscard]] std::uint64_t out() const noexcept {
    return slot_.consumer().out.load(std::memory_order_acquire);
  }
  QueueSlot& slot() noexcept { return slot_; }

 private:
  QueueSlot slot_;
};

// One event, without arguments: nanobind's argument handling costs more than the counting.
template <void (Slot::*count)(std::uint64_t) noexcept>
PyObject* one(PyObject* self, PyObject* /*none*/) noexcept {
  (nb::inst_ptr<Slot>(self)->*count)(1);
  Py_RETURN_NONE;
}
PyMethodDef put_one_def{"put_one", &one<&Slot::put>, METH_NOARGS, "Count one event put in."};
PyMethodDef get_one_def{"get_one", &one<&Slot::get>, METH_NOARGS, "Count one event taken out."};

class StageTimer {
 public:
  explicit StageTimer(const StageInfo& info) : slot_(CounterFile::process().add_stage(info)) {}
  void enter(StageState state) noexcept { slot_.enter(state, ticks()); }
  void count(std::uint64_t events) noexcept { slot_.count(events); }
  void set_thread() noexcept { slot_.set_thread(detail::thread_id(), -1); }

 private:
  StageSlot slot_;
};

// Where everything stands in a counter file, for a writer that has neither this module nor the header: what
// is injected into a Python program with an interpreter of its own.
nb::typed<nb::dict, nb::str, std::uint64_t> layout() {
  nb::dict out;
  const auto put = [&](const char* name, std::uint64_t value) { out[name] = value; };
  put("magic", kCounterMagic);
  put("version", kCounterVersion);
  put("header_bytes", sizeof(FileHeader));
  put("queue_descriptor_bytes", sizeof(QueueDescriptor));
  put("stage_descriptor_bytes", sizeof(StageDescriptor));
  put("queue_hot_bytes", sizeof(QueueHot));
  put("stage_hot_bytes", sizeof(StageHot));
#define LATLAB_FIELD(prefix, type, field) put(prefix #field, offsetof(type, field))
  LATLAB_FIELD("header.", FileHeader, magic);
  LATLAB_FIELD("header.", FileHeader, version);
  LATLAB_FIELD("header.", FileHeader, header_bytes);
  LATLAB_FIELD("header.", FileHeader, queue_capacity);
  LATLAB_FIELD("header.", FileHeader, stage_capacity);
  LATLAB_FIELD("header.", FileHeader, queue_descriptor_bytes);
  LATLAB_FIELD("header.", FileHeader, stage_descriptor_bytes);
  LATLAB_FIELD("header.", FileHeader, queue_hot_bytes);
  LATLAB_FIELD("header.", FileHeader, stage_hot_bytes);
  LATLAB_FIELD("header.", FileHeader, queue_descriptor_offset);
  LATLAB_FIELD("header.", FileHeader, stage_descriptor_offset);
  LATLAB_FIELD("header.", FileHeader, queue_hot_offset);
  LATLAB_FIELD("header.", FileHeader, stage_hot_offset);
  LATLAB_FIELD("header.", FileHeader, file_bytes);
  LATLAB_FIELD("header.", FileHeader, pid);
  LATLAB_FIELD("header.", FileHeader, file_number);
  LATLAB_FIELD("header.", FileHeader, process_start);
  LATLAB_FIELD("header.", FileHeader, boot_id);
  LATLAB_FIELD("header.", FileHeader, clock_ticks);
  LATLAB_FIELD("header.", FileHeader, clock_ns);
  LATLAB_FIELD("header.", FileHeader, clock_hz);
  LATLAB_FIELD("header.", FileHeader, phase);
  LATLAB_FIELD("header.", FileHeader, queue_count);
  LATLAB_FIELD("header.", FileHeader, topology_version);
  LATLAB_FIELD("header.", FileHeader, application);
  LATLAB_FIELD("queue.", QueueDescriptor, version);
  LATLAB_FIELD("queue.", QueueDescriptor, state);
  LATLAB_FIELD("queue.", QueueDescriptor, generation);
  LATLAB_FIELD("queue.", QueueDescriptor, kind);
  LATLAB_FIELD("queue.", QueueDescriptor, capacity);
  LATLAB_FIELD("queue.", QueueDescriptor, identity);
  LATLAB_FIELD("queue.", QueueDescriptor, sides);
  LATLAB_FIELD("queue.", QueueDescriptor, created_ticks);
  LATLAB_FIELD("queue.", QueueDescriptor, name);
  LATLAB_FIELD("queue.", QueueDescriptor, source_type);
  LATLAB_FIELD("queue.", QueueDescriptor, source_name);
  LATLAB_FIELD("queue.", QueueDescriptor, drain_type);
  LATLAB_FIELD("queue.", QueueDescriptor, drain_name);
  LATLAB_FIELD("queue.", QueueDescriptor, implementation);
  LATLAB_FIELD("hot.", QueueHot, producer.in);
  LATLAB_FIELD("hot.", QueueHot, producer.blocked);
  LATLAB_FIELD("hot.", QueueHot, producer.tid);
  LATLAB_FIELD("hot.", QueueHot, consumer.out);
  LATLAB_FIELD("hot.", QueueHot, consumer.empty);
  LATLAB_FIELD("hot.", QueueHot, consumer.tid);
#undef LATLAB_FIELD
  put("text_bytes", sizeof(QueueDescriptor::name));
  put("application_bytes", sizeof(FileHeader::application));
  put("kind.bounded", static_cast<std::uint64_t>(QueueKind::bounded));
  put("kind.unbounded", static_cast<std::uint64_t>(QueueKind::unbounded));
  put("kind.shared_memory", static_cast<std::uint64_t>(QueueKind::shared_memory));
  put("state.live", static_cast<std::uint64_t>(SlotState::live));
  put("state.retired", static_cast<std::uint64_t>(SlotState::retired));
  put("phase.starting", static_cast<std::uint64_t>(Phase::starting));
  put("phase.stopping", static_cast<std::uint64_t>(Phase::stopping));
  put("phase.running", static_cast<std::uint64_t>(Phase::running));
  put("phase.ended", static_cast<std::uint64_t>(Phase::ended));
  put("sides.both", kBothSides);
  put("sides.shares", kSharedCount);
  return nb::typed<nb::dict, nb::str, std::uint64_t>(out);
}

}  // namespace

NB_MODULE(counting, m) {
  // An application may end while its daemon threads hold queues: no fault of its own, and no text of ours.
  nb::set_leak_warnings(false);
  m.doc() = "The application's side: counts of Python's queues in this process's counter file.";

  nb::class_<Slot>(m, "Slot", "A queue's place in the counter file; counting is safe from any thread.")
      .def(
          "__init__",
          [](Slot* self, const std::string& name, std::uint32_t kind, std::uint64_t capacity,
             const std::string& source_type, const std::string& source_name, const std::string& drain_type,
             const std::string& drain_name, const std::string& group, const std::string& implementation,
             std::uint64_t identity, std::uint32_t sides) {
            new (self) Slot(QueueInfo{.name = name,
                                      .kind = static_cast<QueueKind>(kind),
                                      .capacity = capacity,
                                      .source = {source_type, source_name},
                                      .drain = {drain_type, drain_name},
                                      .group = group,
                                      .implementation = implementation,
                                      .identity = identity,
                                      .sides = sides});
          },
          nb::kw_only(), "name"_a = "", "kind"_a = 1, "capacity"_a = 0, "source_type"_a = "",
          "source_name"_a = "", "drain_type"_a = "", "drain_name"_a = "", "group"_a = "",
          "implementation"_a = "", "identity"_a = 0, "sides"_a = 3)
      .def("put", &Slot::put, "events"_a = 1)
      .def("get", &Slot::get, "events"_a = 1)
      .def_prop_ro(
          "put_one", [](nb::handle self) { return nb::steal(PyCFunction_New(&put_one_def, self.ptr())); },
          nb::sig("def put_one(self) -> collections.abc.Callable[[], None]"),
          "A function that counts one event put in: as put(), and cheaper.")
      .def_prop_ro(
          "get_one", [](nb::handle self) { return nb::steal(PyCFunction_New(&get_one_def, self.ptr())); },
          nb::sig("def get_one(self) -> collections.abc.Callable[[], None]"),
          "A function that counts one event taken out: as get(), and cheaper.")
      .def("drop", &Slot::drop, "events"_a = 1)
      .def("block", &Slot::block)
      .def("empty", &Slot::empty)
      .def_prop_ro("total_in", &Slot::in)
      .def_prop_ro("total_out", &Slot::out)
      .def(
          "set_source",
          [](Slot& s, const std::string& type, const std::string& name) {
            s.slot().set_source({type, name});
          },
          "type"_a = "", "name"_a = "")
      .def(
          "set_drain",
          [](Slot& s, const std::string& type, const std::string& name) { s.slot().set_drain({type, name}); },
          "type"_a = "", "name"_a = "")
      .def(
          "set_name", [](Slot& s, const std::string& name) { s.slot().set_name(name); }, "name"_a)
      .def(
          "set_group", [](Slot& s, const std::string& group) { s.slot().set_group(group); }, "group"_a)
      .def(
          "set_pair", [](Slot& s, Slot& other) { s.slot().set_pair(other.slot().slot()); }, "other"_a)
      .def(
          "forget_threads", [](Slot& s) { s.slot().forget_threads(); },
          "Note the threads anew: those that set things up are not those that will run it.");

  nb::class_<StageTimer>(m, "Stage", "A stage's times in the counter file; its own thread calls it.")
      .def(
          "__init__",
          [](StageTimer* self, const std::string& type, const std::string& name, const std::string& group,
             std::uint32_t wait) {
            new (self) StageTimer(
                StageInfo{.stage = {type, name}, .group = group, .wait = static_cast<WaitPolicy>(wait)});
          },
          nb::kw_only(), "type"_a = "", "name"_a = "", "group"_a = "", "wait"_a = 3)
      .def("idle", [](StageTimer& s) { s.enter(StageState::idle); })
      .def("busy", [](StageTimer& s) { s.enter(StageState::busy); })
      .def("blocked", [](StageTimer& s) { s.enter(StageState::blocked); })
      .def("count", &StageTimer::count, "events"_a = 1)
      .def("set_thread", &StageTimer::set_thread, "This thread runs it.");

  m.def(
      "set_application", [](const std::string& name) { CounterFile::process().set_application(name); },
      "name"_a);
  m.def(
      "set_phase", [](std::uint32_t phase) { CounterFile::process().set_phase(static_cast<Phase>(phase)); },
      "phase"_a);
  m.def(
      "counter_file", [] { return CounterFile::process().path(); },
      "This process's counter file, or \"\" where it has none.");
  m.def("layout", &layout, "Offsets, sizes and codes of the counter file.");
  m.def("reason", [] { return CounterFile::process().reason(); }, "Why it has none.");
}
