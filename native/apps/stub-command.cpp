// Threads: a program with one thread.
//
// Stands in for a command under study, found before it on PATH under its name. Measuring: runs the original
// and keeps its output, exit code and times. As a stub: gives the same output and exit code after a chosen
// CPU time. Calls are told apart by their arguments, and numbered within equal ones. See
// src/latlab/stubs/components/plan.py for the plan.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <latlab/clock.hpp>
#include <latlab/stub_engine.hpp>
#include <latlab/stub_work.hpp>
#include <sstream>
#include <string>
#include <string_view>

#include "stubs/sleep.hpp"
#include "stubs/spin.hpp"

namespace fs = std::filesystem;
namespace st = latlab::stubs;
namespace engine = latlab::stub::detail;
using engine::Mode;

namespace {

// A row of STATE.rows; see src/latlab/stubs/studies/runner.py.
struct Row {
  std::int64_t busy_ns;
  std::int64_t blocked_ns;
  std::int64_t begin_ns;
  std::int64_t end_ns;
};

// A run of the command.
struct Kept : Row {
  int code = 0;
};

constexpr int kNotFound = 127;

engine::Entry plan_entry(const std::string& name) {
  for (const engine::Entry& entry : engine::plan_entries()) {
    if (entry.name == name) return entry;
  }
  return {};
}

// How the engine reads clocks, works and waits in a command's place. A stamp is the thread's CPU clock, which
// began at the fork: what our own start cost is part of the call.
struct Host {
  using Stamp = std::int64_t;
  const Kept& kept;
  static Stamp now() { return st::thread_cpu_ns(); }
  static Stamp resumed(Stamp entered) { return entered; }
  static std::int64_t between(Stamp begin, Stamp end) { return end - begin; }
  static std::int64_t cpu_ns() { return st::thread_cpu_ns(); }
  static std::int64_t now_cost_ns() { return 0; }
  static std::int64_t cpu_cost_ns() { return 0; }
  [[nodiscard]] engine::CallTime next_row() const {
    // A short wait is its start-up and the wake-up of its parent, which the stub has of its own.
    constexpr std::int64_t kStartUp_ns = 2'000'000;
    return {kept.busy_ns, kept.blocked_ns > kStartUp_ns ? kept.blocked_ns : 0};
  }
  static void sleep(std::int64_t ns) { st::thread_sleeper().sleep(ns, st::SleepMode::kCorrected); }
  static void spin_since(Stamp begin, std::int64_t ns) { st::spin_cpu_until(begin + ns); }
  static void spin_cpu_until(std::int64_t end) { st::spin_cpu_until(end); }
  static void work(std::int64_t ns, double per_ns) {
    engine::work(static_cast<std::uint64_t>(static_cast<double>(ns) * per_ns));
  }
};
static_assert(engine::StubHost<Host>);

// FNV-1a: names a call by its arguments and its folder.
std::string key_of(int argc, char** argv) {
  std::uint64_t hash = 1469598103934665603ULL;
  const auto add = [&](std::string_view text) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
    hash = (hash ^ 0xFFU) * 1099511628211ULL;
  };
  for (int i = 1; i < argc; ++i) add(argv[i]);
  add(fs::current_path().string());
  return std::to_string(hash);
}

// One byte is appended by each call: the file's length before it is the call's number, without a lock.
std::int64_t number_of(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0 || write(fd, "x", 1) != 1) return 0;
  const auto number = lseek(fd, 0, SEEK_CUR) - 1;
  close(fd);
  return number;
}

// The same program behind us on PATH.
std::string original_of(const std::string& name) {
  const char* folders = std::getenv("PATH");
  std::istringstream path(folders != nullptr ? folders : "");
  std::string folder;
  while (std::getline(path, folder, ':')) {
    const fs::path candidate = fs::path(folder) / name;
    std::error_code error;
    if (access(candidate.c_str(), X_OK) == 0 && !fs::equivalent(candidate, "/proc/self/exe", error)) {
      return candidate.string();
    }
  }
  return {};
}

bool input_is_pipe() {
  struct stat status{};
  return fstat(STDIN_FILENO, &status) == 0 && S_ISFIFO(status.st_mode);
}

void drain_input() {
  std::array<char, 65536> buffer{};
  while (input_is_pipe() && read(STDIN_FILENO, buffer.data(), buffer.size()) > 0) {
  }
}

void put_out(const std::string& path, int to) {
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  for (std::size_t done = 0; done < text.size();) {
    const auto put = write(to, text.data() + done, text.size() - done);
    if (put <= 0) return;
    done += static_cast<std::size_t>(put);
  }
}

