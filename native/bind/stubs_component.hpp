// Threads: a Component is used under the GIL, like every Python object.
//
// What stands behind a component's callable, and what a call of it does: the original, measured or delayed,
// or a recorded result at the speed of a C function. The type that Python sees is made in stubs_replay.cpp.
#pragma once

#include <Python.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <latlab/clock.hpp>
#include <latlab/stub_engine.hpp>
#include <latlab/stub_work.hpp>
#include <utility>
#include <vector>

#include "stubs/sleep.hpp"
#include "stubs/spin.hpp"
#include "stubs_recording.hpp"

namespace latlab::stubs::python {

namespace st = latlab::stubs;
namespace engine = latlab::stub::detail;

enum Mode : std::uint8_t { kOff, kMeasure, kDelay, kReplay, kSlow, kRecord };
// Shared: the same object may be handed out to everybody. Given: made when the trace was loaded, and handed
// out once; it is the caller's from then on. Made: by the hook, when it is asked for.
enum Kind : std::uint8_t { kShare, kGive, kMake };
// How long a busy stub holds the GIL before it offers it, as the interpreter does between two instructions.
constexpr std::int64_t kGilTurn_ns = 200'000;
using Call = engine::CallTime;

// Of one thread.
struct Sequence {
  std::vector<PyObject*> values;
  std::vector<std::uint8_t> kinds;
  std::size_t next = 0;
  std::vector<Call> times;  // measured, or to be simulated
  std::size_t next_time = 0;
  std::vector<Call> spent;  // by a stub's calls, where they are measured
  bool brief = false;       // the last measured call was short
  bool inside = false;      // a measured call goes on: one within it is part of it
  std::uint64_t first = 0;  // counter at the begin of the first measured call, and at the end of the last
  std::uint64_t last = 0;
  std::int64_t lost_ns = 0;  // within calls: ready without a CPU, or taken by the machine
  std::vector<std::pair<std::uint64_t, std::uint64_t>> spans;  // counter at begin and end of measured calls
  pid_t tid = 0;                                               // of the thread that was measured
  Kept kept;                                                   // of a recording
};

struct State {
  std::deque<Sequence> sequences;  // grows while calls are inside: references must stay good
  std::vector<std::pair<std::uint64_t, std::size_t>> threads;  // id of a thread state -> its sequence
  std::uint64_t calls = 0;
  std::int64_t inside_ns = 0;        // within a stub without time: what its function costs
  std::vector<std::uint64_t> marks;  // begin and end of each call
  bool marked = false;               // a marked call goes on: one within it is part of it
  std::uint64_t quiet = 0;           // calls up to this one are recorded without a look at what they change
  std::uint64_t harmless = 0;        // calls that could change nothing
  std::uint64_t cleared = 0;         // how often the sequences were
  bool reaches = true;               // a call may change something besides its arguments
};

struct Component {
  PyObject_HEAD;
  vectorcallfunc vectorcall;
  PyObject* function;
  PyObject* hook;     // called for what this file doesn't do itself; see hook.py
  PyObject* wrapped;  // __dict__: __wrapped__, __name__ and the like
  State* state;
  engine::Policy policy;
  std::int64_t delay_ns;
  std::uint64_t cached_thread;
  Sequence* cached;
  std::uint8_t mode;
  bool released;  // the component works without the GIL
  bool simulate;
  bool marking;  // keep when each call began and ended: of programs with one thread
  bool opening;  // keep when the first call began
  bool timing;   // measure what each call of a stub takes
};

inline void sleep_released(std::int64_t ns) {
  if (ns <= 0) return;
  PyThreadState* saved = PyEval_SaveThread();
  st::thread_sleeper().sleep(ns, st::SleepMode::kCorrected);
  PyEval_RestoreThread(saved);
}

// Until the thread's CPU clock reads `end`, as Python code would be busy: with the GIL, and offering it.
inline void busy_until_cpu(const Component* self, std::int64_t end) {
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
    Py_XDECREF(PyObject_CallMethodObjArgs(self->hook, breathe, nullptr));
  }
  st::spin_cpu_until(end);
}

// As busy_until_cpu, by the work that was done and not by a clock.
inline void work_for(const Component* self, std::int64_t ns, double per_ns) {
  const auto iterations = [per_ns](std::int64_t part) {
    return static_cast<std::uint64_t>(static_cast<double>(part) * per_ns);
  };
  if (self->released) {
    PyThreadState* saved = PyEval_SaveThread();
    engine::work(iterations(ns));
    PyEval_RestoreThread(saved);
    return;
  }
  static PyObject* breathe = PyUnicode_InternFromString("breathe");
  for (; ns > kGilTurn_ns; ns -= kGilTurn_ns) {
    engine::work(iterations(kGilTurn_ns));
    Py_XDECREF(PyObject_CallMethodObjArgs(self->hook, breathe, nullptr));
  }
  engine::work(iterations(ns));
}

