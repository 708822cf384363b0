// Threads: a scope belongs to the thread that opens it; scopes() may be called by any, while none is open.
//
// Where the time of a piece of code goes: each pass through a scope as wall, CPU, ready and blocked time.
// Ready (waiting for a CPU) is the kernel's own count, /proc/thread-self/schedstat, brought up to date at
// each switch; a pass costs about 3 us. LATLAB_STUB_SCOPES=FILE writes every pass at the program's end, a
// line each: name;wall;cpu;ready;blocked in ns. Included by latlab/stub.hpp.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace latlab::stub {

// wall = cpu + ready + blocked
struct ScopeTime {
  std::int64_t wall_ns = 0;
  std::int64_t cpu_ns = 0;
  std::int64_t ready_ns = 0;
  std::int64_t blocked_ns = 0;
};

namespace detail {

inline std::int64_t clock_ns(clockid_t id) noexcept {
  timespec now{};
  clock_gettime(id, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

// This thread's time spent waiting for a CPU; 0 where the kernel doesn't count it.
inline std::int64_t ready_ns() noexcept {
  struct File {
    int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    ~File() {
      if (fd >= 0) close(fd);
    }
  };
  thread_local const File file;
  std::array<char, 128> text{};
  if (file.fd < 0 || pread(file.fd, text.data(), text.size() - 1, 0) <= 0) return 0;
  char* end = nullptr;
  std::strtoll(text.data(), &end, 10);
  return std::strtoll(end, nullptr, 10);
}

struct Scopes {
  std::mutex mutex;
  std::map<std::string, std::vector<ScopeTime>> passes;
  ~Scopes() {
    const char* path = std::getenv("LATLAB_STUB_SCOPES");
    if (path == nullptr) return;
    std::ofstream file(path);
    for (const auto& [name, times] : passes) {
      for (const ScopeTime& one : times) {
        file << name << ';' << one.wall_ns << ';' << one.cpu_ns << ';' << one.ready_ns << ';'
             << one.blocked_ns << '\n';
      }
    }
  }
};
inline Scopes& all_scopes() {
  static Scopes only;
  return only;
}

}  // namespace detail

// Measures from here to the end of the block, or to stop().
class measure {
 public:
  explicit measure(const char* name)
      : name_(name),
        ready_(detail::ready_ns()),
        cpu_(detail::clock_ns(CLOCK_THREAD_CPUTIME_ID)),
        wall_(detail::clock_ns(CLOCK_MONOTONIC)) {}
  ~measure() { stop(); }
  measure(const measure&) = delete;
  measure& operator=(const measure&) = delete;

  ScopeTime stop() {
    if (name_ == nullptr) return result_;
    const std::int64_t wall = detail::clock_ns(CLOCK_MONOTONIC) - wall_;
    const std::int64_t cpu = std::min(wall, detail::clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_);
    const std::int64_t ready = std::clamp<std::int64_t>(detail::ready_ns() - ready_, 0, wall - cpu);
    result_ = {wall, cpu, ready, wall - cpu - ready};
    const std::lock_guard lock(detail::all_scopes().mutex);
    detail::all_scopes().passes[name_].push_back(result_);
    name_ = nullptr;
    return result_;
  }

 private:
  const char* name_;  // null once it is stopped
  std::int64_t ready_;
  std::int64_t cpu_;
  std::int64_t wall_;
  ScopeTime result_;
};

// Every pass through every scope so far, by name.
inline std::map<std::string, std::vector<ScopeTime>> scopes() {
  const std::lock_guard lock(detail::all_scopes().mutex);
  return detail::all_scopes().passes;
}

}  // namespace latlab::stub
