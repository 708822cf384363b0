// Threads: each object belongs to one owner; reading it disturbs nobody.
//
// Events that the CPU (or the kernel) counts for a process, by perf_event_open(2). Most virtual machines have
// no hardware counters: then opening one fails, and nothing is guessed.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace latlab::system {

enum class Counted : std::uint8_t {
  llc_loads,        // reads that asked the last cache level
  llc_load_misses,  // … and went to memory
  cache_misses,     // of the last level, of any kind
  task_clock,       // the kernel's own, in ns: there on every machine
};

// By the names that perf gives them; nothing for another.
std::optional<Counted> counted_by_name(std::string_view name) noexcept;

class HardwareCount {
 public:
  // Counts from now on, in user mode: of one task (0: the caller's thread), with `inherit` also of the
  // threads and children that it makes later. `error()` says why it can't.
  HardwareCount(Counted what, pid_t task, bool inherit) noexcept;
  ~HardwareCount();
  HardwareCount(const HardwareCount&) = delete;
  HardwareCount& operator=(const HardwareCount&) = delete;

  [[nodiscard]] bool counts() const noexcept { return fd_ >= 0; }
  [[nodiscard]] int error() const noexcept { return error_; }
  // So far; where the CPU has too few registers and the kernel takes turns, scaled to the whole time. -1
  // without a counter.
  [[nodiscard]] std::int64_t now() const noexcept;

 private:
  int fd_ = -1;
  int error_ = 0;
};

}  // namespace latlab::system
