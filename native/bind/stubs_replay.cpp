// Threads: a Component is used under the GIL, like every Python object.
//
// The callable that stands in for a component: it calls the original, or hands out recorded results at the
// speed of a C function. It is a type of its own, and not a bound function, since a call through nanobind
// costs more than the whole budget of a replayed immutable (60 ns); and it stands here and not in the core,
// since nearly all that it does is done to Python objects.
#include <nanobind/nanobind.h>
#include <structmember.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <latlab/clock.hpp>
#include <latlab/stub_measure.hpp>
#include <latlab/stub_work.hpp>
#include <utility>
#include <vector>

#include "stubs/sleep.hpp"
#include "stubs/spin.hpp"

namespace nb = nanobind;
namespace st = latlab::stubs;

namespace {

enum Mode : std::uint8_t { kOff, kMeasure, kDelay, kReplay, kSlow };
// Shared: the same object may be handed out to everybody. Given: made when the trace was loaded, and handed
// out once; it is the caller's from then on. Made: by the hook, when it is asked for.
enum Kind : std::uint8_t { kShare, kGive, kMake };
// How long a busy stub holds the GIL before it offers it, as the interpreter does between two instructions.
constexpr std::int64_t kGilTurn_ns = 200'000;
// Shorter calls are timed and simulated by the counter alone: a reading of the CPU clock costs 0.5 us.
constexpr std::int64_t kShort_ns = 20'000;

struct Call {
  std::int64_t busy_ns;
  std::int64_t blocked_ns;
};
static_assert(sizeof(Call) == 16);  // as in the .times files; see _plan.py

// Of one thread.
struct Sequence {
  std::vector<PyObject*> values;
  std::vector<std::uint8_t> kinds;
  std::size_t next = 0;
  std::vector<Call> times;  // measured, or to be simulated
  std::size_t next_time = 0;
  bool brief = false;       // the last measured call was short
  std::uint64_t first = 0;  // counter at the begin of the first measured call, and at the end of the last
  std::uint64_t last = 0;
  std::int64_t lost_ns = 0;  // within calls: ready without a CPU, or taken by the machine
};

struct State {
  std::deque<Sequence> sequences;  // grows while calls are inside: references must stay good
  std::vector<std::pair<std::uint64_t, std::size_t>> threads;  // id of a thread state -> its sequence
  std::uint64_t calls = 0;
  std::uint64_t inside_ticks = 0;    // within a stub without time: what its function costs
  std::vector<std::uint64_t> marks;  // begin and end of each call
};

struct Component {
  PyObject_HEAD;
  vectorcallfunc vectorcall;
  PyObject* function;
  PyObject* hook;     // called for what this file doesn't do itself; see _component.py
  PyObject* wrapped;  // __dict__: __wrapped__, __name__ and the like
  State* state;
  double factor;  // of the recorded busy time
  std::int64_t delay_ns;
  double work_per_ns;  // iterations of `work` that stand for a ns; 0: a stub spins until a deadline
  std::uint64_t cached_thread;
  Sequence* cached;
  std::uint8_t mode;
  bool released;  // the component works without the GIL
  bool idle;      // sleep instead of spinning
  bool simulate;
  bool marking;  // keep when each call began and ended: of programs with one thread
};

void sleep_released(std::int64_t ns) {
  if (ns <= 0) return;
  PyThreadState* saved = PyEval_SaveThread();
  st::thread_sleeper().sleep(ns, st::SleepMode::kCorrected);
  PyEval_RestoreThread(saved);
}

// Until the thread's CPU clock reads `end`, as Python code would be busy: with the GIL, and offering it.
void busy_until_cpu(const Component* self, std::int64_t end) {
  if (self->released) {
    PyThreadState* saved = PyEval_SaveThread();
    st::spin_cpu_until(end);
    PyEval_RestoreThread(saved);
    return;
  }
  static PyObject* breathe = PyUnicode_InternFromString("breathe");
  for (std::int64_t now = st::thread_cpu_ns(); end - now > kGilTurn_ns; now = st::thread_cpu_ns()) {
    st::spin_cpu_until(now + kGilTurn_ns);
    // A Python function's entry hands the GIL over where another thread has asked for it. Releasing it here
    // instead would wake the one that waits, find it too slow, and start its 5 ms anew: it would never come
    // to its turn.
    Py_XDECREF(PyObject_CallMethodNoArgs(self->hook, breathe));
  }
  st::spin_cpu_until(end);
}

// As busy_until_cpu, by the work that was done and not by a clock.
void work_for(const Component* self, std::int64_t ns) {
  if (ns <= 0) return;
  const auto iterations = [self](std::int64_t part) {
    return static_cast<std::uint64_t>(static_cast<double>(part) * self->work_per_ns);
  };
  if (self->released) {
    PyThreadState* saved = PyEval_SaveThread();
    latlab::stub::detail::work(iterations(ns));
    PyEval_RestoreThread(saved);
    return;
  }
  static PyObject* breathe = PyUnicode_InternFromString("breathe");
  for (; ns > kGilTurn_ns; ns -= kGilTurn_ns) {
    latlab::stub::detail::work(iterations(kGilTurn_ns));
    Py_XDECREF(PyObject_CallMethodNoArgs(self->hook, breathe));
  }
  latlab::stub::detail::work(iterations(ns));
}

std::uint64_t to_ticks(std::int64_t ns) {
  return static_cast<std::uint64_t>(static_cast<double>(ns) * st::spin_calibration().ticks_per_ns);
}

void busy(const Component* self, std::int64_t ns) {
  if (ns <= 0) return;
  if (ns > kShort_ns) {
    busy_until_cpu(self, st::thread_cpu_ns() + ns);
  } else {
    st::spin_until_tick(latlab::ticks() + to_ticks(ns));
  }
}

// The account of a simulated call: opened at its entry, so that what the stub itself costs is part of its
// time.
struct Account {
  std::uint64_t start;
  std::int64_t target_ns;
  std::int64_t cpu_start_ns;
};

Account open_account(Component* self, Sequence& sequence) {
  Account account{latlab::ticks(), 0, 0};
  if (sequence.times.empty()) return account;
  const Call call = sequence.times[sequence.next_time++ % sequence.times.size()];
  if (call.blocked_ns > 0) {
    sleep_released(call.blocked_ns);
    account.start = latlab::ticks();
  }
  account.target_ns = static_cast<std::int64_t>(static_cast<double>(call.busy_ns) * self->factor);
  if (account.target_ns > kShort_ns && !self->idle && self->work_per_ns <= 0)
    account.cpu_start_ns = st::thread_cpu_ns();
  return account;
}

void close_account(Component* self, const Account& account) {
  if (account.target_ns <= 0) {
    self->state->inside_ticks += latlab::ticks() - account.start;
  } else if (self->idle) {
    sleep_released(account.target_ns - st::ticks_to_duration_ns(latlab::ticks() - account.start));
  } else if (self->work_per_ns > 0) {
    work_for(self, account.target_ns - st::ticks_to_duration_ns(latlab::ticks() - account.start));
  } else if (account.target_ns > kShort_ns) {
    busy_until_cpu(self, account.cpu_start_ns + account.target_ns);
  } else {
    st::spin_until_tick(account.start + to_ticks(account.target_ns));
  }
}

Sequence* find_sequence(Component* self) {
  const std::uint64_t thread = PyThreadState_GetID(PyThreadState_Get());
  if (self->cached != nullptr && self->cached_thread == thread) return self->cached;
  State& state = *self->state;
  for (const auto& [id, index] : state.threads) {
    if (id == thread) {
      self->cached_thread = thread;
      return self->cached = &state.sequences[index];
    }
  }
  PyObject* which = PyObject_CallMethod(self->hook, "sequence_of_thread", nullptr);
  if (which == nullptr) return nullptr;
  const std::size_t index = PyLong_AsSize_t(which);
  Py_DECREF(which);
  if (PyErr_Occurred() != nullptr) return nullptr;
  if (self->mode == kMeasure && index >= state.sequences.size()) state.sequences.resize(index + 1);
  if (index >= state.sequences.size()) {
    PyErr_SetString(PyExc_IndexError, "no such sequence");
    return nullptr;
  }
  state.threads.emplace_back(thread, index);
  self->cached_thread = thread;
  return self->cached = &state.sequences[index];
}

PyObject* hand_out(Component* self, PyObject*& value, std::uint8_t kind, PyObject* const* arguments,
                   std::size_t count, PyObject* names) {
  switch (kind) {
    case kShare:
      Py_INCREF(value);
      return value;
    case kGive:
      return std::exchange(value, nullptr);
    default: {
      PyObject* given = PyTuple_New(static_cast<Py_ssize_t>(count));
      if (given == nullptr) return nullptr;
      for (std::size_t i = 0; i < count; ++i) {
        Py_INCREF(arguments[i]);
        PyTuple_SET_ITEM(given, static_cast<Py_ssize_t>(i), arguments[i]);
      }
      PyObject* named = PyDict_New();
      for (Py_ssize_t i = 0; names != nullptr && i < PyTuple_GET_SIZE(names); ++i) {
        PyDict_SetItem(named, PyTuple_GET_ITEM(names, i), arguments[count + static_cast<std::size_t>(i)]);
      }
      PyObject* result = PyObject_CallMethod(self->hook, "make", "OOO", value, given, named);
      Py_DECREF(given);
      Py_XDECREF(named);
      return result;
    }
  }
}

PyObject* replay(Component* self, PyObject* const* arguments, std::size_t count, PyObject* names) {
  Sequence* sequence = find_sequence(self);
  if (sequence == nullptr) return nullptr;
  if (sequence->next >= sequence->values.size()) {
    PyObject* none =
        PyObject_CallMethod(self->hook, "exhausted", "n", static_cast<Py_ssize_t>(sequence->next));
    Py_XDECREF(none);
    if (PyErr_Occurred() == nullptr) PyErr_SetString(PyExc_RuntimeError, "more calls than were recorded");
    return nullptr;
  }
  const std::size_t at = sequence->next++;
  if (!self->simulate)
    return hand_out(self, sequence->values[at], sequence->kinds[at], arguments, count, names);
  const Account account = open_account(self, *sequence);
  PyObject* result = hand_out(self, sequence->values[at], sequence->kinds[at], arguments, count, names);
  close_account(self, account);
  return result;
}

std::int64_t voluntary_switches() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

PyObject* measured(Component* self, PyObject* const* arguments, std::size_t flags, PyObject* names) {
  Sequence* sequence = find_sequence(self);
  if (sequence == nullptr) return nullptr;
  const bool brief = sequence->brief;
  const std::int64_t switches = brief ? 0 : voluntary_switches();
  const std::int64_t ready = brief ? 0 : latlab::stub::detail::ready_ns();
  const std::int64_t cpu = brief ? 0 : st::thread_cpu_ns();
  const std::uint64_t start = latlab::ticks();
  PyObject* result = PyObject_Vectorcall(self->function, arguments, flags, names);
  sequence->last = latlab::ticks();
  if (sequence->times.empty()) sequence->first = start;
  const std::int64_t wall = st::ticks_to_duration_ns(sequence->last - start);
  Call call{wall, 0};
  if (!brief) {
    const auto clock = static_cast<std::int64_t>(st::spin_calibration().cpu_clock_ns);
    call.busy_ns = std::max<std::int64_t>(0, std::min(wall, st::thread_cpu_ns() - cpu - clock));
    // A thread that never let go of its CPU did not wait: it was preempted, or the machine was.
    if (wall - call.busy_ns > kShort_ns) {
      const std::int64_t off = wall - call.busy_ns - (latlab::stub::detail::ready_ns() - ready);
      if (voluntary_switches() != switches && off > kShort_ns) call.blocked_ns = off;
      sequence->lost_ns += wall - call.busy_ns - call.blocked_ns;
    }
    if (call.blocked_ns == 0 && wall < kShort_ns) call.busy_ns = wall;
  }
  sequence->brief = wall < kShort_ns;
  sequence->times.push_back(call);
  return result;
}

PyObject* dispatch(PyObject* object, PyObject* const* arguments, std::size_t flags, PyObject* names) {
  auto* self = reinterpret_cast<Component*>(object);
  switch (self->mode) {
    case kOff:
      return PyObject_Vectorcall(self->function, arguments, flags, names);
    case kReplay: {
      ++self->state->calls;
      return replay(self, arguments, static_cast<std::size_t>(PyVectorcall_NARGS(flags)), names);
    }
    case kMeasure:
      ++self->state->calls;
      return measured(self, arguments, flags, names);
    case kDelay:
      ++self->state->calls;
      busy(self, self->delay_ns);
      return PyObject_Vectorcall(self->function, arguments, flags, names);
    default: {
      ++self->state->calls;
      PyObject* slow = PyObject_GetAttrString(self->hook, "slow");
      if (slow == nullptr) return nullptr;
      PyObject* result = PyObject_Vectorcall(slow, arguments, flags & ~PY_VECTORCALL_ARGUMENTS_OFFSET, names);
      Py_DECREF(slow);
      return result;
    }
  }
}

PyObject* call(PyObject* object, PyObject* const* arguments, std::size_t flags, PyObject* names) {
  auto* self = reinterpret_cast<Component*>(object);
  if (!self->marking) return dispatch(object, arguments, flags, names);
  self->state->marks.push_back(latlab::ticks());
  PyObject* result = dispatch(object, arguments, flags, names);
  self->state->marks.push_back(latlab::ticks());
  return result;
}

void clear_values(State& state) {
  for (auto& sequence : state.sequences) {
    for (PyObject* value : sequence.values) Py_XDECREF(value);  // null: it was given away
  }
  state.sequences.clear();
  state.threads.clear();
}

PyObject* make_component(PyTypeObject* type, PyObject* arguments, PyObject*) {
  PyObject* function = nullptr;
  PyObject* hook = nullptr;
  if (PyArg_ParseTuple(arguments, "OO", &function, &hook) == 0) return nullptr;
  auto* self = reinterpret_cast<Component*>(type->tp_alloc(type, 0));
  if (self == nullptr) return nullptr;
  self->vectorcall = call;
  Py_INCREF(function);
  Py_INCREF(hook);
  self->function = function;
  self->hook = hook;
  self->wrapped = PyDict_New();
  self->state = new State();
  self->factor = 1.0;
  return reinterpret_cast<PyObject*>(self);
}

int traverse(PyObject* object, visitproc visit, void* arg) {
  auto* self = reinterpret_cast<Component*>(object);
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->function);
  Py_VISIT(self->hook);
  Py_VISIT(self->wrapped);
  for (auto& sequence : self->state->sequences) {
    for (PyObject* value : sequence.values) Py_VISIT(value);
  }
  return 0;
}

