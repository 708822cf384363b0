// Threads: plan_entries may be called from any thread; a CallClock or a StubCall belongs to the thread that
// makes it.
//
// The stub engine: what every stub of latlab does alike, whatever stands in for the component. It reads a
// study's plan, times a call, and spends the time of a simulated one: its wait, its work, and the working
// periods between which it waits. Who uses it says by a Host how its clocks are read, how it works and how it
// leaves the CPU: C++ applications (stub_plan.hpp), Python's component (native/bind/stubs_component.hpp) and
// the program that stands in for a command (native/apps/stub-command.cpp). The plan's text is described in
// src/latlab/stubs/components/plan.py.
#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <latlab/stub_measure.hpp>

namespace latlab::stub::detail {

// First line of a plan. Version 3: separated by tabs, so that STATE may hold spaces; `wait=` (2: by spaces).
inline constexpr std::string_view kPlanHead = "latlab-stubs-plan 3";

enum class Mode : std::uint8_t { kOff, kMeasure, kRecord, kDelay, kFlat, kBusy, kIdle };

// Shorter calls are timed and simulated by the monotonic clock alone: a reading of the CPU clock costs 0.5
// us.
inline constexpr std::int64_t kShort_ns = 20'000;

// A call, or one working period of it: a negative blocked_ns is the wait after this period, and the next row
// belongs to the same call.
struct CallTime {
  std::int64_t busy_ns = 0;
  std::int64_t blocked_ns = 0;
};
static_assert(sizeof(CallTime) == 16);

// Before the calls of each thread in a file of times.
struct TimesHead {
  std::uint32_t thread = 0;
  std::uint32_t zero = 0;
  std::uint64_t count = 0;  // of the rows that follow
  std::int64_t first_ns = 0;
  std::int64_t last_ns = 0;
  std::int64_t lost_ns = 0;
};
static_assert(sizeof(TimesHead) == 40);
// The same for Python's struct.
inline constexpr const char* kTimesHeadFormat = "<IIQqqq";

// How a stub spends a call's time.
struct Policy {
  double factor = 1.0;       // of the recorded work
  double wait = 1.0;         // of the recorded waits
  double work_per_ns = 0.0;  // iterations of `work` that stand for a ns; 0: until a deadline
  long period = 0;           // the working period of each call that the factor is of; 0: all of them
  bool idle = false;         // sleep instead of working
};

// One component's line of a plan.
struct Entry {
  Mode mode = Mode::kOff;
  Policy policy;
  std::int64_t delay_ns = 0;
  std::string state;
  std::string name;
  bool shared = false;   // threads take their calls from one queue
  bool marking = false;  // keep when each call began and ended: of programs with one thread
  bool opening = false;  // keep when the first call began
  bool timing = false;   // measure what each call of a stub takes
};

struct PlanError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void read_flag(Entry& entry, const std::string& flag) {
  const auto value = [&flag](std::string_view key) {
    return flag.starts_with(key) ? flag.c_str() + key.size() : nullptr;
  };
  if (flag == "shared") entry.shared = true;
  if (flag == "marks") entry.marking = true;
  if (flag == "opening") entry.opening = true;
  if (flag == "timed") entry.timing = true;
  if (flag == "waitless") entry.policy.wait = 0.0;
  if (const char* text = value("wait=")) entry.policy.wait = std::strtod(text, nullptr);
  if (const char* text = value("work=")) entry.policy.work_per_ns = std::strtod(text, nullptr);
  if (const char* text = value("period=")) entry.policy.period = std::strtol(text, nullptr, 10);
}

// Throws PlanError where the line is none.
inline Entry parse_entry(const std::string& line) {
  static const std::map<std::string, Mode, std::less<>> modes{
      {"off", Mode::kOff},   {"measure", Mode::kMeasure}, {"record", Mode::kRecord}, {"delay", Mode::kDelay},
      {"flat", Mode::kFlat}, {"busy", Mode::kBusy},       {"idle", Mode::kIdle}};
  std::vector<std::string> words;
  std::istringstream text(line);
  for (std::string word; words.size() < 5 && std::getline(text, word, '\t');) words.push_back(word);
  std::string name;
  std::getline(text, name);
  const auto mode = words.empty() ? modes.end() : modes.find(words[0]);
  if (mode == modes.end() || name.empty()) throw PlanError("is not an entry of a plan: '" + line + "'");
  Entry entry;
  entry.mode = mode->second;
  entry.policy.factor = entry.mode == Mode::kFlat ? 0.0 : std::strtod(words[1].c_str(), nullptr);
  entry.policy.idle = entry.mode == Mode::kIdle;
  entry.delay_ns = std::strtoll(words[2].c_str(), nullptr, 10);
  std::istringstream flags(words[3]);
  for (std::string flag; std::getline(flags, flag, ',');) read_flag(entry, flag);
  entry.state = words[4];
  entry.name = name;
  return entry;
}

// The plan of this process (LATLAB_STUBS_PLAN); empty where there is none. Throws PlanError where it can't be
// read or is of another version: a program that was built with other headers would else seem never to call
// its component.
inline std::vector<Entry> plan_entries() {
  const char* path = std::getenv("LATLAB_STUBS_PLAN");
  if (path == nullptr || *path == '\0') return {};
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) throw PlanError(std::string(path) + ": can't be read");
  if (line != kPlanHead) {
    throw PlanError(std::string(path) + ": is a plan of another version ('" + line + "', and '" +
                    std::string(kPlanHead) +
                    "' is read); build the program with the headers of the latlab that runs");
  }
  std::vector<Entry> found;
  while (std::getline(file, line)) {
    try {
      found.push_back(parse_entry(line));
    } catch (const PlanError& error) {
      throw PlanError(std::string(path) + ": " + error.what());
    }
  }
  return found;
}

