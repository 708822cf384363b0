// Over 400 lines: the process's one table of counted queues, and the bindings that fill it.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <latlab/counters.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace nb = nanobind;
using namespace nb::literals;
using namespace latlab;

namespace {

class Slot;

// How a thread waits at a queue, as far as its class says it.
enum class Waits : std::uint32_t {
  untold = 0,   // where it is empty, nobody knows what the thread does
  told = 1,     // its class says so, on the thread that waits
  by_task = 2,  // its class says so for each task of an event loop
};

// The times of the calling thread as a stage: named after the stage that drains the queues which it takes
// from, from the first event on. A thread that takes for two stages, or from a queue whose class does not
// tell how it waits, has none: nothing is said that could be wrong.
class ThreadTimes {
 public:
  static ThreadTimes& mine() noexcept {
    static thread_local ThreadTimes times;
    return times;
  }

  void took(const Slot& slot, std::uint64_t events);
  void wait(const Slot& slot, bool for_event);
  void found_nothing(const Slot& slot) noexcept;
  void go_on() noexcept {
    if (stage_ && forks_ == forks()) stage_->enter(StageState::busy, ticks());
  }
  // Of this process: the child of a fork has copies of what was its parent's.
  static std::uint32_t& forks() noexcept {
    static std::uint32_t count = 0;
    return count;
  }

 private:
  void meet(const Slot& slot);
  void give_up() noexcept {
    stage_.reset();
    given_up_ = true;
  }

  std::optional<StageSlot> stage_;
  std::string type_, name_;
  std::vector<std::uint64_t> known_;  // numbers of the queues that it takes from
  std::uint64_t last_ = 0;
  std::uint32_t forks_ = 0;
  bool given_up_ = false;
};

// A queue's counts for Python: any number of threads on both sides, so every count is an atomic addition.
class Slot {
 public:
  Slot(const QueueInfo& info, Waits waits)
      : slot_(CounterFile::process().add_queue(info)),
        waits_(waits),
        type_(info.drain.type),
        name_(info.drain.name),
        pool_(info.kind == QueueKind::pool ||
              (!unnamed() && info.drain.name == info.source.name && info.drain.type == info.source.type)) {
    static std::atomic<std::uint64_t> last{0};
    number_ = ++last;
  }

  void put(std::uint64_t events) noexcept {
    slot_.note_producer();
    slot_.producer().in.fetch_add(events, std::memory_order_release);
  }
  void get(std::uint64_t events) noexcept {
    slot_.note_consumer();
    slot_.consumer().out.fetch_add(events, std::memory_order_release);
    if (waits_ != Waits::by_task) ThreadTimes::mine().took(*this, events);
  }
  void drop(std::uint64_t events) noexcept {
    slot_.producer().dropped.fetch_add(events, std::memory_order_relaxed);
  }
  void block() noexcept { slot_.producer().blocked.fetch_add(1, std::memory_order_relaxed); }
  void empty() noexcept { slot_.consumer().empty.fetch_add(1, std::memory_order_relaxed); }
  void wait_for_event() noexcept { ThreadTimes::mine().wait(*this, true); }
  void wait_for_room() noexcept { ThreadTimes::mine().wait(*this, false); }
  void found_nothing() noexcept { ThreadTimes::mine().found_nothing(*this); }
  void go_on() noexcept { ThreadTimes::mine().go_on(); }

  [[nodiscard]] std::uint64_t in() const noexcept {
    return slot_.producer().in.load(std::memory_order_acquire);
  }
  [[nodiscard]] std::uint64_t out() const noexcept {
    return slot_.consumer().out.load(std::memory_order_acquire);
  }
  QueueSlot& slot() noexcept { return slot_; }
  void set_drain(const std::string& type, const std::string& name) {
    slot_.set_drain({type, name});
    type_ = type;
    name_ = name;
  }

  [[nodiscard]] Waits waits() const noexcept { return waits_; }
  [[nodiscard]] bool unnamed() const noexcept { return type_.empty() && name_.empty(); }
  [[nodiscard]] bool pool() const noexcept { return pool_; }
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  [[nodiscard]] const std::string& drain_type() const noexcept { return type_; }
  [[nodiscard]] const std::string& drain_name() const noexcept { return name_; }