int clear(PyObject* object) {
  auto* self = reinterpret_cast<Component*>(object);
  clear_values(*self->state);
  Py_CLEAR(self->function);
  Py_CLEAR(self->hook);
  Py_CLEAR(self->wrapped);
  return 0;
}

void destroy(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  clear(object);
  delete reinterpret_cast<Component*>(object)->state;
  type->tp_free(object);
  Py_DECREF(type);
}

PyObject* bind_method(PyObject* object, PyObject* instance, PyObject*) {
  if (instance == nullptr || instance == Py_None) {
    Py_INCREF(object);
    return object;
  }
  return PyMethod_New(object, instance);
}

PyObject* set_mode(PyObject* object, PyObject* arguments) {
  auto* self = reinterpret_cast<Component*>(object);
  int mode = 0;
  double factor = 1.0;
  long long delay = 0;
  int idle = 0;
  int released = 0;
  int simulated = 0;
  if (PyArg_ParseTuple(arguments, "idLppp", &mode, &factor, &delay, &idle, &released, &simulated) == 0)
    return nullptr;
  if (mode < kOff || mode > kSlow) {
    PyErr_SetString(PyExc_ValueError, "no such mode");
    return nullptr;
  }
  st::spin_calibration();  // here, and not within the first call
  self->mode = static_cast<std::uint8_t>(mode);
  self->factor = factor;
  self->delay_ns = delay;
  self->idle = idle != 0;
  self->released = released != 0;
  self->simulate = simulated != 0;
  self->state->calls = 0;
  self->state->inside_ticks = 0;
  if (mode == kMeasure) {
    clear_values(*self->state);
    self->cached = nullptr;
  }
  Py_RETURN_NONE;
}