inline std::int64_t voluntary_switches() noexcept {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

// How a stub reads clocks, works and waits. A Stamp is a reading of its fast clock; what `now` itself costs
// lies between the two readings that time a call, what `cpu_ns` costs is within the second of its own.
template <class Host>
concept StubHost = requires(Host host, typename Host::Stamp stamp, std::int64_t ns) {
  { Host::now() } -> std::same_as<typename Host::Stamp>;
  { Host::between(stamp, stamp) } -> std::same_as<std::int64_t>;
  { Host::cpu_ns() } -> std::same_as<std::int64_t>;
  { Host::now_cost_ns() } -> std::same_as<std::int64_t>;
  { Host::cpu_cost_ns() } -> std::same_as<std::int64_t>;
  { Host::resumed(stamp) } -> std::same_as<typename Host::Stamp>;  // a stamp for the work after a wait
  { host.next_row() } -> std::same_as<CallTime>;
  host.sleep(ns);              // leaves the CPU
  host.spin_since(stamp, ns);  // until so long after the stamp
  host.spin_cpu_until(ns);     // until cpu_ns reads so much
  host.work(ns, 1.0);          // so many ns of work, at a rate
};

// What the two readings of a call come to.
struct Timed {
  CallTime call;
  std::int64_t lost_ns = 0;  // ready without a CPU, or taken by the machine
  bool brief = false;
};

// A thread that never let go of its CPU did not wait: it was preempted, or the machine was.
inline Timed timed(std::int64_t wall, std::int64_t cpu, std::int64_t ready, bool switched) noexcept {
  Timed found{{std::clamp<std::int64_t>(cpu, 0, wall), 0}, 0, wall < kShort_ns};
  if (wall - found.call.busy_ns > kShort_ns) {
    const std::int64_t waited = std::max<std::int64_t>(0, wall - found.call.busy_ns - ready);
    if (switched && waited > kShort_ns) found.call.blocked_ns = waited;
    found.lost_ns = wall - found.call.busy_ns - found.call.blocked_ns;
  }
  if (found.call.blocked_ns == 0 && found.brief) found.call.busy_ns = wall;
  return found;
}

// Times one call: from its making to stop(). `brief`: the last call was short, and so is this one, it seems.
template <class Host>
class CallClock {
 public:
  using Stamp = typename Host::Stamp;
  explicit CallClock(bool brief)
      : brief_(brief),
        switches_(brief ? 0 : voluntary_switches()),
        ready_(brief ? 0 : ready_ns()),
        cpu_(brief ? 0 : Host::cpu_ns()),
        begin_(Host::now()) {}

  Timed stop() {
    end_ = Host::now();
    const std::int64_t wall = std::max<std::int64_t>(0, Host::between(begin_, end_) - Host::now_cost_ns());
    if (brief_) return {{wall, 0}, 0, wall < kShort_ns};
    const std::int64_t cpu = Host::cpu_ns() - cpu_ - Host::cpu_cost_ns();
    const bool off = wall - cpu > kShort_ns;  // else what else was read says nothing
    return timed(wall, cpu, off ? ready_ns() - ready_ : 0, off && voluntary_switches() != switches_);
  }
  [[nodiscard]] Stamp begin() const noexcept { return begin_; }
  [[nodiscard]] Stamp end() const noexcept { return end_; }

 private:
  bool brief_;
  std::int64_t switches_;
  std::int64_t ready_;
  std::int64_t cpu_;
  Stamp begin_;
  Stamp end_{};
};

// Takes the time of one call from its making to close(), whatever happens in between: its wait first, then
// its work, of which what the stub itself costs is part; then the working periods that follow.
template <StubHost Host>
class StubCall {
 public:
  using Stamp = typename Host::Stamp;
  // `entered`: when the call began, where that was before now.
  StubCall(Host& host, const Policy& policy, Stamp entered)
      : host_(host), policy_(policy), row_(host.next_row()), start_(entered) {
    if (row_.blocked_ns > 0 && wait(row_.blocked_ns)) start_ = Host::resumed(start_);
    open();
  }

  // What the stub itself took, where it simulates no time; else 0.
  std::int64_t close() {
    const std::int64_t own = target_ns_ <= 0 ? Host::between(start_, Host::now()) : 0;
    spend();
    while (row_.blocked_ns < 0) {
      wait(-row_.blocked_ns);
      row_ = host_.next_row();
      ++number_;
      start_ = Host::resumed(start_);
      open();
      spend();
    }
    return own;
  }

 private:
  bool wait(std::int64_t ns) {
    const auto length = static_cast<std::int64_t>(static_cast<double>(ns) * policy_.wait);
    if (length > 0) host_.sleep(length);
    return length > 0;
  }

  void open() {
    const bool chosen = policy_.period == 0 || policy_.period == number_;
    target_ns_ =
        static_cast<std::int64_t>(static_cast<double>(row_.busy_ns) * (chosen ? policy_.factor : 1.0));
    idling_ = chosen && policy_.idle;
    if (target_ns_ > kShort_ns && !idling_ && policy_.work_per_ns <= 0)
      cpu_ = Host::cpu_ns() - Host::between(start_, Host::now());
  }

  void spend() {
    if (target_ns_ <= 0) return;
    if (idling_) {
      host_.sleep(target_ns_ - Host::between(start_, Host::now()));
    } else if (policy_.work_per_ns > 0) {
      const std::int64_t left = target_ns_ - Host::between(start_, Host::now());
      if (left > 0) host_.work(left, policy_.work_per_ns);
    } else if (target_ns_ > kShort_ns) {
      host_.spin_cpu_until(cpu_ + target_ns_);
    } else {
      host_.spin_since(start_, target_ns_);
    }
  }

  Host& host_;
  const Policy& policy_;
  CallTime row_;
  Stamp start_;
  std::int64_t cpu_ = 0;
  std::int64_t target_ns_ = 0;
  long number_ = 1;  // of the working period
  bool idling_ = false;
};

}  // namespace latlab::stub::detail
