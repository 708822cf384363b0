// Threads: plan_of and Plan's functions may be called from any thread; a CallClock or SimulatedCall belongs
// to the thread that makes it. The lists of times are written by their own thread, and read when the program
// ends.
//
// What a study's plan (LATLAB_STUBS_PLAN) says of a C++ component: to be measured, recorded, delayed, or
// replaced by a stub that takes a chosen part of the component's busy time. The plan and its files are
// described in src/latlab/stubs/components/plan.py; how a stub takes its time, in latlab/stub_engine.hpp.
// Included by latlab/stub.hpp.
//
// Over 400 lines: one format's parser beside what each of its words makes a component do.
#pragma once

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <latlab/stub_engine.hpp>
#include <latlab/stub_measure.hpp>
#include <latlab/stub_threads.hpp>
#include <latlab/stub_trace.hpp>
#include <latlab/stub_work.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <source_location>
#include <string>
#include <vector>

namespace latlab::stub::detail {

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

// Ends the program: an error of the study's, told where it is found, and not by a component that seems never
// to be called.
[[noreturn]] inline void refuse(const std::string& what) {
  std::fprintf(stderr, "latlab: %s\n", what.c_str());
  std::_Exit(2);
}

class Plan {
 public:
  const Entry entry;
  std::vector<std::int64_t> marks;
  std::atomic<std::int64_t> opened_ns{0};

  Plan() = default;
  explicit Plan(const Entry& found) : entry(found) {
    base_ = entry.state + "/" + process_name(entry.state);
    const std::string trace = base_ + ".trace";
    if (entry.mode == Mode::kRecord) begin(State::kRecording, trace.c_str());
    if (entry.mode == Mode::kMeasure || entry.mode == Mode::kRecord || entry.mode == Mode::kDelay) return;
    // The unchanged component loads the recording too, so that every variant of a study starts alike.
    if (std::ifstream(trace).good()) begin(State::kReplaying, trace.c_str());
    read_times();
    if (entry.mode == Mode::kOff) stop();
  }
  ~Plan() { finish(); }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  // What a recording can't hold: the study is refused, the program goes on.
  void cannot(const char* what) {
    const std::lock_guard lock(mutex_);
    if (problem_.empty()) problem_ = entry.name + ": " + what;
  }

  // This thread's times; threads are told by the order in which they were made.
  ThreadTimes& times_of_thread() {
    thread_local const Plan* last = nullptr;
    thread_local ThreadTimes* last_times = nullptr;
    if (last == this) return *last_times;
    thread_local std::map<const Plan*, ThreadTimes*> mine;
    ThreadTimes*& found = mine[this];
    if (found == nullptr) {
      const std::lock_guard lock(mutex_);
      const std::uint32_t number = take_number(taken_, recorded_);
      while (threads_.size() <= number) threads_.push_back(std::make_unique<ThreadTimes>());
      found = threads_[number].get();
    }
    last = this;
    last_times = found;
    return *found;
  }

  CallTime next_time() {
    if (entry.shared) {
      const std::lock_guard lock(mutex_);
      return all_.calls.empty() ? CallTime{} : all_.calls[all_.next++ % all_.calls.size()];
    }
    ThreadTimes& mine = times_of_thread();
    return mine.calls.empty() ? CallTime{} : mine.calls[mine.next++ % mine.calls.size()];
  }