PyObject* set_sequences(PyObject* object, PyObject* list) {
  auto* self = reinterpret_cast<Component*>(object);
  std::deque<Sequence> sequences;
  const nb::list given = nb::borrow<nb::list>(list);
  for (const nb::handle pair : given) {
    Sequence sequence;
    const nb::list values = nb::borrow<nb::list>(pair[0]);
    const nb::bytes kinds = nb::borrow<nb::bytes>(pair[1]);
    for (const nb::handle value : values) sequence.values.push_back(value.ptr());
    sequence.kinds.assign(kinds.c_str(), kinds.c_str() + kinds.size());
    if (sequence.kinds.size() != sequence.values.size()) {
      PyErr_SetString(PyExc_ValueError, "a kind for each value");
      return nullptr;
    }
    sequences.push_back(std::move(sequence));
  }
  for (auto& sequence : sequences) {
    for (PyObject* value : sequence.values) Py_INCREF(value);
  }
  clear_values(*self->state);
  self->state->sequences = std::move(sequences);
  self->cached = nullptr;
  Py_RETURN_NONE;
}

PyObject* set_times(PyObject* object, PyObject* list) {
  auto& sequences = reinterpret_cast<Component*>(object)->state->sequences;
  const nb::list given = nb::borrow<nb::list>(list);
  if (given.size() > sequences.size()) {
    PyErr_SetString(PyExc_ValueError, "times for more threads than there are sequences");
    return nullptr;
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    const nb::bytes rows = nb::borrow<nb::bytes>(given[i]);
    sequences[i].times.resize(rows.size() / sizeof(Call));
    std::memcpy(sequences[i].times.data(), rows.c_str(), sequences[i].times.size() * sizeof(Call));
    sequences[i].next_time = 0;
  }
  Py_RETURN_NONE;
}

