// Threads: plan_of and Plan's functions may be called from any thread; a CallClock or SimulatedCall belongs
// to the thread that makes it. The lists of times are written by their own thread, and read when the program
// ends.
//
// What a study's plan (LATLAB_STUBS_PLAN) says of a C++ component: to be measured, recorded, delayed, or
// replaced by a stub that takes a chosen part of the component's busy time. The plan and its files are
// described in src/latlab/stubs/_plan.py. Included by latlab/stub.hpp.
#pragma once

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <latlab/stub_measure.hpp>
#include <latlab/stub_trace.hpp>
#include <latlab/stub_work.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

namespace latlab::stub::detail {

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
// When a measured call began and ended: CLOCK_MONOTONIC.
struct CallSpan {
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
};

// Of one thread: what was measured, or is to be simulated.
struct ThreadTimes {
  std::vector<CallTime> calls;
  std::vector<CallTime> spent;  // by a stub's calls, where they are measured
  std::vector<CallSpan> spans;
  pid_t tid = 0;  // of the thread that was measured
  std::size_t next = 0;
  std::int64_t inside_ns = 0;  // within a stub that simulates no time
  std::uint64_t handed_out = 0;
  bool brief = false;         // the last measured call was short
  std::int64_t first_ns = 0;  // begin of the first measured call, end of the last: CLOCK_MONOTONIC
  std::int64_t last_ns = 0;
  std::int64_t lost_ns = 0;  // within calls: ready without a CPU, or taken by the machine
};

// Before the calls of each thread in a file of times.
struct TimesHead {
  std::uint32_t thread = 0;
  std::uint32_t zero = 0;
  std::uint64_t count = 0;
  std::int64_t first_ns = 0;
  std::int64_t last_ns = 0;
  std::int64_t lost_ns = 0;
};
static_assert(sizeof(TimesHead) == 40);

inline std::int64_t voluntary_switches() noexcept {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

// What one reading of the monotonic clock costs: it lies between the two readings that time a call.
inline std::int64_t clock_cost_ns() noexcept {
  static const std::int64_t cost = [] {
    constexpr int kReadings = 64;
    const std::int64_t begin = clock_ns(CLOCK_MONOTONIC);
    for (int i = 1; i < kReadings; ++i) clock_ns(CLOCK_MONOTONIC);
    return (clock_ns(CLOCK_MONOTONIC) - begin) / kReadings;
  }();
  return cost;
}

inline void busy_until(std::int64_t cpu_end) noexcept {
  for (std::int64_t left = cpu_end - clock_ns(CLOCK_THREAD_CPUTIME_ID); left > 0;
       left = cpu_end - clock_ns(CLOCK_THREAD_CPUTIME_ID)) {
    const std::int64_t until = clock_ns(CLOCK_MONOTONIC) + left;
    while (clock_ns(CLOCK_MONOTONIC) < until) {
    }
  }
}

// CPU time by a checkpointed clock: most of the time the monotonic clock is polled.
inline void busy(std::int64_t ns) noexcept {
  if (ns > kShort_ns) {
    busy_until(clock_ns(CLOCK_THREAD_CPUTIME_ID) + ns);
    return;
  }
  const std::int64_t until = clock_ns(CLOCK_MONOTONIC) + ns;
  while (clock_ns(CLOCK_MONOTONIC) < until) {
  }
}

// Leaves the CPU. The kernel wakes late by a nearly constant amount, which each thread learns and takes off.
inline void idle(std::int64_t ns) noexcept {
  thread_local const int slack = prctl(PR_SET_TIMERSLACK, 1UL);
  thread_local std::int64_t late = slack == 0 ? 20'000 : 60'000;
  if (ns <= 0) return;
  const std::int64_t end = clock_ns(CLOCK_MONOTONIC) + ns;
  const std::int64_t asked = end - std::min(late, ns);
  const timespec at{static_cast<time_t>(asked / 1'000'000'000), static_cast<long>(asked % 1'000'000'000)};
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr);
  const std::int64_t found = clock_ns(CLOCK_MONOTONIC) - asked;
  // A preempted sleep is not a measure of the kernel's lateness.
  if (found > 0 && found < 200'000) late += (found - late) / 8;
}

// The same checksum as zlib's crc32: a process is named alike by Python and here.
inline std::uint32_t crc32(const std::string& text) noexcept {
  std::uint32_t sum = 0xFFFFFFFFU;
  for (const char c : text) {
    sum ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1U) ^ (0xEDB88320U & (0U - (sum & 1U)));
  }
  return ~sum;
}

inline std::string process_name(const std::string& state) {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string command((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::array<char, 16> key{};
  std::snprintf(key.data(), key.size(), "%08x", crc32(command));
  // One byte is appended by each process: the length before it is the process's number, without a lock.
  const std::string count = state + "/" + key.data() + ".count";
  const int fd = open(count.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  long number = 0;
  if (fd >= 0) {
    if (write(fd, "x", 1) == 1) number = static_cast<long>(lseek(fd, 0, SEEK_CUR)) - 1;
    close(fd);
  }
  return std::string(key.data()) + "-" + std::to_string(number);
}

class Plan {
 public:
  Mode mode = Mode::kOff;
  double factor = 1.0;
  std::int64_t delay_ns = 0;
  double work_per_ns = 0.0;  // iterations of `work`; 0: stubs spin until a deadline
  long period = 0;           // the working period of each call that the factor is of; 0: all of them
  bool marking = false;      // keep when each call began and ended: of programs with one thread
  std::vector<std::int64_t> marks;
  bool opening = false;  // keep when the first call began
  bool timing = false;   // measure what each call of a stub takes
  std::atomic<std::int64_t> opened_ns{0};

  explicit Plan(const char* name) {
    const char* path = std::getenv("LATLAB_STUBS_PLAN");
    if (path == nullptr || !read(path, name)) return;
    base_ = state_ + "/" + process_name(state_);
    const std::string trace = base_ + ".trace";
    if (mode == Mode::kRecord) begin(State::kRecording, trace.c_str());
    if (mode == Mode::kMeasure || mode == Mode::kRecord || mode == Mode::kDelay) return;
    // The unchanged component loads the recording too, so that every variant of a study starts alike.
    if (std::ifstream(trace).good()) begin(State::kReplaying, trace.c_str());
    read_times();
    if (mode == Mode::kOff) stop();
  }
  ~Plan() { finish(); }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  [[nodiscard]] bool waits() const noexcept { return !waitless_; }

  // This thread's times; threads are numbered in the order of their first call.
  ThreadTimes& times_of_thread() {
    thread_local const Plan* last = nullptr;
    thread_local ThreadTimes* last_times = nullptr;
    if (last == this) return *last_times;
    thread_local std::map<const Plan*, ThreadTimes*> mine;
    ThreadTimes*& found = mine[this];
    if (found == nullptr) {
      const std::lock_guard lock(mutex_);
      if (started_ == threads_.size()) threads_.push_back(std::make_unique<ThreadTimes>());
      found = threads_[started_++].get();
    }
    last = this;
    last_times = found;
    return *found;
  }

  CallTime next_time() {
    if (shared_) {
      const std::lock_guard lock(mutex_);
      return all_.calls.empty() ? CallTime{} : all_.calls[all_.next++ % all_.calls.size()];
    }
    ThreadTimes& mine = times_of_thread();
    return mine.calls.empty() ? CallTime{} : mine.calls[mine.next++ % mine.calls.size()];
  }

  template <class T>
  void load(const char* name, T& result) {
    if (!shared_) {
      load_state(name, &result);
      return;
    }
    // Threads that take their calls from one queue take the results from wherever one is left.
    const std::lock_guard lock(mutex_);
    for (auto& channel : session().channels) {
      if (channel->name == name && channel->at != channel->end) {
        load_entry(name, *channel, &result);
        return;
      }
    }
    throw StateError(std::string(name) + ": more calls than were recorded");
  }

 private:
  bool read(const char* path, const std::string& name) {
    static const std::map<std::string, Mode> modes{{"off", Mode::kOff},       {"measure", Mode::kMeasure},
                                                   {"record", Mode::kRecord}, {"delay", Mode::kDelay},
                                                   {"flat", Mode::kFlat},     {"busy", Mode::kBusy},
                                                   {"idle", Mode::kIdle}};
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::string in_mode;
      std::string flags;
      std::string of;
      words >> in_mode >> factor >> delay_ns >> flags >> state_;
      std::getline(words >> std::ws, of);
      const auto found = modes.find(in_mode);
      if (of != name || found == modes.end()) continue;
      mode = found->second;
      shared_ = flags.find("shared") != std::string::npos;
      waitless_ = flags.find("waitless") != std::string::npos;
      marking = flags.find("marks") != std::string::npos;
      opening = flags.find("opening") != std::string::npos;
      timing = flags.find("timed") != std::string::npos;
      const auto one = flags.find("period=");
      if (one != std::string::npos) period = std::strtol(flags.c_str() + one + 7, nullptr, 10);
      const auto work = flags.find("work=");
      if (work != std::string::npos) work_per_ns = std::strtod(flags.c_str() + work + 5, nullptr);
      return true;
    }
    return false;
  }

  void read_times() {
    std::ifstream file(base_ + ".times", std::ios::binary);
    TimesHead head;
    while (file.read(reinterpret_cast<char*>(&head), sizeof head)) {
      while (threads_.size() <= head.thread) threads_.push_back(std::make_unique<ThreadTimes>());
      auto& calls = threads_[head.thread]->calls;
      calls.resize(head.count);
      file.read(reinterpret_cast<char*>(calls.data()),
                static_cast<std::streamsize>(head.count * sizeof(CallTime)));
      if (shared_) all_.calls.insert(all_.calls.end(), calls.begin(), calls.end());
    }
  }

  void finish() {
    if (base_.empty()) return;
    // relaxed: the threads that called it have ended
    if (const std::int64_t at = opened_ns.load(std::memory_order_relaxed); at != 0) marks.assign(1, at);
    if (marking || opening) {
      std::ofstream(base_ + ".marks", std::ios::binary | std::ios::trunc)
          .write(reinterpret_cast<const char*>(marks.data()),
                 static_cast<std::streamsize>(marks.size() * sizeof marks[0]));
    }
    if (mode == Mode::kMeasure) {
      write_times(".times", &ThreadTimes::calls);
      std::ofstream spans(base_ + ".spans", std::ios::binary | std::ios::trunc);
      for (std::uint32_t i = 0; i < threads_.size(); ++i) {
        for (const CallSpan& span : threads_[i]->spans) {
          const std::array<std::int64_t, 4> row{i, threads_[i]->tid, span.begin_ns, span.end_ns};
          spans.write(reinterpret_cast<const char*>(row.data()), sizeof row);
        }
      }
    } else if (mode == Mode::kFlat || mode == Mode::kBusy || mode == Mode::kIdle) {
      std::uint64_t calls = 0;
      std::int64_t inside = 0;
      for (const auto& thread : threads_) {
        calls += thread->handed_out;
        inside += thread->inside_ns;
      }
      std::uint64_t recorded = 0;
      for (const auto& thread : threads_) {
        recorded += static_cast<std::uint64_t>(
            std::count_if(thread->calls.begin(), thread->calls.end(),
                          [](const CallTime& row) { return row.blocked_ns >= 0; }));  // else one goes on
      }
      std::ofstream(base_ + ".outcome")
          << calls << ' ' << inside << ' ' << (recorded > calls ? recorded - calls : 0) << '\n';
      if (timing && mode == Mode::kBusy) write_times(".spent", &ThreadTimes::spent);
    }
  }

  void write_times(const char* suffix, std::vector<CallTime> ThreadTimes::* which) const {
    std::ofstream kept(base_ + suffix, std::ios::binary | std::ios::trunc);
    for (std::uint32_t i = 0; i < threads_.size(); ++i) {
      const ThreadTimes& one = *threads_[i];
      const std::vector<CallTime>& calls = one.*which;
      const TimesHead head{i, 0, calls.size(), one.first_ns, one.last_ns, one.lost_ns};
      kept.write(reinterpret_cast<const char*>(&head), sizeof head);
      kept.write(reinterpret_cast<const char*>(calls.data()),
                 static_cast<std::streamsize>(head.count * sizeof(CallTime)));
    }
  }

  std::string state_;
  std::string base_;
  bool shared_ = false;
  bool waitless_ = false;
  std::mutex mutex_;
  std::vector<std::unique_ptr<ThreadTimes>> threads_;
  std::size_t started_ = 0;
  ThreadTimes all_;
};

// The only plan of a component, wherever it is called from.
inline Plan& plan_of(const char* name) {
  // The trace is written when the session ends, and so has to outlive the plans.
  static Session& before = session();
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<Plan>> plans;
  static_cast<void>(before);
  const std::lock_guard lock(mutex);
  auto& found = plans[name];
  if (!found) found = std::make_unique<Plan>(name);
  return *found;
}

// Measures one call of a component.
class CallClock {
 public:
  CallClock(ThreadTimes& times, std::vector<CallTime>& calls) noexcept
      : times_(times),
        calls_(calls),
        brief_(times.brief),
        switches_(brief_ ? 0 : voluntary_switches()),
        ready_(brief_ ? 0 : ready_ns()),
        cpu_(brief_ ? 0 : clock_ns(CLOCK_THREAD_CPUTIME_ID)),
        wall_(clock_ns(CLOCK_MONOTONIC)) {}
  ~CallClock() {
    times_.last_ns = clock_ns(CLOCK_MONOTONIC);
    if (calls_.empty()) times_.first_ns = wall_;
    const std::int64_t wall = std::max<std::int64_t>(0, times_.last_ns - wall_ - clock_cost_ns());
    CallTime call{wall, 0};
    if (!brief_) {
      call.busy_ns = std::min(wall, clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_);
      // A thread that never let go of its CPU did not wait: it was preempted, or the machine was.
      if (wall - call.busy_ns > kShort_ns) {
        const std::int64_t waited = std::max<std::int64_t>(0, wall - call.busy_ns - (ready_ns() - ready_));
        if (voluntary_switches() != switches_ && waited > kShort_ns) call.blocked_ns = waited;
        times_.lost_ns += wall - call.busy_ns - call.blocked_ns;
      }
      if (call.blocked_ns == 0 && wall < kShort_ns) call.busy_ns = wall;
    }
    times_.brief = wall < kShort_ns;
    calls_.push_back(call);
    if (times_.tid == 0) times_.tid = static_cast<pid_t>(syscall(SYS_gettid));
    times_.spans.push_back({wall_, times_.last_ns});
  }
  CallClock(const CallClock&) = delete;
  CallClock& operator=(const CallClock&) = delete;

 private:
  ThreadTimes& times_;
  std::vector<CallTime>& calls_;
  bool brief_;
  std::int64_t switches_;
  std::int64_t ready_;
  std::int64_t cpu_;
  std::int64_t wall_;
};

// Keeps when a call began and ended, or when the first one began, where the plan asks for it.
class Mark {
 public:
  explicit Mark(Plan& plan) : plan_(plan) {
    if (plan.marking) plan.marks.push_back(clock_ns(CLOCK_MONOTONIC));
    // relaxed: who comes first is enough, nothing hangs on it
    if (plan.opening && plan.opened_ns.load(std::memory_order_relaxed) == 0) {
      std::int64_t none = 0;
      plan.opened_ns.compare_exchange_strong(none, clock_ns(CLOCK_MONOTONIC), std::memory_order_relaxed);
    }
  }
  ~Mark() {
    if (plan_.marking) plan_.marks.push_back(clock_ns(CLOCK_MONOTONIC));
  }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;

 private:
  Plan& plan_;
};

// Takes the time of one call from its making to its end, whatever happens in between.
class SimulatedCall {
 public:
  explicit SimulatedCall(Plan& plan)
      : plan_(plan), row_(plan.next_time()), wall_(clock_ns(CLOCK_MONOTONIC) - clock_cost_ns()) {
    if (plan.waits() && row_.blocked_ns > 0) {
      idle(row_.blocked_ns);
      wall_ = clock_ns(CLOCK_MONOTONIC);
    }
    begin();
  }
  ~SimulatedCall() {
    ThreadTimes& mine = plan_.times_of_thread();
    ++mine.handed_out;
    if (target_ns_ <= 0) mine.inside_ns += clock_ns(CLOCK_MONOTONIC) - wall_;
    spend();
    while (row_.blocked_ns < 0) {
      idle(-row_.blocked_ns);
      row_ = plan_.next_time();
      ++number_;
      wall_ = clock_ns(CLOCK_MONOTONIC);
      begin();
      spend();
    }
  }
  SimulatedCall(const SimulatedCall&) = delete;
  SimulatedCall& operator=(const SimulatedCall&) = delete;

 private:
  // Whether the plan's mode and factor are meant for this working period.
  [[nodiscard]] bool chosen() const noexcept { return plan_.period == 0 || plan_.period == number_; }

  void begin() noexcept {
    const double factor = !chosen() ? 1.0 : plan_.mode == Mode::kFlat ? 0.0 : plan_.factor;
    target_ns_ = static_cast<std::int64_t>(static_cast<double>(row_.busy_ns) * factor);
    idling_ = chosen() && plan_.mode == Mode::kIdle;
    if (target_ns_ > kShort_ns && !idling_ && plan_.work_per_ns <= 0)
      cpu_ = clock_ns(CLOCK_THREAD_CPUTIME_ID);
  }

  void spend() const noexcept {
    if (target_ns_ <= 0) return;
    if (idling_) {
      idle(target_ns_ - (clock_ns(CLOCK_MONOTONIC) - wall_));
    } else if (plan_.work_per_ns > 0) {
      const auto left = static_cast<double>(target_ns_ - (clock_ns(CLOCK_MONOTONIC) - wall_));
      if (left > 0) work(static_cast<std::uint64_t>(left * plan_.work_per_ns));
    } else if (target_ns_ > kShort_ns) {
      busy_until(cpu_ + target_ns_);
    } else {
      while (clock_ns(CLOCK_MONOTONIC) < wall_ + target_ns_) {
      }
    }
  }

  Plan& plan_;
  CallTime row_;
  std::int64_t wall_;
  std::int64_t cpu_ = 0;
  std::int64_t target_ns_ = 0;
  long number_ = 1;  // of the working period
  bool idling_ = false;
};

}  // namespace latlab::stub::detail