inline std::uint64_t to_ticks(std::int64_t ns) {
  return static_cast<std::uint64_t>(static_cast<double>(ns) * st::spin_calibration().ticks_per_ns);
}

inline void busy(const Component* self, std::int64_t ns) {
  if (ns <= 0) return;
  if (ns > engine::kShort_ns) {
    busy_until_cpu(self, st::thread_cpu_ns() + ns);
  } else {
    st::spin_until_tick(latlab::ticks() + to_ticks(ns));
  }
}

// How the engine reads clocks, works and waits in a Python program.
struct Host {
  using Stamp = std::uint64_t;  // of the counter
  const Component* self;
  Sequence& sequence;
  static Stamp now() { return latlab::ticks(); }
  static Stamp resumed(Stamp) { return now(); }
  static std::int64_t between(Stamp begin, Stamp end) { return st::ticks_to_duration_ns(end - begin); }
  static std::int64_t cpu_ns() { return st::thread_cpu_ns(); }
  static std::int64_t now_cost_ns() { return 0; }
  static std::int64_t cpu_cost_ns() { return static_cast<std::int64_t>(st::spin_calibration().cpu_clock_ns); }
  Call next_row() {
    return sequence.times.empty() ? Call{} : sequence.times[sequence.next_time++ % sequence.times.size()];
  }
  static void sleep(std::int64_t ns) { sleep_released(ns); }
  static void spin_since(Stamp begin, std::int64_t ns) { st::spin_until_tick(begin + to_ticks(ns)); }
  void spin_cpu_until(std::int64_t end) const { busy_until_cpu(self, end); }
  void work(std::int64_t ns, double per_ns) const { work_for(self, ns, per_ns); }
};
static_assert(engine::StubHost<Host>);
using StubCall = engine::StubCall<Host>;

inline Sequence* find_sequence(Component* self) {
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
  if ((self->mode == kMeasure || self->mode == kRecord) && index >= state.sequences.size())
    state.sequences.resize(index + 1);
  if (index >= state.sequences.size()) {
    PyErr_SetString(PyExc_IndexError, "no such sequence");
    return nullptr;
  }
  if (self->mode == kRecord) {
    PyObject* slowly = PyObject_CallMethod(self->hook, "keeps_by_arguments", nullptr);
    if (slowly == nullptr) return nullptr;
    state.sequences[index].kept.slowly = slowly == Py_True;
    Py_DECREF(slowly);
  }
  state.threads.emplace_back(thread, index);
  self->cached_thread = thread;
  return self->cached = &state.sequences[index];
}

inline PyObject* hand_out(Component* self, PyObject*& value, std::uint8_t kind, PyObject* const* arguments,
                          std::size_t count, PyObject* names) {
  switch (kind) {
    case kShare:
      Py_INCREF(value);
      return value;
    case kGive:
      return std::exchange(value, nullptr);
    default: {
      const Arguments all(arguments, count, names);
      if (!all.made()) return nullptr;
      return PyObject_CallMethod(self->hook, "make", "OOO", value, all.given, all.named);
    }
  }
}

inline PyObject* replay(Component* self, Sequence* sequence, PyObject* const* arguments, std::size_t count,
                        PyObject* names) {
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
  Host host{self, *sequence};
  StubCall call(host, self->policy, Host::now());
  PyObject* result = hand_out(self, sequence->values[at], sequence->kinds[at], arguments, count, names);
  self->state->inside_ns += call.close();
  return result;
}

// What a call takes, added to `calls`. One that is made within it is part of it.
template <class Function>
PyObject* measured(Sequence* sequence, std::vector<Call>& calls, Function&& function) {
  if (sequence->inside) return function();
  engine::CallClock<Host> clock(sequence->brief);
  sequence->inside = true;
  PyObject* result = function();
  sequence->inside = false;
  const engine::Timed found = clock.stop();
  sequence->last = clock.end();
  if (calls.empty()) sequence->first = clock.begin();
  sequence->lost_ns += found.lost_ns;
  sequence->brief = found.brief;
  calls.push_back(found.call);
  if (sequence->tid == 0) sequence->tid = static_cast<pid_t>(syscall(SYS_gettid));
  sequence->spans.emplace_back(clock.begin(), sequence->last);
  return result;
}

// By the hook: whatever isn't done at the speed of C.
inline PyObject* slowly(Component* self, PyObject* const* arguments, std::size_t flags, PyObject* names) {
  PyObject* slow = PyObject_GetAttrString(self->hook, "slow");
  if (slow == nullptr) return nullptr;
  PyObject* result = PyObject_Vectorcall(slow, arguments, flags & ~PY_VECTORCALL_ARGUMENTS_OFFSET, names);
  Py_DECREF(slow);
  return result;
}

// A thread's call of a component is recorded: those that are made within it are part of it.
inline bool& recording_inside() {
  static thread_local bool inside = false;
  return inside;
}

