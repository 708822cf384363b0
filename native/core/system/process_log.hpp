// Threads: one at a time; the stack sampler holds its lock around every call.
//
// What is needed to understand copies of stacks when their processes are gone: forks, execs, and which file
// was mapped where, as perf_event_open(2) tells them, and as /proc shows what was mapped before. The files
// are held open, since they may be gone too.
#pragma once

#include <linux/perf_event.h>
#include <sys/types.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace latlab::system {

struct ProcessEvent {
  enum class Kind : std::uint8_t { kFork, kExec, kMap };
  Kind kind;
  std::uint64_t time_ns;
  std::int32_t pid, parent;  // parent: of a fork
  std::uint64_t begin = 0, bytes = 0, offset = 0;
  std::string path{};
  int file = -1;  // opened while the process lived; -1 where it couldn't be; owned by the sampler
};

// A value at a place of a record, whatever its alignment.
template <class T>
T at(const std::uint8_t* bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes + offset, sizeof(value));
  return value;
}

class ProcessLog {
 public:
  explicit ProcessLog(std::function<void(pid_t)> joined) : joined_(std::move(joined)) {}
  ~ProcessLog();
  ProcessLog(const ProcessLog&) = delete;
  ProcessLog& operator=(const ProcessLog&) = delete;

  bool tracks(pid_t pid) const { return tracked_.contains(pid); }
  void track(pid_t pid);  // and its children whose forks were read already; `joined` is called for each
  void add(const perf_event_header& header, const std::uint8_t* body, std::size_t bytes);
  const std::vector<ProcessEvent>& events() const { return events_; }

 private:
  int file_of(pid_t pid, const std::string& path, std::uint64_t inode);
  void map(std::uint64_t time_ns, pid_t pid, std::uint64_t begin, std::uint64_t bytes, std::uint64_t offset,
           std::uint64_t inode, const std::string& path);
  void read_maps(pid_t pid);

  std::function<void(pid_t)> joined_;
  std::unordered_set<std::int32_t> tracked_;
  std::unordered_multimap<std::int32_t, std::int32_t> strangers_children_;
  std::vector<ProcessEvent> events_;
  std::map<std::pair<std::string, std::uint64_t>, int> files_;  // (path, inode) -> descriptor
};

}  // namespace latlab::system