PyObject* get_times(PyObject* object, PyObject*) {
  nb::list result;
  for (const Sequence& one : reinterpret_cast<Component*>(object)->state->sequences) {
    result.append(
        nb::bytes(reinterpret_cast<const char*>(one.times.data()), one.times.size() * sizeof(Call)));
  }
  return result.release().ptr();
}

// When each sequence's first measured call began and its last one ended, on CLOCK_MONOTONIC; and the time
// that its calls were kept from running.
PyObject* get_spans(PyObject* object, PyObject*) {
  const latlab::ClockReference now = latlab::clock_reference();
  const auto at = [&](std::uint64_t ticks) {
    return static_cast<std::int64_t>(now.ns) - st::ticks_to_duration_ns(now.ticks - ticks);
  };
  nb::list result;
  for (const Sequence& one : reinterpret_cast<Component*>(object)->state->sequences) {
    result.append(nb::make_tuple(at(one.first), at(one.last), one.lost_ns));
  }
  return result.release().ptr();
}

PyObject* set_study(PyObject* object, PyObject* arguments) {
  auto* self = reinterpret_cast<Component*>(object);
  double work_per_ns = 0.0;
  int marking = 0;
  if (PyArg_ParseTuple(arguments, "dp", &work_per_ns, &marking) == 0) return nullptr;
  self->work_per_ns = work_per_ns;
  self->marking = marking != 0;
  self->state->marks.clear();
  Py_RETURN_NONE;
}

