#include <nanobind/nanobind.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <sys/mman.h>
#include <latlab/bench_loop.hpp>
#include <latlab/bench_runner.hpp>

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#if defined(Py_LIMITED_API)
// No part of the stable ABI, and the same from CPython 3.5 to 3.14 (`kNewestKnown`): of a later one no
// allocations are counted.
extern "C" {
struct PyMemAllocatorEx {
  void* ctx;
  void* (*malloc)(void* ctx, std::size_t size);
  void* (*calloc)(void* ctx, std::size_t number, std::size_t size);
  void* (*realloc)(void* ctx, void* old, std::size_t size);
  void (*free)(void* ctx, void* old);
};
enum PyMemAllocatorDomain { PYMEM_DOMAIN_RAW, PYMEM_DOMAIN_MEM, PYMEM_DOMAIN_OBJ };
[[gnu::weak]] void PyMem_GetAllocator(PyMemAllocatorDomain domain, PyMemAllocatorEx* allocator);
[[gnu::weak]] void PyMem_SetAllocator(PyMemAllocatorDomain domain, PyMemAllocatorEx* allocator);
}
#endif

namespace nb = nanobind;
namespace bench = latlab::bench;
using namespace nb::literals;

namespace {

// One call without arguments, by vectorcall: no tuple, no keyword dictionary.
class Call {
 public:
  Call(nb::handle target, bool counted) : target_(target.ptr()), counted_(counted) {}

  // False where the call raised, or returned something else than before.
  bool operator()() {
    PyObject* const result = PyObject_Vectorcall(target_, nullptr, 0, nullptr);
    if (result == nullptr) return false;
    if (counted_ && result != last_) {
      if (!check(result)) {
        Py_DECREF(result);
        return false;
      }
    }
    Py_DECREF(result);
    return true;
  }
  bool times(std::uint64_t batch) {
    for (std::uint64_t i = 0; i < batch; ++i) {
      if (!(*this)()) return false;
    }
    return true;
  }
  [[nodiscard]] bool even() const { return even_; }
  [[nodiscard]] long long operations() const { return operations_ < 0 ? 1 : operations_; }

 private:
  // The same small integer or None is the same object, so this is seldom reached. `last_` is only compared
  // with, and only kept where the object is immortal or held by the caller's code.
  bool check(PyObject* result) {
    long long operations = 1;
    if (result != Py_None) {
      operations = PyLong_AsLongLong(result);
      if (operations == -1 && PyErr_Occurred() != nullptr) return false;
      if (operations < 1) {
        PyErr_SetString(PyExc_ValueError, "run() must return a number of operations above 0, or None");
        return false;
      }
    }
    if (operations_ >= 0 && operations != operations_) {
      even_ = false;
      return false;
    }
    operations_ = operations;
    if (result == Py_None || operations < 256) last_ = result;
    return true;
  }

  PyObject* target_;
  bool counted_;
  bool even_ = true;
  PyObject* last_ = nullptr;
  long long operations_ = -1;
};

// Counts what the interpreter's allocators for objects and memory are asked for, while it lives.
class Allocations {
 public:
  Allocations() {
    if (!known_) return;
    for (Hook& hook : hooks_) {
      PyMem_GetAllocator(hook.domain, &hook.inner);
      PyMemAllocatorEx counting{&hook, &allocate, &allocate_zeroed, &reallocate, &release};
      PyMem_SetAllocator(hook.domain, &counting);
    }
  }
  ~Allocations() {
    if (!known_) return;
    for (Hook& hook : hooks_) PyMem_SetAllocator(hook.domain, &hook.inner);
  }
  Allocations(const Allocations&) = delete;
  Allocations& operator=(const Allocations&) = delete;

  [[nodiscard]] bench::Costs with(bench::Costs out) const noexcept {
    if (!known_) return out;
    out[static_cast<std::size_t>(bench::Cost::allocations)] = static_cast<double>(count_);
    out[static_cast<std::size_t>(bench::Cost::allocated_bytes)] = static_cast<double>(bytes_);
    return out;
  }

