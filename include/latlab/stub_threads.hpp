// Threads: birth_of_thread and take_number may be called from any thread; take_number's sets are guarded by
// its caller.
//
// Which thread of a program is which in another run of it: by the order in which they were made, not in which
// they first call a component, which is chance where they run side by side. Included by
// latlab/stub_trace.hpp.
#pragma once

#include <dirent.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <mutex>
#include <set>

namespace latlab::stub::detail {

// How many threads of this process were made before the calling one: of those that live now or that did when
// another thread asked. The kernel's numbers grow with each thread. A thread's place stays the same however
// often it asks, since all that were made before it and ask later live now.
inline std::uint32_t birth_of_thread() {
  static std::mutex mutex;
  static std::set<pid_t> seen;
  static pid_t process = 0;
  const std::lock_guard lock(mutex);
  if (process != getpid()) seen.clear();  // a child has threads of its own
  process = getpid();
  const auto mine = static_cast<pid_t>(syscall(SYS_gettid));
  if (DIR* folder = opendir("/proc/self/task"); folder != nullptr) {
    while (const dirent* one = readdir(folder)) {  // NOLINT(concurrency-mt-unsafe): a stream of its own
      const auto found = static_cast<pid_t>(std::strtol(static_cast<const char*>(one->d_name), nullptr, 10));
      if (found > 0) seen.insert(found);
    }
    closedir(folder);
  }
  seen.insert(mine);
  return static_cast<std::uint32_t>(std::distance(seen.begin(), seen.find(mine)));
}

// The calling thread's number: its birth, where that is among the recorded ones (or nothing is recorded yet)
// and nobody has it; else the first recorded that is left, as where a thread that never calls ended in one
// run before another one asked, and did not in the other.
inline std::uint32_t take_number(std::set<std::uint32_t>& taken, const std::set<std::uint32_t>& recorded) {
  std::uint32_t number = birth_of_thread();
  const auto left = [&](std::uint32_t one) { return !taken.contains(one); };
  if (!recorded.empty() && !(recorded.contains(number) && left(number))) {
    const auto first = std::find_if(recorded.begin(), recorded.end(), left);
    if (first != recorded.end()) number = *first;
  }
  while (!left(number)) ++number;
  taken.insert(number);
  return number;
}

}  // namespace latlab::stub::detail