  template <class T>
  void load(T& result) {
    const char* name = entry.name.c_str();
    if (!entry.shared) {
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
  void read_times() {
    std::ifstream file(base_ + ".times", std::ios::binary);
    TimesHead head;
    while (file.read(reinterpret_cast<char*>(&head), sizeof head)) {
      while (threads_.size() <= head.thread) threads_.push_back(std::make_unique<ThreadTimes>());
      if (head.count > 0) recorded_.insert(head.thread);
      auto& calls = threads_[head.thread]->calls;
      calls.resize(head.count);
      file.read(reinterpret_cast<char*>(calls.data()),
                static_cast<std::streamsize>(head.count * sizeof(CallTime)));
      if (entry.shared) all_.calls.insert(all_.calls.end(), calls.begin(), calls.end());
    }
  }

  void finish() {
    if (base_.empty()) return;
    // relaxed: the threads that called it have ended
    if (const std::int64_t at = opened_ns.load(std::memory_order_relaxed); at != 0) marks.assign(1, at);
    if (!problem_.empty()) std::ofstream(base_ + ".error") << problem_;
    if (entry.marking || entry.opening) {
      std::ofstream(base_ + ".marks", std::ios::binary | std::ios::trunc)
          .write(reinterpret_cast<const char*>(marks.data()),
                 static_cast<std::streamsize>(marks.size() * sizeof marks[0]));
    }
    if (entry.mode == Mode::kMeasure) {
      write_times(".times", &ThreadTimes::calls);
      std::ofstream spans(base_ + ".spans", std::ios::binary | std::ios::trunc);
      for (std::uint32_t i = 0; i < threads_.size(); ++i) {
        for (const CallSpan& span : threads_[i]->spans) {
          const std::array<std::int64_t, 4> row{i, threads_[i]->tid, span.begin_ns, span.end_ns};
          spans.write(reinterpret_cast<const char*>(row.data()), sizeof row);
        }
      }
    } else if (entry.mode == Mode::kFlat || entry.mode == Mode::kBusy || entry.mode == Mode::kIdle) {
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
      if (entry.timing && entry.mode == Mode::kBusy) write_times(".spent", &ThreadTimes::spent);
    }
  }

  void write_times(const char* suffix, std::vector<CallTime> ThreadTimes::* which) const {
    std::ofstream kept(base_ + suffix, std::ios::binary | std::ios::trunc);
    for (std::uint32_t i = 0; i < threads_.size(); ++i) {
      const ThreadTimes& one = *threads_[i];
      const std::vector<CallTime>& calls = one.*which;
      if (calls.empty()) continue;  // one that never called it
      const TimesHead head{i, 0, calls.size(), one.first_ns, one.last_ns, one.lost_ns};
      kept.write(reinterpret_cast<const char*>(&head), sizeof head);
      kept.write(reinterpret_cast<const char*>(calls.data()),
                 static_cast<std::streamsize>(head.count * sizeof(CallTime)));
    }
  }

  std::string base_;
  std::string problem_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<ThreadTimes>> threads_;
  std::set<std::uint32_t> taken_;     // numbers of the threads that have called
  std::set<std::uint32_t> recorded_;  // of those whose times were measured
  ThreadTimes all_;
};

// Where a component is called from: its name and its place. A plan names it by its name, or, where another
// place uses the same name, as NAME@FILE:LINE with the file's last part.
struct Site {
  std::string name;
  const char* file = nullptr;
  std::uint_least32_t line = 0;
  const void* result = nullptr;  // stands for the type of its result
  Plan* plan = nullptr;
};

template <class T>
inline constexpr char kTypeMark = 0;

inline std::string text_of(const Site& site) {
  const char* slash = std::strrchr(site.file, '/');
  return site.name + "@" + (slash != nullptr ? slash + 1 : site.file) + ":" + std::to_string(site.line);
}

// Every place that a component was called from, and the only plan of each that is under study.
struct Sites {
  std::mutex mutex;
  std::vector<Entry> entries;
  std::map<std::string, std::unique_ptr<Plan>> plans;
  std::vector<std::unique_ptr<Site>> all;
  Plan off;

  Sites() {
    try {
      entries = plan_entries();
    } catch (const PlanError& error) {
      refuse(error.what());
    }
  }

  Plan* plan_for(const Site& site) {
    for (const Entry& entry : entries) {
      if (entry.name != site.name && entry.name != text_of(site)) continue;
      auto& found = plans[entry.name];
      if (!found) found = std::make_unique<Plan>(entry);
      return found.get();
    }
    return &off;
  }

  Site& of(const char* name, const std::source_location& place, const void* result) {
    const std::lock_guard lock(mutex);
    for (const auto& one : all) {
      if (one->line == place.line() && one->result == result && one->name == name &&
          std::strcmp(one->file, place.file_name()) == 0) {
        return *one;
      }
    }
    Site made{name, place.file_name(), place.line(), result, nullptr};
    made.plan = plan_for(made);
    for (const auto& one : all) {
      if (made.plan == &off || one->plan != made.plan || one->result == result) continue;
      refuse("two components are named '" + made.plan->entry.name +
             "', with results of different types: " + text_of(*one) + " and " + text_of(made) +
             "; give each its own name, or study one of them by its place");
    }
    all.push_back(std::make_unique<Site>(std::move(made)));
    return *all.back();
  }
};

inline Sites& sites() {
  // The trace is written when the session ends, and so has to outlive the plans.
  static Session& before = session();
  static_cast<void>(before);
  static Sites only;
  return only;
}

// Whether there is a plan at all: a program that is not under study pays for nothing else.
inline bool studied() noexcept {
  static const bool there = std::getenv("LATLAB_STUBS_PLAN") != nullptr;
  return there;
}

// The plan of a component, told by its name and its place. A name may lie at an address where another one
// lay before: a cached site is compared by its text.
inline Plan& plan_of(const char* name, const std::source_location& place, const void* result) {
  thread_local std::array<const Site*, 16> cached{};
  const auto at = (reinterpret_cast<std::uintptr_t>(name) >> 3U) + place.line();
  const Site*& one = cached[at % cached.size()];
  if (one == nullptr || one->line != place.line() || one->file != place.file_name() ||
      one->result != result || one->name != name) {
    one = &sites().of(name, place, result);
  }
  return *one->plan;
}

// How the engine reads clocks, works and waits in a C++ application.
struct Host {
  using Stamp = std::int64_t;  // CLOCK_MONOTONIC
  Plan& plan;
  static Stamp now() noexcept { return clock_ns(CLOCK_MONOTONIC); }
  static Stamp resumed(Stamp) noexcept { return now(); }
  static std::int64_t between(Stamp begin, Stamp end) noexcept { return end - begin; }
  static std::int64_t cpu_ns() noexcept { return clock_ns(CLOCK_THREAD_CPUTIME_ID); }
  static std::int64_t now_cost_ns() noexcept { return clock_cost_ns(); }
  static std::int64_t cpu_cost_ns() noexcept { return 0; }
  CallTime next_row() { return plan.next_time(); }
  static void sleep(std::int64_t ns) noexcept { idle(ns); }
  static void spin_since(Stamp begin, std::int64_t ns) noexcept {
    while (now() < begin + ns) {
    }
  }
  static void spin_cpu_until(std::int64_t end) noexcept { busy_until(end); }
  static void work(std::int64_t ns, double per_ns) noexcept {
    detail::work(static_cast<std::uint64_t>(static_cast<double>(ns) * per_ns));
  }
};
static_assert(StubHost<Host>);

// Measures one call of a component, from its making to its end.
class Measured {
 public:
  Measured(ThreadTimes& times, std::vector<CallTime>& calls)
      : times_(times), calls_(calls), clock_(times.brief) {}
  ~Measured() {
    const Timed found = clock_.stop();
    times_.last_ns = clock_.end();
    if (calls_.empty()) times_.first_ns = clock_.begin();
    times_.lost_ns += found.lost_ns;
    times_.brief = found.brief;
    calls_.push_back(found.call);
    if (times_.tid == 0) times_.tid = static_cast<pid_t>(syscall(SYS_gettid));
    times_.spans.push_back({clock_.begin(), times_.last_ns});
  }
  Measured(const Measured&) = delete;
  Measured& operator=(const Measured&) = delete;

 private:
  ThreadTimes& times_;
  std::vector<CallTime>& calls_;
  CallClock<Host> clock_;
};

// Keeps when a call began and ended, or when the first one began, where the plan asks for it.
class Mark {
 public:
  explicit Mark(Plan& plan) : plan_(plan) {
    if (plan.entry.marking) plan.marks.push_back(clock_ns(CLOCK_MONOTONIC));
    // relaxed: who comes first is enough, nothing hangs on it
    if (plan.entry.opening && plan.opened_ns.load(std::memory_order_relaxed) == 0) {
      std::int64_t none = 0;
      plan.opened_ns.compare_exchange_strong(none, clock_ns(CLOCK_MONOTONIC), std::memory_order_relaxed);
    }
  }
  ~Mark() {
    if (plan_.entry.marking) plan_.marks.push_back(clock_ns(CLOCK_MONOTONIC));
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
      : host_{plan}, call_(host_, plan.entry.policy, Host::now() - clock_cost_ns()) {}
  ~SimulatedCall() {
    ThreadTimes& mine = host_.plan.times_of_thread();
    ++mine.handed_out;
    mine.inside_ns += call_.close();
  }
  SimulatedCall(const SimulatedCall&) = delete;
  SimulatedCall& operator=(const SimulatedCall&) = delete;

 private:
  Host host_;
  StubCall<Host> call_;
};

}  // namespace latlab::stub::detail
