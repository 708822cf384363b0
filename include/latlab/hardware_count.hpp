// Threads: each object belongs to one owner; reading it disturbs nobody.
//
// Events that the CPU (or the kernel) counts for a process, by perf_event_open(2). Most virtual machines have
// no hardware counters: then opening one fails, and nothing is guessed.
#pragma once

#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace latlab {

enum class Counted : std::uint8_t {
  llc_loads,        // reads that asked the last cache level
  llc_load_misses,  // … and went to memory
  cache_misses,     // of the last level, of any kind
  task_clock,       // the kernel's own, in ns: there on every machine
  instructions,
  branches,
  branch_misses,
};

namespace detail {

constexpr std::uint64_t last_level(std::uint64_t result) noexcept {
  return PERF_COUNT_HW_CACHE_LL | (PERF_COUNT_HW_CACHE_OP_READ << 8U) | (result << 16U);
}

struct CountedKind {
  std::string_view name;
  std::uint32_t type;
  std::uint64_t config;
};

// In the order of Counted.
inline constexpr std::array<CountedKind, 7> counted_kinds{{
    {"LLC-loads", PERF_TYPE_HW_CACHE, last_level(PERF_COUNT_HW_CACHE_RESULT_ACCESS)},
    {"LLC-load-misses", PERF_TYPE_HW_CACHE, last_level(PERF_COUNT_HW_CACHE_RESULT_MISS)},
    {"cache-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES},
    {"task-clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK},
    {"instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS},
    {"branches", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS},
    {"branch-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES},
}};

}  // namespace detail

// By the names that perf gives them; nothing for another.
inline std::optional<Counted> counted_by_name(std::string_view name) noexcept {
  for (std::size_t i = 0; i < detail::counted_kinds.size(); ++i) {
    if (detail::counted_kinds[i].name == name) return static_cast<Counted>(i);
  }
  return std::nullopt;
}

class HardwareCount {
 public:
  // Counts from now on, in user mode: of one task (0: the caller's thread), with `inherit` also of the
  // threads and children that it makes later. `error()` says why it can't.
  HardwareCount(Counted what, pid_t task, bool inherit) noexcept {
    const detail::CountedKind& kind = detail::counted_kinds[static_cast<std::size_t>(what)];
    perf_event_attr wanted{};
    wanted.type = kind.type;
    wanted.size = sizeof wanted;
    wanted.config = kind.config;
    wanted.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
    wanted.inherit = inherit ? 1 : 0;
    wanted.exclude_kernel = kind.type == PERF_TYPE_SOFTWARE ? 0 : 1;  // the task clock has no modes
    wanted.exclude_hv = 1;
    fd_ = static_cast<int>(syscall(SYS_perf_event_open, &wanted, task, -1, -1, PERF_FLAG_FD_CLOEXEC));
    if (fd_ < 0) error_ = errno;
  }
  ~HardwareCount() {
    if (fd_ >= 0) ::close(fd_);
  }
  HardwareCount(const HardwareCount&) = delete;
  HardwareCount& operator=(const HardwareCount&) = delete;

  [[nodiscard]] bool counts() const noexcept { return fd_ >= 0; }
  [[nodiscard]] int error() const noexcept { return error_; }
  // So far; where the CPU has too few registers and the kernel takes turns, scaled to the whole time. -1
  // without a counter.
  [[nodiscard]] std::int64_t now() const noexcept {
    struct {
      std::uint64_t value, enabled, running;
    } seen{};
    if (fd_ < 0 || ::read(fd_, &seen, sizeof seen) != sizeof seen) return -1;
    if (seen.running == 0 || seen.running == seen.enabled) return static_cast<std::int64_t>(seen.value);
    return static_cast<std::int64_t>(static_cast<double>(seen.value) * static_cast<double>(seen.enabled) /
                                     static_cast<double>(seen.running));
  }

 private:
  int fd_ = -1;
  int error_ = 0;
};

}  // namespace latlab
