#include "system/process_log.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <latlab/clock.hpp>
#include <sstream>

#include "system/observed_file.hpp"

namespace latlab::system {
namespace {

constexpr std::size_t kMostStrangers = 65536;
constexpr std::size_t kMostFiles = 512;  // held open for unwinding

}  // namespace

ProcessLog::~ProcessLog() {
  for (const auto& [key, descriptor] : files_)
    if (descriptor >= 0) close(descriptor);
}

int ProcessLog::file_of(pid_t pid, const std::string& path, std::uint64_t inode) {
  if (path.empty() || path.front() != '/' || path.starts_with("//")) return -1;
  const auto key = std::pair(path, inode);
  const auto found = files_.find(key);
  if (found != files_.end()) return found->second;
  if (files_.size() >= kMostFiles) return -1;
  // Through the process' root: it may have another mount namespace. When it is gone already, by our own.
  int descriptor = open_observed("/proc/" + std::to_string(pid) + "/root" + path);
  if (descriptor < 0) descriptor = open_observed(path);
  files_.emplace(key, descriptor);
  return descriptor;
}

void ProcessLog::map(std::uint64_t time_ns, pid_t pid, std::uint64_t begin, std::uint64_t bytes,
                     std::uint64_t offset, std::uint64_t inode, const std::string& path) {
  ProcessEvent event{.kind = ProcessEvent::Kind::kMap, .time_ns = time_ns, .pid = pid, .parent = 0};
  event.begin = begin;
  event.bytes = bytes;
  event.offset = offset;
  event.path = path;
  event.file = file_of(pid, path, inode);
  events_.push_back(std::move(event));
}

// The mappings that were there before: as if they had been made at the beginning.
void ProcessLog::read_maps(pid_t pid) {
  const std::uint64_t time_ns = monotonic_ns();  // before: what is mapped meanwhile is told by an event, too
  std::ifstream file("/proc/" + std::to_string(pid) + "/maps");
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::uint64_t offset = 0;
    std::uint64_t inode = 0;
    char dash = 0;
    std::string rights;
    std::string device;
    std::string path;
    words >> std::hex >> begin >> dash >> end >> rights >> offset >> device >> std::dec >> inode;
    std::getline(words >> std::ws, path);
    if (rights.size() > 2 && rights[2] == 'x') map(time_ns, pid, begin, end - begin, offset, inode, path);
  }
}

void ProcessLog::track(pid_t pid) {
  joined_(pid);
  if (!tracked_.insert(pid).second) return;
  read_maps(pid);
  // Its children whose forks were read before anybody asked for it.
  const auto [first, last] = strangers_children_.equal_range(pid);
  std::vector<pid_t> children;
  for (auto child = first; child != last; ++child) children.push_back(child->second);
  for (const pid_t child : children) track(child);
}

void ProcessLog::add(const perf_event_header& header, const std::uint8_t* body, std::size_t bytes) {
  // All end with the sample's tail: pid, tid, time, id.
  if (bytes < 24) return;
  const auto time_ns = at<std::uint64_t>(body, bytes - 16);
  const auto pid = at<std::int32_t>(body, 0);
  if (header.type == PERF_RECORD_FORK) {  // pid, ppid, tid, ptid, time
    const auto parent = at<std::int32_t>(body, 4);
    if (pid == parent) return;
    if (!tracked_.contains(parent)) {
      if (strangers_children_.size() < kMostStrangers) strangers_children_.emplace(parent, pid);
      return;
    }
    joined_(pid);  // its number may have been a stranger's
    if (tracked_.insert(pid).second)
      events_.push_back(
          {.kind = ProcessEvent::Kind::kFork, .time_ns = time_ns, .pid = pid, .parent = parent, .path = {}});
  } else if (header.type == PERF_RECORD_COMM && (header.misc & PERF_RECORD_MISC_COMM_EXEC) != 0) {
    if (tracked_.contains(pid))
      events_.push_back(
          {.kind = ProcessEvent::Kind::kExec, .time_ns = time_ns, .pid = pid, .parent = 0, .path = {}});
  } else if (header.type == PERF_RECORD_MMAP2 && bytes > 64 && tracked_.contains(pid)) {
    // pid, tid, begin, bytes, offset, device, inode, generation, protection, flags, path
    const auto inode = at<std::uint64_t>(body, 40);
    const char* path = reinterpret_cast<const char*>(body + 64);
    map(time_ns, pid, at<std::uint64_t>(body, 8), at<std::uint64_t>(body, 16), at<std::uint64_t>(body, 24),
        inode, std::string(path, strnlen(path, bytes - 64)));
  }
}

}  // namespace latlab::system
