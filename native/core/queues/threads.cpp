#include "queues/threads.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <latlab/clock.hpp>

namespace latlab::queues {

namespace {

// A short file of /proc; empty when it is gone.
std::string_view slurp(const std::string& path, std::array<char, 4096>& buffer) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  const ssize_t size = ::read(fd, buffer.data(), buffer.size() - 1);
  ::close(fd);
  if (size <= 0) return {};
  buffer[static_cast<std::size_t>(size)] = '\0';
  return {buffer.data(), static_cast<std::size_t>(size)};
}

std::uint64_t after(std::string_view text, std::string_view key) {
  const std::size_t at = text.find(key);
  return at == std::string_view::npos ? 0 : std::strtoull(text.data() + at + key.size(), nullptr, 10);
}

}  // namespace

std::vector<ThreadTimes> read_threads(std::uint32_t pid, std::size_t most) {
  std::vector<ThreadTimes> result;
  const std::string folder = "/proc/" + std::to_string(pid) + "/task";
  DIR* const tasks = ::opendir(folder.c_str());
  if (tasks == nullptr) return result;
  std::array<char, 4096> buffer{};
  while (const dirent* const entry =
             ::readdir(tasks)) {  // NOLINT(concurrency-mt-unsafe): a stream of our own
    if (entry->d_name[0] == '.' || result.size() >= most) continue;
    const std::string task = folder + '/' + entry->d_name;
    ThreadTimes times;
    times.tid = static_cast<std::uint32_t>(std::strtoul(entry->d_name, nullptr, 10));
    times.at_ns = monotonic_ns();
    const std::string_view schedule = slurp(task + "/schedstat", buffer);
    if (schedule.empty()) continue;
    char* end = nullptr;
    times.cpu_ns = std::strtoull(schedule.data(), &end, 10);
    times.wait_ns = std::strtoull(end, nullptr, 10);
    const std::string_view status = slurp(task + "/status", buffer);
    if (status.empty()) continue;
    times.voluntary = after(status, "\nvoluntary_ctxt_switches:");
    times.involuntary = after(status, "\nnonvoluntary_ctxt_switches:");
    const std::size_t name = status.find("Name:\t");
    if (name != std::string_view::npos)
      times.name = status.substr(name + 6, status.find('\n', name) - name - 6);
    result.push_back(std::move(times));
  }
  ::closedir(tasks);
  return result;
}

}  // namespace latlab::queues
