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
  m.def("reason", [] { return CounterFile::process().reason(); }, "Why it has none.");
}