PyObject* get_marks(PyObject* object, PyObject*) {
  const latlab::ClockReference now = latlab::clock_reference();
  std::vector<std::int64_t> found;
  for (const std::uint64_t mark : reinterpret_cast<Component*>(object)->state->marks) {
    found.push_back(static_cast<std::int64_t>(now.ns) - st::ticks_to_duration_ns(now.ticks - mark));
  }
  return nb::bytes(reinterpret_cast<const char*>(found.data()), found.size() * sizeof(std::int64_t))
      .release()
      .ptr();
}

// For a stub that the hook hands out by itself: spend() is told when the call began.
PyObject* get_mark(PyObject*, PyObject*) {
  return PyLong_FromUnsignedLongLong(latlab::ticks());
}

PyObject* spend(PyObject* object, PyObject* mark) {
  auto* self = reinterpret_cast<Component*>(object);
  const std::uint64_t start = PyLong_AsUnsignedLongLong(mark);
  if (PyErr_Occurred() != nullptr) return nullptr;
  if (!self->simulate || self->state->sequences.empty()) Py_RETURN_NONE;
  const auto spent = static_cast<std::int64_t>(latlab::ticks() - start);
  Account account = open_account(self, self->state->sequences.front());
  account.start -= static_cast<std::uint64_t>(spent);
  account.cpu_start_ns -= st::ticks_to_duration_ns(static_cast<std::uint64_t>(spent));
  close_account(self, account);
  Py_RETURN_NONE;
}

