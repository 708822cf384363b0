// Threads: save_state, load_state and component may be called from any thread; each thread has its own
// sequence of values, numbered in the order in which threads first call one of them. record(), replay() and
// stop() belong to one thread, while no other is inside. Nothing happens, and nothing is read but one flag,
// until one of them is called or LATLAB_STUB_RECORD, LATLAB_STUB_REPLAY or LATLAB_STUBS_PLAN is set.
//
// Stubs of C++ components: the state that a component leaves is recorded, and later loaded in its place. The
// trace file is that of `latlab stubs decode`. Classes whose members can't be copied as bytes need a
// Serial<T>, which `latlab stubs spec HEADER --class NAME` writes.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <latlab/stub_measure.hpp>
#include <latlab/stub_serial.hpp>
#include <latlab/stub_trace.hpp>
#include <mutex>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace latlab::stub {

namespace detail {

// What LATLAB_STUBS_PLAN says of one component; see src/latlab/stubs/_plan.py.
struct Plan {
  std::string mode = "off";
  double factor = 1.0;
  std::int64_t delay_ns = 0;
  std::string state;
  std::mutex mutex;
  std::vector<std::array<std::int64_t, 2>> times;
  std::size_t next = 0;

  explicit Plan(const char* name) {
    const char* path = std::getenv("LATLAB_STUBS_PLAN");
    std::ifstream file(path != nullptr ? path : "");
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::string in_mode;
      std::string flags;
      std::string in_state;
      std::string of;
      double in_factor = 1.0;
      std::int64_t in_delay = 0;
      words >> in_mode >> in_factor >> in_delay >> flags >> in_state;
      std::getline(words >> std::ws, of);
      if (of != name) continue;
      mode = in_mode;
      factor = in_factor;
      delay_ns = in_delay;
      state = in_state;
    }
    const std::string trace = state + ".trace";
    if (mode == "record") begin(State::kRecording, trace.c_str());
    if (mode == "flat" || mode == "busy" || mode == "idle") begin(State::kReplaying, trace.c_str());
    if (mode == "busy" || mode == "idle") {
      std::ifstream kept(state + ".times", std::ios::binary);
      std::array<std::int64_t, 2> row{};
      while (kept.read(reinterpret_cast<char*>(row.data()), sizeof row)) times.push_back(row);
    }
  }
  ~Plan() {
    if (mode != "measure") return;
    std::ofstream kept(state + ".times", std::ios::binary | std::ios::trunc);
    kept.write(reinterpret_cast<const char*>(times.data()), static_cast<std::streamsize>(times.size() * 16));
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
};

// CPU time by a checkpointed clock: its readings cost 0.5 us each, so most of the time the monotonic clock is
// polled.
inline void busy(std::int64_t ns) noexcept {
  const std::int64_t end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + ns;
  for (std::int64_t left = ns; left > 0; left = end - clock_ns(CLOCK_THREAD_CPUTIME_ID)) {
    const std::int64_t until = clock_ns(CLOCK_MONOTONIC) + left;
    while (clock_ns(CLOCK_MONOTONIC) < until) {
    }
  }
}

inline void idle(std::int64_t ns) noexcept {
  const std::int64_t end = clock_ns(CLOCK_MONOTONIC) + ns;
  const timespec at{static_cast<time_t>(end / 1'000'000'000), static_cast<long>(end % 1'000'000'000)};
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr);
}

}  // namespace detail

// A component under study: calls `function`, or what the plan of a study says in its place. Its result (which
// must be default constructible) is its function; one that returns nothing has none.
template <class Function>
auto component(const char* name, Function&& function) {
  using Result = std::invoke_result_t<Function>;
  static detail::Plan plan(name);  // one for each call of component() in the source
  if (plan.mode == "off") return std::forward<Function>(function)();
  if (plan.mode == "delay") {
    detail::busy(plan.delay_ns);
    return std::forward<Function>(function)();
  }
  if (plan.mode == "measure") {
    struct Clock {
      std::int64_t cpu = detail::clock_ns(CLOCK_THREAD_CPUTIME_ID);
      std::int64_t wall = detail::clock_ns(CLOCK_MONOTONIC);
      ~Clock() {
        wall = detail::clock_ns(CLOCK_MONOTONIC) - wall;
        cpu = std::min(wall, detail::clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu);
        const std::lock_guard lock(plan.mutex);
        // Below 20 us the difference is the clocks' own error, an interrupt or a preemption.
        plan.times.push_back({cpu, wall - cpu > 20'000 ? wall - cpu : 0});
      }
    };
    const Clock clock;
    return std::forward<Function>(function)();
  }
  if (plan.mode == "record") {
    if constexpr (std::is_void_v<Result>) {
      std::forward<Function>(function)();
      return;
    } else {
      Result result = std::forward<Function>(function)();
      save_state(name, "result", &result);
      return result;
    }
  }
  if (plan.mode != "flat" && !plan.times.empty()) {
    std::array<std::int64_t, 2> call{};
    {
      const std::lock_guard lock(plan.mutex);
      call = plan.times[plan.next++ % plan.times.size()];
    }
    if (call[1] > 0) detail::idle(call[1]);
    const auto ns = static_cast<std::int64_t>(static_cast<double>(call[0]) * plan.factor);
    plan.mode == "idle" ? detail::idle(ns) : detail::busy(ns);
  }
  if constexpr (!std::is_void_v<Result>) {
    Result result{};
    load_state(name, &result);
    return result;
  }
}

}  // namespace latlab::stub
