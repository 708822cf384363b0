// Threads: save_state, load_state and component may be called from any thread; each thread has its own
// sequence of values, numbered in the order in which threads first call one of them. record(), replay() and
// stop() belong to one thread, while no other is inside. Nothing happens, and nothing is read but one flag,
// until one of them is called or LATLAB_STUB_RECORD, LATLAB_STUB_REPLAY or LATLAB_STUBS_PLAN is set.
//
// Stubs of C++ components: the state that a component leaves is recorded, and later loaded in its place. The
// trace file is that of `latlab stubs decode`. Classes whose members can't be copied as bytes need a
// Serial<T>, which `latlab stubs spec HEADER --class NAME` writes.
#pragma once

#include <latlab/stub_measure.hpp>
#include <latlab/stub_plan.hpp>
#include <latlab/stub_serial.hpp>
#include <latlab/stub_trace.hpp>
#include <optional>
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

}  // namespace detail

// A component under study: calls `function`, or what the plan of a study says in its place. Its result (which
// must be default constructible) is its function; one that returns nothing has none.
template <class Function>
auto component(const char* name, Function&& function) {
  using Result = std::invoke_result_t<Function>;
  static detail::Plan& plan = detail::plan_of(name);
  if (detail::inside_component) return std::forward<Function>(function)();
  const detail::Mark mark(plan);
  if (plan.mode == detail::Mode::kOff) {
    if (!plan.marking) return std::forward<Function>(function)();
    const detail::Inside inside;
    return std::forward<Function>(function)();
  }
  if (plan.mode == detail::Mode::kDelay) {
    const detail::Inside inside;
    detail::busy(plan.delay_ns);
    return std::forward<Function>(function)();
  }
  if (plan.mode == detail::Mode::kMeasure) {
    const detail::Inside inside;
    detail::ThreadTimes& times = plan.times_of_thread();
    const detail::CallClock clock(times, times.calls);
    return std::forward<Function>(function)();
  }
  if (plan.mode == detail::Mode::kRecord) {
    const detail::Inside inside;
    if constexpr (std::is_void_v<Result>) {
      std::forward<Function>(function)();
      return;
    } else {
      Result result = std::forward<Function>(function)();
      save_state(name, "result", &result);
      return result;
    }
  }
  std::optional<detail::CallClock> clock;
  if (plan.timing) {
    detail::ThreadTimes& times = plan.times_of_thread();
    clock.emplace(times, times.spent);
  }
  // What the function's stub costs is part of the simulated time.
  const detail::SimulatedCall call(plan);
  if constexpr (!std::is_void_v<Result>) {
    Result result{};
    plan.load(name, result);
    return result;
  }
}

}  // namespace latlab::stub