PyObject* get_inside(PyObject* object, PyObject*) {
  return PyLong_FromLongLong(
      st::ticks_to_duration_ns(reinterpret_cast<Component*>(object)->state->inside_ticks));
}

PyObject* get_calls(PyObject* object, PyObject*) {
  return PyLong_FromUnsignedLongLong(reinterpret_cast<Component*>(object)->state->calls);
}

PyObject* get_left(PyObject* object, PyObject*) {
  std::size_t left = 0;
  for (const auto& sequence : reinterpret_cast<Component*>(object)->state->sequences) {
    left += sequence.values.size() - sequence.next;
  }
  return PyLong_FromSize_t(left);
}

PyMethodDef kMethods[] = {
    {"set_mode", set_mode, METH_VARARGS, "set_mode(mode, factor, delay_ns, idle, released, simulate)"},
    {"set_study", set_study, METH_VARARGS,
     "set_study(work_per_ns, marking): stubs of so much work (0: until a deadline), and calls that are "
     "marked."},
    {"marks", get_marks, METH_NOARGS, "Begin and end of each call, ns on CLOCK_MONOTONIC as int64."},
    {"set_sequences", set_sequences, METH_O, "Recorded values, one (list, kinds) a thread."},
    {"set_times", set_times, METH_O, "Times to simulate: for each sequence (busy_ns, blocked_ns) as int64."},
    {"times", get_times, METH_NOARGS, "Measured times: for each sequence (busy_ns, blocked_ns) as int64."},
    {"spans", get_spans, METH_NOARGS,
     "For each sequence the begin of its first and the end of its last call, and what was lost, ns."},
    {"mark", get_mark, METH_NOARGS, "The counter at a call's entry, for spend()."},
    {"spend", spend, METH_O, "Simulate the time of a call that began at a mark."},
    {"inside", get_inside, METH_NOARGS, "ns spent within the stub where it simulated no time."},
    {"calls", get_calls, METH_NOARGS, "Calls since the mode was set."},
    {"left", get_left, METH_NOARGS, "Recorded values that were not handed out."},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef kMembers[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Component, vectorcall), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(Component, wrapped), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyGetSetDef kProperties[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot kSlots[] = {
    {Py_tp_new, reinterpret_cast<void*>(make_component)},
    {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(clear)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_descr_get, reinterpret_cast<void*>(bind_method)},
    {Py_tp_methods, kMethods},
    {Py_tp_members, kMembers},
    {Py_tp_getset, kProperties},
    {0, nullptr},
};

PyType_Spec kSpec = {
    "latlab._core.stubs_replay.Component", sizeof(Component), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    kSlots};

}  // namespace

NB_MODULE(stubs_replay, m) {
  m.doc() = "The callable that stands in for a component: the original, or recorded results at C speed.";
  PyObject* type = PyType_FromSpec(&kSpec);
  if (type == nullptr) nb::raise_python_error();
  m.attr("Component") = nb::steal(type);
}