std::int64_t to_ns(const timeval& time) {
  return time.tv_sec * 1'000'000'000LL + time.tv_usec * 1000LL;
}

// What a process waited for a CPU.
std::int64_t ready_ns(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/schedstat");
  std::int64_t ran = 0;
  std::int64_t ready = 0;
  file >> ran >> ready;
  return ready;
}

Kept run_original(const std::string& program, char** argv, const std::string& base) {
  const auto start = latlab::monotonic_ns();
  const pid_t child = fork();
  if (child == 0) {
    const int out = open((base + ".out").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    const int err = open((base + ".err").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (out < 0 || err < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(err, STDERR_FILENO) < 0) _exit(kNotFound);
    // Found by PATH, as a shell finds it. NOLINTNEXTLINE(clang-analyzer-optin.taint.GenericTaint)
    execv(program.c_str(), argv);
    _exit(kNotFound);
  }
  Kept kept{};
  kept.code = kNotFound;
  int status = 0;
  rusage usage{};
  siginfo_t left{};
  // Its account is readable until it is waited for.
  if (child < 0 || waitid(P_PID, static_cast<id_t>(child), &left, WEXITED | WNOWAIT) < 0) return kept;
  const std::int64_t ready = ready_ns(child);
  if (wait4(child, &status, 0, &usage) < 0) return kept;
  kept.begin_ns = static_cast<std::int64_t>(start);
  kept.end_ns = static_cast<std::int64_t>(latlab::monotonic_ns());
  const std::int64_t wall = kept.end_ns - kept.begin_ns;
  kept.busy_ns = to_ns(usage.ru_utime) + to_ns(usage.ru_stime);
  // A pipe's reader waits for its writer by itself.
  kept.blocked_ns = input_is_pipe() ? 0 : std::max<std::int64_t>(0, wall - kept.busy_ns - ready);
  kept.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return kept;
}

int measure(const engine::Entry& entry, const std::string& program, char** argv, const std::string& base) {
  const Kept kept = run_original(program, argv, base);
  std::ofstream(base + ".meta") << kept.busy_ns << ' ' << kept.blocked_ns << ' ' << kept.code << '\n';
  const int rows = open((entry.state + ".rows").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  const Row& row = kept;
  const bool written = rows >= 0 && write(rows, &row, sizeof row) == static_cast<ssize_t>(sizeof row);
  put_out(base + ".out", STDOUT_FILENO);
  put_out(base + ".err", STDERR_FILENO);
  return written ? kept.code : kNotFound;
}

int stub(const engine::Entry& entry, const std::string& base) {
  Kept kept{};
  std::ifstream(base + ".meta") >> kept.busy_ns >> kept.blocked_ns >> kept.code;
  if (!fs::exists(base + ".meta")) {
    std::cerr << "latlab: a call with these arguments was not recorded (" << base << ")\n";
    return kNotFound;
  }
  drain_input();
  Host host{kept};
  engine::StubCall<Host> call(host, entry.policy, 0);
  call.close();
  put_out(base + ".out", STDOUT_FILENO);
  put_out(base + ".err", STDERR_FILENO);
  if (entry.mode == Mode::kFlat) {
    // What the stub itself costs.
    const int flat = open((entry.state + ".flat").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    const std::int64_t used = st::thread_cpu_ns();
    if (flat < 0 || write(flat, &used, sizeof used) != static_cast<ssize_t>(sizeof used)) return kNotFound;
  }
  return kept.code;
}

int run(int argc, char** argv) {
  const std::string name = fs::path(argv[0]).filename().string();
  const engine::Entry entry = plan_entry(name);
  const bool measuring = entry.mode == Mode::kMeasure || entry.mode == Mode::kRecord;
  const bool replaying = entry.mode == Mode::kFlat || entry.mode == Mode::kBusy || entry.mode == Mode::kIdle;
  std::string base;
  if (measuring || replaying) {
    const std::string folder = entry.state + ".d";
    fs::create_directories(folder);
    const std::string key = folder + "/" + key_of(argc, argv);
    base = key + "-" + std::to_string(number_of(key + ".count"));
  }
  if (replaying) return stub(entry, base);
  const std::string program = original_of(name);
  if (program.empty()) {
    std::cerr << "latlab: " << name << " is not on PATH behind its stub\n";
    return kNotFound;
  }
  if (measuring) return measure(entry, program, argv, base);
  if (entry.mode == Mode::kDelay) st::spin_cpu(entry.delay_ns);
  // Found by PATH, as a shell finds it. NOLINTNEXTLINE(clang-analyzer-optin.taint.GenericTaint)
  execv(program.c_str(), argv);
  return kNotFound;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "latlab: " << error.what() << '\n';
    return kNotFound;
  }
}