 private:
  QueueSlot slot_;
  Waits waits_;
  std::string type_, name_;
  bool pool_;
  std::uint64_t number_ = 0;
};

void ThreadTimes::took(const Slot& slot, std::uint64_t events) {
  meet(slot);
  if (!stage_) return;
  if (!slot.pool()) stage_->count(events);
  stage_->enter(StageState::busy, ticks());
}

void ThreadTimes::wait(const Slot& slot, bool for_event) {
  if (for_event) meet(slot);
  if (!stage_ || forks_ != forks()) return;
  // Without an object of the pool its event can't go on: that is no want of events.
  stage_->enter(for_event && !slot.pool() ? StageState::idle : StageState::blocked, ticks());
}

void ThreadTimes::found_nothing(const Slot& slot) noexcept {
  if (!stage_ || forks_ != forks() || slot.pool()) return;
  // Who looks into a queue that it never takes from does not look for work.
  if (std::find(known_.begin(), known_.end(), slot.number()) != known_.end()) {
    stage_->enter(StageState::idle, ticks());
  }
}

void ThreadTimes::meet(const Slot& slot) {
  if (forks_ != forks()) {
    stage_.reset();
    known_.clear();
    last_ = 0;
    given_up_ = false;
    forks_ = forks();
  }
  if (given_up_ || last_ == slot.number()) return;
  last_ = slot.number();
  if (std::find(known_.begin(), known_.end(), last_) != known_.end()) return;
  known_.push_back(last_);
  constexpr std::size_t kMost = 64;
  if (slot.waits() != Waits::told || slot.unnamed() || known_.size() > kMost) {
    give_up();
  } else if (!stage_) {
    type_ = slot.drain_type();
    name_ = slot.drain_name();
    stage_.emplace(CounterFile::process().add_stage(
        StageInfo{.stage = {type_, name_}, .wait = WaitPolicy::block, .tid = detail::thread_id()}));
    stage_->enter(StageState::busy, ticks());
  } else if (type_ != slot.drain_type() || name_ != slot.drain_name()) {
    give_up();
  }
}

// One event, without arguments: nanobind's argument handling costs more than the counting.
template <void (Slot::*call)() noexcept>
PyObject* none(PyObject* self, PyObject* /*none*/) noexcept {
  (nb::inst_ptr<Slot>(self)->*call)();
  Py_RETURN_NONE;
}
PyMethodDef wait_for_event_def{"wait_for_event", &none<&Slot::wait_for_event>, METH_NOARGS, ""};
PyMethodDef wait_for_room_def{"wait_for_room", &none<&Slot::wait_for_room>, METH_NOARGS, ""};
PyMethodDef go_on_def{"go_on", &none<&Slot::go_on>, METH_NOARGS, ""};

template <void (Slot::*count)(std::uint64_t) noexcept>
PyObject* one(PyObject* self, PyObject* /*none*/) noexcept {
  (nb::inst_ptr<Slot>(self)->*count)(1);
  Py_RETURN_NONE;
}
PyMethodDef put_one_def{"put_one", &one<&Slot::put>, METH_NOARGS, "Count one event put in."};
PyMethodDef get_one_def{"get_one", &one<&Slot::get>, METH_NOARGS, "Count one event taken out."};
// A function of no arguments that belongs to an object.
template <PyMethodDef* def>
nb::object bound(nb::handle self) {
  return nb::steal(PyCFunction_New(def, self.ptr()));
}
template <PyMethodDef* def>
void offer(nb::class_<Slot>& slot, const char* text) {
  static const std::string signature =
      std::string("def ") + def->ml_name + "(self) -> collections.abc.Callable[[], None]";
  slot.def_prop_ro(def->ml_name, bound<def>, nb::sig(signature.c_str()), text);
}

class StageTimer {
 public:
  explicit StageTimer(const StageInfo& info) : slot_(CounterFile::process().add_stage(info)) {}
  void enter(StageState state) noexcept { slot_.enter(state, ticks()); }
  void count(std::uint64_t events) noexcept { slot_.count(events); }
  // Of one who tells afterwards for how long it was busy, and never enters a state.
  void add(std::uint64_t busy) noexcept {
    StageHot& line = slot_.line();
    line.busy_ticks.store(line.busy_ticks.load(std::memory_order_relaxed) + busy, std::memory_order_release);
    line.events.store(line.events.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
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
  LATLAB_FIELD("hot.", QueueHot, producer.dropped);
  LATLAB_FIELD("hot.", QueueHot, producer.blocked);
  LATLAB_FIELD("hot.", QueueHot, producer.tid);
  LATLAB_FIELD("hot.", QueueHot, consumer.out);
  LATLAB_FIELD("hot.", QueueHot, consumer.empty);
  LATLAB_FIELD("hot.", QueueHot, consumer.tid);
  LATLAB_FIELD("header.", FileHeader, stage_count);
  LATLAB_FIELD("stage.", StageDescriptor, version);
  LATLAB_FIELD("stage.", StageDescriptor, state);
  LATLAB_FIELD("stage.", StageDescriptor, generation);
  LATLAB_FIELD("stage.", StageDescriptor, wait);
  LATLAB_FIELD("stage.", StageDescriptor, tid);
  LATLAB_FIELD("stage.", StageDescriptor, cpu);
  LATLAB_FIELD("stage.", StageDescriptor, type);
  LATLAB_FIELD("stage.", StageDescriptor, name);
  LATLAB_FIELD("stage.", StageDescriptor, group);
  LATLAB_FIELD("times.", StageHot, version);
  LATLAB_FIELD("times.", StageHot, since_ticks);
  LATLAB_FIELD("times.", StageHot, busy_ticks);
  LATLAB_FIELD("times.", StageHot, blocked_ticks);
  LATLAB_FIELD("times.", StageHot, idle_ticks);
  LATLAB_FIELD("times.", StageHot, events);
  LATLAB_FIELD("times.", StageHot, state);
  LATLAB_FIELD("times.", StageHot, transitions);
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
  pthread_atfork(nullptr, nullptr, [] { ++ThreadTimes::forks(); });
  m.doc() = "The application's side: counts of Python's queues in this process's counter file.";

  nb::class_<Slot> slot(m, "Slot", "A queue's place in the counter file; counting is safe from any thread.");
  offer<&put_one_def>(slot, "A function that counts one event put in: as put(), and cheaper.");
  offer<&get_one_def>(slot, "A function that counts one event taken out: as get(), and cheaper.");
  offer<&wait_for_event_def>(
      slot, "A function that says that this thread waits for an event (of a pool: for an object).");
  offer<&wait_for_room_def>(slot, "A function that says that this thread waits for room.");
  offer<&go_on_def>(slot, "A function that says that this thread waits no more.");
  slot.def(
          "__init__",
          [](Slot* self, const std::string& name, std::uint32_t kind, std::uint64_t capacity,
             const std::string& source_type, const std::string& source_name, const std::string& drain_type,
             const std::string& drain_name, const std::string& group, const std::string& implementation,
             std::uint64_t identity, std::uint32_t sides, std::uint32_t waits) {
            const auto told = static_cast<Waits>(std::min(waits, 2U));
            new (self) Slot(QueueInfo{.name = name,
                                      .kind = static_cast<QueueKind>(kind),
                                      .capacity = capacity,
                                      .source = {source_type, source_name},
                                      .drain = {drain_type, drain_name},
                                      .group = group,
                                      .implementation = implementation,
                                      .identity = identity,
                                      .sides = sides},
                            told);
          },
          nb::kw_only(), "name"_a = "", "kind"_a = 1, "capacity"_a = 0, "source_type"_a = "",
          "source_name"_a = "", "drain_type"_a = "", "drain_name"_a = "", "group"_a = "",
          "implementation"_a = "", "identity"_a = 0, "sides"_a = 3, "waits"_a = 0)
      .def("put", &Slot::put, "events"_a = 1)
      .def("get", &Slot::get, "events"_a = 1)
      .def("found_nothing", &Slot::found_nothing,
           "This thread looked for an event, and there was none: until it takes one, it waits.")
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
          [](Slot& s, const std::string& type, const std::string& name) { s.set_drain(type, name); },
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
      .def("add", &StageTimer::add, "ticks"_a, "It was busy for this time, and is not now.")
      .def("set_thread", &StageTimer::set_thread, "This thread runs it.");

  m.def("ticks", [] { return ticks(); }, "The counter that times are kept in.");

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
