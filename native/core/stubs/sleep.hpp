// Threads: a Sleeper belongs to the thread that made it (timer slack is a property of the thread).
//
// Idle stubs: they leave the CPU to others for a chosen time. The kernel wakes a thread late, by a nearly
// constant amount (21 to 24 us with a timer slack of 1 ns in a virtual machine, 74 us with the default
// slack), so the next sleep is asked for that much less.
#pragma once

#include <array>
#include <cstdint>
#include <latlab/clock.hpp>

namespace latlab::stubs {

inline std::int64_t now_ns() noexcept {
  return static_cast<std::int64_t>(monotonic_ns());
}

enum class SleepMode { kPlain, kCorrected, kSpinEnd };

struct SleepResult {
  std::int64_t requested_ns = 0;
  std::int64_t wall_ns = 0;
  std::int64_t burned_ns = 0;  // CPU time spent on spinning to the end
};

class Sleeper {
 public:
  Sleeper() noexcept;  // sets the timer slack to 1 ns
  ~Sleeper();          // and back
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

  SleepResult sleep(std::int64_t ns, SleepMode mode) noexcept;
  // Until CLOCK_MONOTONIC reads `deadline_ns`.
  SleepResult sleep_until(std::int64_t deadline_ns, SleepMode mode) noexcept;
  // Learns the bias from sleeps of this length.
  void learn(std::int64_t ns, int repetitions) noexcept;

 private:
  // The last overshoots of sleeps of about one length: their median is robust against a preempted sleep.
  struct History {
    static constexpr std::size_t kSize = 15;
    std::array<std::int64_t, kSize> overshoot{};
    std::size_t count = 0;
    std::int64_t median = 0;
    void add(std::int64_t value) noexcept;
  };
  [[nodiscard]] static std::size_t bucket(std::int64_t ns) noexcept;

  // By powers of four of the length: a longer sleep lets the CPU sleep deeper, and wakes later.
  std::array<History, 16> histories_{};
  int slack_before_ = -1;
};

// This thread's own sleeper, made at its first use.
Sleeper& thread_sleeper() noexcept;

}  // namespace latlab::stubs
