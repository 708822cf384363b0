#include "queues/threads.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include <latlab/clock.hpp>

namespace latlab::queues {

namespace {

// A short file of /proc; empty when it is gone.
std::string_view slurp(const std::string& path, std::array<char, 4096>& buffer) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  const ssize_t size = ::read(fd, buffer.data(), buffer.size());
  ::close(fd);
  if (size <= 0) return {};
  return {buffer.data(), static_cast<std::size_t>(size)};
}

// The number that a text begins with, after blanks; `text` is moved behind it.
std::uint64_t number(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\n"), text.size()));
  std::uint64_t value = 0;
  const auto [end, code] = std::from_chars(text.begin(), text.end(), value);
  text.remove_prefix(static_cast<std::size_t>(end - text.begin()));
  return code == std::errc() ? value : 0;
}

std::uint64_t after(std::string_view text, std::string_view key) {
  const std::size_t at = text.find(key);
  if (at == std::string_view::npos) return 0;
  text.remove_prefix(at + key.size());
  return number(text);
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
    std::string_view schedule = slurp(task + "/schedstat", buffer);
    if (schedule.empty()) continue;
    times.cpu_ns = number(schedule);
    times.wait_ns = number(schedule);
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
