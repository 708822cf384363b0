// Threads: a Component is used under the GIL, like every Python object.
//
// Over 400 lines: one type with its methods, each of a few lines.
//
// The callable that stands in for a component: it calls the original, or hands out recorded results at the
// speed of a C function. It is a type of its own, and not a bound function, since a call through nanobind
// costs more than the whole budget of a replayed immutable (60 ns); and it stands here and not in the core,
// since nearly all that it does is done to Python objects.
#include <nanobind/nanobind.h>
#include <structmember.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <latlab/clock.hpp>
#include <latlab/stub_trace.hpp>
#include <utility>
#include <vector>

#include "stubs/spin.hpp"
#include "stubs_component.hpp"
#include "stubs_signal.hpp"

namespace nb = nanobind;
namespace st = latlab::stubs;

namespace {

using namespace latlab::stubs::python;  // NOLINT(google-build-using-namespace): this file is its only user

void clear_values(State& state) {
  for (auto& sequence : state.sequences) {
    for (PyObject* value : sequence.values) Py_XDECREF(value);  // null: it was given away
  }
  state.sequences.clear();
  state.threads.clear();
  state.harmless = 0;
  ++state.cleared;
}

PyObject* make_component(PyTypeObject* type, PyObject* arguments, PyObject*) {
  PyObject* function = nullptr;
  PyObject* hook = nullptr;
  if (PyArg_ParseTuple(arguments, "OO", &function, &hook) == 0) return nullptr;
  auto* self = reinterpret_cast<Component*>(PyType_GenericAlloc(type, 0));
  if (self == nullptr) return nullptr;
  self->vectorcall = call;
  Py_INCREF(function);
  Py_INCREF(hook);
  self->function = function;
  self->hook = hook;
  self->wrapped = PyDict_New();
  self->state = new State();
  self->policy = {};
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
  PyObject_GC_Del(object);
  Py_DECREF(type);
}

PyObject* bind_method(PyObject* object, PyObject* instance, PyObject*) {
  if (instance == nullptr || instance == Py_None) {
    Py_INCREF(object);
    return object;
  }
  // As PyMethod_New, which the stable ABI lacks. Calls of methods don't come here
  // (Py_TPFLAGS_METHOD_DESCRIPTOR).
  static PyObject* const method =
      nb::object(nb::module_::import_("types").attr("MethodType")).release().ptr();
  return PyObject_CallFunctionObjArgs(method, object, instance, nullptr);
}

// What the component hasn't itself (__defaults__, cache_info, a function's own members) is its function's.
PyObject* get_attribute(PyObject* object, PyObject* name) {
  PyObject* found = PyObject_GenericGetAttr(object, name);
  auto* self = reinterpret_cast<Component*>(object);
  if (found != nullptr || self->function == nullptr || PyErr_ExceptionMatches(PyExc_AttributeError) == 0)
    return found;
  PyErr_Clear();
  return PyObject_GetAttr(self->function, name);
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
  if (mode < kOff || mode > kRecord) {
    PyErr_SetString(PyExc_ValueError, "no such mode");
    return nullptr;
  }
  st::spin_calibration();  // here, and not within the first call
  self->mode = static_cast<std::uint8_t>(mode);
  self->policy.factor = factor;
  self->delay_ns = delay;
  self->policy.idle = idle != 0;
  self->released = released != 0;
  self->simulate = simulated != 0;
  self->state->calls = 0;
  self->state->inside_ns = 0;
  if (mode == kMeasure || mode == kRecord) {
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

template <std::vector<Call> Sequence::* kWhich>
PyObject* get_calls(PyObject* object, PyObject*) {
  nb::list result;
  for (const Sequence& one : reinterpret_cast<Component*>(object)->state->sequences) {
    const std::vector<Call>& calls = one.*kWhich;
    result.append(nb::bytes(reinterpret_cast<const char*>(calls.data()), calls.size() * sizeof(Call)));
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

PyObject* get_call_spans(PyObject* object, PyObject*) {
  const latlab::ClockReference now = latlab::clock_reference();
  const auto at = [&](std::uint64_t ticks) {
    return static_cast<std::int64_t>(now.ns) - st::ticks_to_duration_ns(now.ticks - ticks);
  };
  std::vector<std::int64_t> found;
  std::int64_t number = 0;
  for (const Sequence& one : reinterpret_cast<Component*>(object)->state->sequences) {
    for (const auto& [begin, end] : one.spans) {
      found.insert(found.end(), {number, one.tid, at(begin), at(end)});
    }
    ++number;
  }
  return nb::bytes(reinterpret_cast<const char*>(found.data()), found.size() * sizeof(std::int64_t))
      .release()
      .ptr();
}

PyObject* set_study(PyObject* object, PyObject* arguments) {
  auto* self = reinterpret_cast<Component*>(object);
  double work_per_ns = 0.0;
  double wait = 1.0;
  int marking = 0;
  int opening = 0;
  int timing = 0;
  long period = 0;
  if (PyArg_ParseTuple(arguments, "ddpppl", &work_per_ns, &wait, &marking, &opening, &timing, &period) == 0) {
    return nullptr;
  }
  self->policy.period = period;
  self->policy.wait = wait;
  self->policy.work_per_ns = work_per_ns;
  self->marking = marking != 0;
  self->opening = opening != 0;
  self->timing = timing != 0;
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
  Host host{self, self->state->sequences.front()};
  StubCall call(host, self->policy, start);
  self->state->inside_ns += call.close();
  Py_RETURN_NONE;
}

// Which calls a recording looks at: after `quiet` of them, where a call reaches something.
PyObject* set_looks(PyObject* object, PyObject* arguments) {
  State& state = *reinterpret_cast<Component*>(object)->state;
  unsigned long long quiet = 0;
  int reaches = 0;
  if (PyArg_ParseTuple(arguments, "Kp", &quiet, &reaches) == 0) return nullptr;
  state.quiet = quiet;
  state.reaches = reaches != 0;
  Py_RETURN_NONE;
}

// What a thread has kept and not written: (bytes, values, the first one's number, the number after them).
// `reserved` numbers after them are the caller's.
PyObject* take(PyObject* object, PyObject* arguments) {
  State& state = *reinterpret_cast<Component*>(object)->state;
  unsigned long thread = 0;
  unsigned long reserved = 0;
  if (PyArg_ParseTuple(arguments, "kk", &thread, &reserved) == 0) return nullptr;
  if (thread >= state.sequences.size()) state.sequences.resize(thread + 1);
  Kept& kept = state.sequences[thread].kept;
  const std::uint64_t after = kept.next;
  nb::object result =
      nb::make_tuple(nb::bytes(kept.bytes.data(), kept.used), kept.count, after - kept.count, after);
  kept.next += reserved;
  kept.used = 0;
  kept.count = 0;
  return result.release().ptr();
}

PyObject* get_harmless(PyObject* object, PyObject*) {
  return PyLong_FromUnsignedLongLong(reinterpret_cast<Component*>(object)->state->harmless);
}

PyObject* get_inside(PyObject* object, PyObject*) {
  return PyLong_FromLongLong(reinterpret_cast<Component*>(object)->state->inside_ns);
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
    // Named so that they hide no attribute of the function: `step.calls += 1` is a common way to count.
    {"latlab_set_mode", set_mode, METH_VARARGS, "set_mode(mode, factor, delay_ns, idle, released, simulate)"},
    {"latlab_set_study", set_study, METH_VARARGS,
     "set_study(work_per_ns, wait, marking, opening, timing, period): stubs of so much work (0: until a "
     "deadline) and such a part of the waits, whether all calls are marked or the begin of the first, "
     "whether stubs are measured, and the working "
     "period that the factor is of (0: all)."},
    {"latlab_marks", get_marks, METH_NOARGS,
     "Begin and end of each call, or the begin of the first one, ns on CLOCK_MONOTONIC as int64."},
    {"latlab_set_sequences", set_sequences, METH_O, "Recorded values, one (list, kinds) a thread."},
    {"latlab_set_times", set_times, METH_O,
     "Times to simulate: for each sequence (busy_ns, blocked_ns) as int64; see plan.py."},
    {"latlab_times", get_calls<&Sequence::times>, METH_NOARGS,
     "Measured times: for each sequence (busy_ns, blocked_ns) as int64."},
    {"latlab_spent", get_calls<&Sequence::spent>, METH_NOARGS,
     "What stubs took, where that was measured: as times()."},
    {"latlab_call_spans", get_call_spans, METH_NOARGS,
     "Of each measured call: sequence, thread id, begin and end in ns on CLOCK_MONOTONIC, as int64."},
    {"latlab_spans", get_spans, METH_NOARGS,
     "For each sequence the begin of its first and the end of its last call, and what was lost, ns."},
    {"latlab_mark", get_mark, METH_NOARGS, "The counter at a call's entry, for spend()."},
    {"latlab_spend", spend, METH_O, "Simulate the time of a call that began at a mark."},
    {"latlab_set_looks", set_looks, METH_VARARGS,
     "set_looks(quiet, reaches): a recording looks at calls after the first `quiet`, where `reaches`."},
    {"latlab_take", take, METH_VARARGS,
     "take(thread, reserved): what it kept and is not written: (bytes, values, first number, next number)."},
    {"latlab_harmless", get_harmless, METH_NOARGS, "Recorded calls that could change nothing."},
    {"latlab_inside", get_inside, METH_NOARGS, "ns spent within the stub where it simulated no time."},
    {"latlab_calls", get_calls, METH_NOARGS, "Calls since the mode was set."},
    {"latlab_left", get_left, METH_NOARGS, "Recorded values that were not handed out."},
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
    {Py_tp_getattro, reinterpret_cast<void*>(get_attribute)},
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

nb::list plain_values(const nb::bytes& data, std::uint64_t count) {
  if (count > data.size()) throw nb::value_error("more plain values than bytes");
  PlainReader reader(data.c_str(), data.size());
  nb::list found;
  for (std::uint64_t i = 0; i < count; ++i) {
    PyObject* one = reader.next();
    if (one == nullptr) throw nb::python_error();
    found.append(nb::steal(one));
  }
  if (!reader.done()) throw nb::value_error("plain values with something left over");
  return found;
}

bool set_recording(bool inside) {
  return std::exchange(recording_inside(), inside);
}

}  // namespace

NB_MODULE(stubs_replay, m) {
  m.doc() = "The callable that stands in for a component: the original, or recorded results at C speed.";
  PyObject* type = PyType_FromSpec(&kSpec);
  if (type == nullptr) nb::raise_python_error();
  m.attr("Component") = nb::steal(type);
  m.def("insist", &insist, nb::arg("number"),
        "Let a signal come again until its function in Python has run and set another handler.");
  m.def("plain_values", &plain_values, nb::arg("data"), nb::arg("count"),
        nb::sig("def plain_values(data: bytes, count: int) -> list[object]"),
        "The values of an entry of plain values; ValueError where it is damaged.");
  m.def("set_recording", &set_recording, nb::arg("inside"),
        "Whether this thread is within a component that is recorded; as it was before.");
  // The layout of files that C++ and Python share, from the headers that define it.
  m.attr("PLAN_HEAD") = nb::str(engine::kPlanHead.data(), engine::kPlanHead.size());
  m.attr("TIMES_HEAD_FORMAT") = engine::kTimesHeadFormat;
  m.attr("CALL_TIME_BYTES") = sizeof(Call);
  m.attr("TRACE_HEAD_FORMAT") = engine::kHeadFormat;
  m.attr("TRACE_FILE_HEAD_FORMAT") = engine::kFileHeadFormat;
}
