#include "system/hardware_count.hpp"

#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace latlab::system {

namespace {

constexpr std::uint64_t last_level(std::uint64_t result) {
  return PERF_COUNT_HW_CACHE_LL | (PERF_COUNT_HW_CACHE_OP_READ << 8U) | (result << 16U);
}

struct Kind {
  std::string_view name;
  std::uint32_t type;
  std::uint64_t config;
};

// In the order of Counted.
constexpr std::array<Kind, 4> kKinds{{
    {"LLC-loads", PERF_TYPE_HW_CACHE, last_level(PERF_COUNT_HW_CACHE_RESULT_ACCESS)},
    {"LLC-load-misses", PERF_TYPE_HW_CACHE, last_level(PERF_COUNT_HW_CACHE_RESULT_MISS)},
    {"cache-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES},
    {"task-clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK},
}};

}  // namespace

std::optional<Counted> counted_by_name(std::string_view name) noexcept {
  for (std::size_t i = 0; i < kKinds.size(); ++i) {
    if (kKinds[i].name == name) return static_cast<Counted>(i);
  }
  return std::nullopt;
}

HardwareCount::HardwareCount(Counted what, pid_t task, bool inherit) noexcept {
  const Kind& kind = kKinds[static_cast<std::size_t>(what)];
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

HardwareCount::~HardwareCount() {
  if (fd_ >= 0) ::close(fd_);
}

std::int64_t HardwareCount::now() const noexcept {
  struct {
    std::uint64_t value, enabled, running;
  } seen{};
  if (fd_ < 0 || ::read(fd_, &seen, sizeof seen) != sizeof seen) return -1;
  if (seen.running == 0 || seen.running == seen.enabled) return static_cast<std::int64_t>(seen.value);
  return static_cast<std::int64_t>(static_cast<double>(seen.value) * static_cast<double>(seen.enabled) /
                                   static_cast<double>(seen.running));
}

}  // namespace latlab::system
