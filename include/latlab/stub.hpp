// Threads: save_state, load_state and component may be called from any thread; each thread has its own
// sequence of values, and is told by the order in which threads were made. record(), replay() and stop()
// belong to one thread, while no other is inside. Nothing happens, and nothing is read but one flag, until
// one of them is called or LATLAB_STUB_RECORD, LATLAB_STUB_REPLAY or LATLAB_STUBS_PLAN is set.
//
// Stubs of C++ components: the state that a component leaves is recorded, and later loaded in its place. The
// trace file is that of `latlab stubs decode`. Classes whose members can't be copied as bytes need a
// Serial<T>, which `latlab stubs spec HEADER --class NAME` writes.
#pragma once

#include <exception>
#include <latlab/stub_measure.hpp>
#include <latlab/stub_plan.hpp>
#include <latlab/stub_serial.hpp>
#include <latlab/stub_trace.hpp>
#include <optional>
#include <source_location>
#include <type_traits>
#include <utility>

namespace latlab::stub {

namespace detail {

// Whether this thread is within a component's original: a component that it calls in turn is part of it, as
// it is of its stub.
inline constinit thread_local bool inside_component = false;

class Inside {
 public:
  Inside() noexcept { inside_component = true; }
  ~Inside() { inside_component = false; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
};

// A call that is recorded: one that throws leaves no result for a stub to return.
class Recorded {
 public:
  explicit Recorded(Plan& plan) noexcept : plan_(plan), before_(std::uncaught_exceptions()) {}
  ~Recorded() {
    if (std::uncaught_exceptions() > before_)
      plan_.cannot("a call of it throws an exception, and a stub in C++ returns results only");
  }
  Recorded(const Recorded&) = delete;
  Recorded& operator=(const Recorded&) = delete;

 private:
  Plan& plan_;
  int before_;
};

}  // namespace detail

// A component under study: calls `function`, or what the plan of a study says in its place. Its result (which
// must be default constructible) is its function; one that returns nothing has none. It is told by `name`;
// where two places use one name they are one component if their results are of one type, and a plan tells
// them apart as NAME@FILE:LINE.
template <class Function>
auto component(const char* name, Function&& function,
               const std::source_location& place = std::source_location::current()) {
  static_assert(std::is_invocable_v<Function>,
                "a component is called without arguments: wrap the call, as in "
                "component(\"price\", [&] { return price(order); })");
  using Result = std::invoke_result_t<Function>;
  static_assert(!std::is_reference_v<Result>,
                "a stub has no object to refer to: let the function return a value, or nothing and use "
                "save_state and load_state");
  static_assert(
      std::is_void_v<Result> || std::is_default_constructible_v<Result>,
      "a stub makes a result before it loads it: the function's result must be default constructible");
  if (!detail::studied() || detail::inside_component) return std::forward<Function>(function)();
  detail::Plan& plan = detail::plan_of(name, place, &detail::kTypeMark<Result>);
  const detail::Entry& entry = plan.entry;
  const detail::Mark mark(plan);
  if (entry.mode == detail::Mode::kOff) {
    if (!entry.marking) return std::forward<Function>(function)();
    const detail::Inside inside;
    return std::forward<Function>(function)();
  }
  if (entry.mode == detail::Mode::kDelay) {
    const detail::Inside inside;
    detail::busy(entry.delay_ns);
    return std::forward<Function>(function)();
  }
  if (entry.mode == detail::Mode::kMeasure) {
    const detail::Inside inside;
    detail::ThreadTimes& times = plan.times_of_thread();
    const detail::Measured measured(times, times.calls);
    return std::forward<Function>(function)();
  }
  if (entry.mode == detail::Mode::kRecord) {
    const detail::Inside inside;
    const detail::Recorded recorded(plan);
    if constexpr (std::is_void_v<Result>) {
      std::forward<Function>(function)();
      return;
    } else {
      Result result = std::forward<Function>(function)();
      save_state(entry.name.c_str(), "result", &result);
      return result;
    }
  }
  std::optional<detail::Measured> measured;
  if (entry.timing) {
    detail::ThreadTimes& times = plan.times_of_thread();
    measured.emplace(times, times.spent);
  }
  // What the function's stub costs is part of the simulated time.
  const detail::SimulatedCall call(plan);
  if constexpr (!std::is_void_v<Result>) {
    Result result{};
    plan.load(result);
    return result;
  }
}

}  // namespace latlab::stub