// An exception or a result that is no plain data, kept by the hook; the call goes on as it would have.
inline PyObject* keep_slowly(Component* self, PyObject* result, const Arguments& all) {
  PyObject* kind = nullptr;
  PyObject* raised = nullptr;
  PyObject* trace = nullptr;
  if (result == nullptr) {
    PyErr_Fetch(&kind, &raised, &trace);
    PyErr_NormalizeException(&kind, &raised, &trace);
    if (trace != nullptr) PyException_SetTraceback(raised, trace);
  }
  PyObject* kept = all.made() ? PyObject_CallMethod(self->hook, "keep", "OOOO", all.given, all.named,
                                                    result != nullptr ? result : Py_None,
                                                    raised != nullptr ? raised : Py_None)
                              : nullptr;
  if (kept == nullptr) {
    Py_XDECREF(result);
    Py_XDECREF(kind);
    Py_XDECREF(raised);
    Py_XDECREF(trace);
    return nullptr;
  }
  Py_DECREF(kept);
  if (result == nullptr) PyErr_Restore(kind, raised, trace);
  return result;
}

inline PyObject* record(Component* self, PyObject* const* arguments, std::size_t flags, PyObject* names) {
  bool& inside = recording_inside();
  if (inside) return PyObject_Vectorcall(self->function, arguments, flags, names);
  State& state = *self->state;
  Sequence* sequence = find_sequence(self);
  if (sequence == nullptr) return nullptr;
  ++state.calls;
  const auto count = static_cast<std::size_t>(PyVectorcall_NARGS(flags));
  if (sequence->kept.slowly) return slowly(self, arguments, flags, names);
  if (state.calls > state.quiet) {
    const std::size_t all = count + static_cast<std::size_t>(names == nullptr ? 0 : PyTuple_Size(names));
    if (state.reaches || !are_plain(arguments, all)) return slowly(self, arguments, flags, names);
    ++state.harmless;
  }
  const std::uint64_t cleared = state.cleared;
  inside = true;
  PyObject* result = PyObject_Vectorcall(self->function, arguments, flags, names);
  inside = false;
  if (state.cleared != cleared) return result;  // the recording has ended meanwhile
  Kept& kept = sequence->kept;
  if (result != nullptr && put_plain(kept, result)) [[likely]] {
    ++kept.count;
    ++kept.next;
  } else {
    // What ends the program is no result.
    if (result == nullptr && PyErr_ExceptionMatches(PyExc_Exception) == 0 &&
        PyErr_ExceptionMatches(PyExc_SystemExit) == 0)
      return nullptr;
    return keep_slowly(self, result, Arguments(arguments, count, names));
  }
  if (kept.used < kChunk_bytes) return result;
  PyObject* written = PyObject_CallMethod(self->hook, "write_kept", nullptr);
  if (written == nullptr) Py_CLEAR(result);
  Py_XDECREF(written);
  return result;
}

inline PyObject* dispatch(PyObject* object, PyObject* const* arguments, std::size_t flags, PyObject* names) {
  auto* self = reinterpret_cast<Component*>(object);
  switch (self->mode) {
    case kOff:
      return PyObject_Vectorcall(self->function, arguments, flags, names);
    case kReplay: {
      ++self->state->calls;
      Sequence* sequence = find_sequence(self);
      if (sequence == nullptr) return nullptr;
      const auto function = [&] {
        return replay(self, sequence, arguments, static_cast<std::size_t>(PyVectorcall_NARGS(flags)), names);
      };
      return self->timing ? measured(sequence, sequence->spent, function) : function();
    }
    case kMeasure: {
      ++self->state->calls;
      Sequence* sequence = find_sequence(self);
      if (sequence == nullptr) return nullptr;
      return measured(sequence, sequence->times,
                      [&] { return PyObject_Vectorcall(self->function, arguments, flags, names); });
    }
    case kDelay: {
      // Once for a call and those that it makes of itself, which are measured as one.
      static thread_local const Component* delayed = nullptr;
      if (delayed == self) return PyObject_Vectorcall(self->function, arguments, flags, names);
      ++self->state->calls;
      busy(self, self->delay_ns);
      const Component* before = std::exchange(delayed, self);
      PyObject* result = PyObject_Vectorcall(self->function, arguments, flags, names);
      delayed = before;
      return result;
    }
    case kRecord:
      return record(self, arguments, flags, names);
    default:
      ++self->state->calls;
      return slowly(self, arguments, flags, names);
  }
}

inline PyObject* call(PyObject* object, PyObject* const* arguments, std::size_t flags, PyObject* names) {
  auto* self = reinterpret_cast<Component*>(object);
  if (self->opening && self->state->marks.empty()) self->state->marks.push_back(latlab::ticks());
  if (!self->marking || self->state->marked) return dispatch(object, arguments, flags, names);
  self->state->marked = true;
  self->state->marks.push_back(latlab::ticks());
  PyObject* result = dispatch(object, arguments, flags, names);
  self->state->marks.push_back(latlab::ticks());
  self->state->marked = false;
  return result;
}

}  // namespace latlab::stubs::python