 private:
  struct Hook {
    Allocations* owner;
    PyMemAllocatorDomain domain;
    PyMemAllocatorEx inner;
  };
  static Hook& noted(void* context, std::size_t size) noexcept {
    Hook& hook = *static_cast<Hook*>(context);
    ++hook.owner->count_;
    hook.owner->bytes_ += size;
    return hook;
  }
  static void* allocate(void* context, std::size_t size) {
    const Hook& hook = noted(context, size);
    return hook.inner.malloc(hook.inner.ctx, size);
  }
  static void* allocate_zeroed(void* context, std::size_t number, std::size_t size) {
    const Hook& hook = noted(context, number * size);
    return hook.inner.calloc(hook.inner.ctx, number, size);
  }
  static void* reallocate(void* context, void* old, std::size_t size) {
    const Hook& hook = noted(context, size);
    return hook.inner.realloc(hook.inner.ctx, old, size);
  }
  static void release(void* context, void* old) {
    const Hook& hook = *static_cast<Hook*>(context);
    hook.inner.free(hook.inner.ctx, old);
  }

#if defined(Py_LIMITED_API)
  static constexpr unsigned long kNewestKnown = 0x030E;
  const bool known_ = Py_Version >> 16 <= kNewestKnown&& PyMem_SetAllocator != nullptr;
#else
  static constexpr bool known_ = true;
#endif
  std::uint64_t count_ = 0;
  std::uint64_t bytes_ = 0;
  Hook hooks_[2] = {{this, PYMEM_DOMAIN_MEM, {}}, {this, PYMEM_DOMAIN_OBJ, {}}};
};

bool call_unless_none(nb::handle what) {
  if (what.is_none()) return true;
  PyObject* const result = PyObject_Vectorcall(what.ptr(), nullptr, 0, nullptr);
  Py_XDECREF(result);
  return result != nullptr;
}

// The costs of this many calls, set-up and tear-down left out.
std::vector<double> count(nb::callable run, std::uint64_t calls, nb::object set_up, nb::object tear_down) {
  const bool prepares = !set_up.is_none() || !tear_down.is_none();
  Call call(run, false);
  bench::Costs sum{};
  bool good = call_unless_none(set_up) && call() && call_unless_none(tear_down);
  {
    const bench::CostReader reader;
    const Allocations allocations;
    const std::uint64_t group = prepares ? 1 : calls;
    for (std::uint64_t done = 0; done < calls && good; done += group) {
      good = call_unless_none(set_up);
      const bench::Costs before = allocations.with(reader.now());
      good = good && call.times(group);
      bench::add_difference(sum, before, allocations.with(reader.now()));
      good = good && call_unless_none(tear_down);
    }
  }
  if (!good) throw nb::python_error();
  return {sum.begin(), sum.end()};
}

nb::object measure(nb::callable run, std::size_t iterations, std::size_t warmup, std::uint64_t batch,
                   bool counted, nb::object set_up, nb::object tear_down,
                   std::tuple<int, bool, std::size_t, std::size_t> taking_turns, bool cold) {
  const auto [peer, first, length, unmeasured] = taking_turns;
  const bench::Turns turns{peer, first, length, unmeasured};
  const bench::ClockGrain grain = bench::clock_grain();
  Call call(run, counted);
  const bool prepares = !set_up.is_none() || !tear_down.is_none() || cold;
  std::vector<bench::Evictor> evictor(cold ? 1 : 0);
  const auto made_ready = [&] {
    const bool made = call_unless_none(set_up);
    for (bench::Evictor& evict : evictor) evict();
    return made;
  };
  std::vector<std::uint64_t> out(iterations, 0);
  bool good = true;
  const auto once = [&](std::uint64_t runs) {
    good = good && made_ready() && call.times(runs) && call_unless_none(tear_down);
  };
  if (prepares) batch = 1;
  once(1);
  if (batch == 0 && good) {
    struct Failed {};
    try {
      batch = bench::find_batch(
          [&](std::uint64_t runs) {
            once(runs);
            if (!good) throw Failed{};  // or a call that fails would be taken for a short one
          },
          grain.quantum_ticks);
    } catch (const Failed&) {
      batch = 1;
    }
  }
  for (std::size_t i = 0; i < warmup && good; ++i) once(batch);
  const latlab::ClockReference begin = latlab::clock_reference();
  const std::size_t each = bench::singles_of(batch, iterations);
  std::vector<std::uint64_t> singles(each * iterations, 0);
  std::size_t single = 0;
  const auto measured = [&](std::uint64_t* to, std::size_t count) {
    if (prepares) {
      return bench::measure_with_setup(
          to, count, made_ready, [&](std::size_t) { return call(); },
          [&] { return call_unless_none(tear_down); });
    }
    if (batch == 1) return bench::measure_back_to_back(to, count, [&](std::size_t) { return call(); });
    return bench::measure_back_to_back(to, count, [&](std::size_t) { return call.times(batch); });
  };
  const auto part = [&](std::uint64_t* to, std::size_t count) {
    if (!good) return std::size_t{0};  // after an exception Python must not be called
    const std::size_t done = measured(to, count);
    if (done < count) return done;  // likewise
    for (std::size_t i = 0; i < each * done; ++i) {
      const std::uint64_t from = bench::stamp();
      if (!call()) return std::size_t{0};
      singles[single++] = bench::stamp() - from;
    }
    return done;
  };
  std::size_t finished = 0;
  if (good) {
    finished = bench::measure_in_turns(turns, out.data(), iterations, [&] { once(batch); }, part);
  }
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  latlab::ClockReference end = latlab::clock_reference();
  const std::uint64_t measuring_ns = end.ns - begin.ns;
  while (end.ns - begin.ns < 200'000) end = latlab::clock_reference();
  return nb::make_tuple(nb::bytes(out.data(), finished * sizeof(std::uint64_t)), call.even(), batch,
                        call.operations(), latlab::ticks_hz(begin, end), grain.quantum_ticks,
                        grain.read_ticks, measuring_ns,
                        nb::bytes(singles.data(), single * sizeof(std::uint64_t)));
}

}  // namespace

NB_MODULE(bench, m) {
  m.doc() = "The measuring loop for Python callables.";
  m.def(
      "measure", &measure,
      nb::sig("def measure(run: typing.Callable[[], object], iterations: int, warmup: int, batch: int, "
              "counted: bool, "
              "set_up: typing.Callable[[], object] | None = None, "
              "tear_down: typing.Callable[[], object] | None = None, "
              "turns: tuple[int, bool, int, int] = (-1, False, 0, 0), cold: bool = False) -> tuple[bytes, "
              "bool, int, int, "
              "float, int, float, int, bytes]"),
      "run"_a, "iterations"_a, "warmup"_a, "batch"_a, "counted"_a, "set_up"_a = nb::none(),
      "tear_down"_a = nb::none(), "turns"_a = std::make_tuple(-1, false, 0, 0), "cold"_a = false,
      "Measure a callable: (ticks of each iteration as uint64 bytes, whether every count was the same, "
      "batch, "
      "operations of a call, counter steps a second, the counter's step, cost of a reading in counter "
      "steps, nanoseconds from the first to the last iteration, ticks of single calls between the batches). "
      "`turns`: (the socket to the other side or "
      "-1, whether this is the first side, iterations of a turn, unmeasured ones before them). `cold`: empty "
      "the caches before each iteration.");
  m.def("count", &count,
        nb::sig("def count(run: typing.Callable[[], object], calls: int, "
                "set_up: typing.Callable[[], object] | None = None, "
                "tear_down: typing.Callable[[], object] | None = None) -> list[float]"),
        "run"_a, "calls"_a, "set_up"_a = nb::none(), "tear_down"_a = nb::none(),
        "What a number of calls costs beside time, in the order of latlab::bench::Cost; -1 where nothing "
        "counts it "
        "here.");
  m.def("evict", [] { bench::Evictor{}(); }, "Empty the caches.");
  m.def(
      "lock_memory", [] { return mlockall(MCL_CURRENT | MCL_FUTURE) == 0; },
      "Lock all memory of the process, present and future; whether that was allowed.");
  m.def(
      "clock_grain",
      [] {
        const bench::ClockGrain grain = bench::clock_grain();
        return std::make_tuple(grain.quantum_ticks, grain.read_ticks);
      },
      "(the counter's step, cost of a reading), both in counter steps.");
}
