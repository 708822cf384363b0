// Over 400 lines: one loop, with an action each, which must not allocate while they are played.
#include "stubs/player.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <thread>

#include "stubs/gates.hpp"
#include "stubs/sleep.hpp"
#include "stubs/spin.hpp"

namespace latlab::stubs {
namespace {

struct Shared {
  const PlayPlan* plan = nullptr;
  std::vector<Semaphore> semaphores;
  std::vector<Gate> begin;
  std::vector<Gate> done;
  std::vector<Gate> over;
  Gate barrier;
  std::atomic<bool> giving_up{false};
  std::atomic<std::uint32_t> ready{0};
  std::atomic<bool> refused{false};
  std::atomic<std::int64_t> turn{0};  // the next in the order of creates and joins
  std::int64_t zero_ns = 0;           // written before the barrier opens
  int file = -1;
  PlayResult result;

  explicit Shared(const PlayPlan& of)
      : plan(&of),
        semaphores(of.semaphores.size()),
        begin(of.threads.size()),
        done(of.threads.size()),
        over(of.threads.size()) {}
  ~Shared() {
    if (file >= 0) close(file);
  }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
};

class SchedStat {
 public:
  SchedStat() noexcept : fd_(open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)) {}
  ~SchedStat() {
    if (fd_ >= 0) close(fd_);
  }
  SchedStat(const SchedStat&) = delete;
  SchedStat& operator=(const SchedStat&) = delete;
  // Time spent ready and not running, so far.
  [[nodiscard]] std::int64_t ready_ns() const noexcept {
    char text[128] = {};
    if (fd_ < 0 || pread(fd_, text, sizeof text - 1, 0) <= 0) return 0;
    char* end = nullptr;
    std::strtoll(text, &end, 10);
    return std::strtoll(end, nullptr, 10);
  }

 private:
  int fd_;
};

// Keeps idle CPUs polling (the kernel's latency request, PM QoS): a halted one takes 20 to 60 us to wake in a
// virtual machine. Needs root; without it wake-ups are as late as they are.
class AwakeCpus {
 public:
  explicit AwakeCpus(bool wanted) noexcept
      : fd_(wanted ? ::open("/dev/cpu_dma_latency", O_WRONLY | O_CLOEXEC) : -1) {
    const std::int32_t latency_us = 0;
    if (fd_ >= 0 && write(fd_, &latency_us, sizeof latency_us) != sizeof latency_us) {
      close(fd_);
      fd_ = -1;
    }
  }
  ~AwakeCpus() {
    if (fd_ >= 0) close(fd_);  // the request ends with the descriptor
  }
  AwakeCpus(const AwakeCpus&) = delete;
  AwakeCpus& operator=(const AwakeCpus&) = delete;
  [[nodiscard]] bool held() const noexcept { return fd_ >= 0; }

 private:
  int fd_;
};

class HeldMemory {
 public:
  ~HeldMemory() { hold(0); }
  void hold(std::int64_t bytes) noexcept {
    if (memory_ != nullptr) munmap(memory_, static_cast<std::size_t>(bytes_));
    memory_ = nullptr;
    bytes_ = bytes;
    if (bytes <= 0) return;
    void* got = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (got == MAP_FAILED) return;
    memory_ = got;
    auto* cells = static_cast<volatile char*>(got);
    for (std::int64_t i = 0; i < bytes; i += 4096) cells[i] = 1;
  }

 private:
  void* memory_ = nullptr;
  std::int64_t bytes_ = 0;
};

class Player {
 public:
  Player(Shared& shared, std::size_t index)
      : shared_(shared), index_(index), played_(shared.result.threads[index]) {
    loops_.reserve(16);
    // Written once now: no page fault while playing.
    played_.slices.resize(
        shared.plan->max_slices * 3 / std::max<std::size_t>(shared.plan->threads.size(), 1) + 3);
    played_.slices.clear();
    played_.events.reserve(3 * (shared.plan->threads[index].size() + 1));
    buffer_.assign(shared.file >= 0 ? kBuffer : 1, 'x');
  }

  void thread() noexcept {
    const SchedStat stat;  // of this thread, so it is opened here
    if (!set_priority()) {
      shared_.refused.store(true, std::memory_order_relaxed);  // the count of those ready publishes it
    }
    thread_sleeper().learn(200'000, 5);
    // release: the main thread counts those that stand at the barrier
    shared_.ready.fetch_add(1, std::memory_order_release);
    const bool first = !shared_.plan->created[index_];
    Gate& gate = first ? shared_.barrier : shared_.begin[index_];
    if (!gate.pass(shared_.giving_up)) return;
    schedule_ns_ = gate.at_ns();
    const std::int64_t ready = stat.ready_ns();
    rusage before{};
    getrusage(RUSAGE_THREAD, &before);
    if (first) {
      // The barrier opens ahead of the start: whoever stood at it is awake when time zero comes.
      while (now_ns() < shared_.zero_ns) {
      }
    }
    const std::int64_t start = now_ns();
    cpu_start_ = thread_cpu_ns();
    account_ = cpu_start_;
    played_.started = true;
    play();
    const std::int64_t end = now_ns();
    const std::int64_t cpu = thread_cpu_ns();
    if (!ended_) finish();
    rusage after{};
    getrusage(RUSAGE_THREAD, &after);
    played_.run_ns = cpu - cpu_start_;
    played_.ready_ns = stat.ready_ns() - ready + held_back_ns_;
    played_.blocked_ns = std::max<std::int64_t>(0, end - start - played_.run_ns - played_.ready_ns);
    played_.switches = after.ru_nvcsw + after.ru_nivcsw - before.ru_nvcsw - before.ru_nivcsw;
    played_.faults = after.ru_minflt + after.ru_majflt - before.ru_minflt - before.ru_majflt;
    played_.end_ns = end - shared_.zero_ns;
    if (!begun_) played_.start_ns = start - shared_.zero_ns;  // it has nothing to do but wait for a CPU
    const std::int64_t late = played_.end_ns - schedule_ns_;
    if (shared_.plan->scheduled && std::abs(late) > std::abs(played_.late_ns)) played_.late_ns = late;
    shared_.over[index_].open();
  }

 private:
  static constexpr std::size_t kBuffer = 1U << 16U;

  // A lead below this isn't slept: the next sleep takes it up, since it ends by the schedule.
  static constexpr std::int64_t kShortestSleep_ns = 10'000;

  // A thread that has just been woken and would wait for its CPU no longer than this goes on at once: to go
  // to sleep and come back costs a few microseconds of CPU time, which is as much as many a run.
  static constexpr std::int64_t kShortestDelay_ns = 40'000;

  static constexpr std::int64_t kLongestTurn_ns = 300'000;

  [[nodiscard]] bool set_priority() const noexcept {
    if (shared_.plan->priority == Priority::kRealTime) {
      const sched_param priority{.sched_priority = 10};
      return pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority) == 0;
    }
    // On Linux a thread has a nice value of its own.
    return shared_.plan->priority == Priority::kUsual ||
           setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), -20) == 0;
  }

  // Until it is this action's turn, or for so long: what comes before may be late for other reasons.
  void await_turn(std::int64_t turn) const noexcept {
    if (turn < 0) return;
    const std::int64_t limit = now_ns() + kLongestTurn_ns;
    // acquire: what was done before is seen to have been done before
    while (shared_.turn.load(std::memory_order_acquire) < turn && now_ns() < limit) {
      sched_yield();  // whose turn it is may want this CPU
    }
  }

  void pass_turn(std::int64_t turn) const noexcept {
    if (turn < 0) return;
    std::int64_t now = shared_.turn.load(std::memory_order_relaxed);
    // release: pairs with the acquire of those that wait for their turn
    while (now <= turn && !shared_.turn.compare_exchange_weak(now, turn + 1, std::memory_order_release,
                                                              std::memory_order_relaxed)) {
    }
  }

  void finish() noexcept {
    ended_ = true;
    shared_.done[index_].open(schedule_ns_);
  }

  // Off the CPU for `ns`. By the schedule, waits that follow one another are one: nothing runs between them,
  // and each end has its own time, so that one that came late doesn't make the next one late.
  void rest(std::int64_t from, std::int64_t ns, bool woken, bool more_follows) noexcept {
    if (!shared_.plan->scheduled) {
      thread_sleeper().sleep_until(from + ns, SleepMode::kCorrected);
      return;
    }
    schedule_ns_ += ns;
    const std::int64_t due = shared_.zero_ns + schedule_ns_;
    if (!more_follows && due - from > (woken ? kShortestDelay_ns : kShortestSleep_ns)) {
      thread_sleeper().sleep_until(due, SleepMode::kCorrected);
    }
  }

  void note(std::int64_t at, const Action& action) noexcept {
    if (played_.events.size() + 3 > played_.events.capacity()) return;
    played_.events.insert(played_.events.end(),
                          {at - shared_.zero_ns, action.verb == Verb::kCreate ? 0 : 1, action.target});
  }

  void slice(std::int64_t from, std::int64_t to, std::int64_t kind) noexcept {
    if (played_.slices.size() + 3 > played_.slices.capacity()) return;
    played_.slices.insert(played_.slices.end(), {from - shared_.zero_ns, to - shared_.zero_ns, kind});
  }

  void transfer(const Action& action) noexcept {
    const auto block =
        static_cast<std::int64_t>(std::min<std::size_t>(static_cast<std::size_t>(action.target), kBuffer));
    for (std::int64_t done = 0; done < action.amount;) {
      const auto size = static_cast<std::size_t>(std::min(block, action.amount - done));
      const auto moved = action.verb == Verb::kRead ? pread(shared_.file, buffer_.data(), size, done)
                                                    : pwrite(shared_.file, buffer_.data(), size, done);
      if (moved <= 0) return;  // the end of a file that is shorter than what is read
      done += moved;
    }
  }

  void play() noexcept {
    const auto& actions = shared_.plan->threads[index_];
    std::size_t at = 0;
    while (at < actions.size()) {
      const Action& action = actions[at];
      const bool resting_next = at + 1 < actions.size() && (actions[at + 1].verb == Verb::kSleep ||
                                                            actions[at + 1].verb == Verb::kReady);
      const std::int64_t from = now_ns();
      if (!begun_ && action.verb != Verb::kReady) {
        begun_ = true;
        played_.start_ns = from - shared_.zero_ns;
        if (shared_.plan->scheduled) played_.late_ns = played_.start_ns - schedule_ns_;
      }
      // A wait's own cost lies in the account of the run that follows it, as in the program that was
      // captured.
      switch (action.verb) {
        case Verb::kRun:
          account_ += action.amount;
          schedule_ns_ += action.amount;
          played_.budget_ns += action.amount;
          spin_cpu_until(account_);
          slice(from, now_ns(), 0);
          break;
        case Verb::kSleep:
          rest(from, action.amount, false, resting_next);
          slice(from, now_ns(), 1);
          break;
        case Verb::kReady:
          // Without a schedule the threads contend for the CPUs by themselves.
          if (!shared_.plan->scheduled) break;
          rest(from, action.amount, at > 0 && actions[at - 1].verb == Verb::kWait, resting_next);
          held_back_ns_ += now_ns() - from;
          slice(from, now_ns(), 2);
          break;
        case Verb::kCreate:
          await_turn(action.turn);
          note(now_ns(), action);
          shared_.begin[static_cast<std::size_t>(action.target)].open(schedule_ns_);
          pass_turn(action.turn);
          break;
        case Verb::kJoin: {
          Gate& gate = shared_.done[static_cast<std::size_t>(action.target)];
          await_turn(action.turn);
          const std::int64_t come = now_ns();
          if (!gate.pass(shared_.giving_up)) return;
          schedule_ns_ = std::max(schedule_ns_, gate.at_ns());
          // As in a capture: a join is when it is let go, and not when a CPU is free for it.
          note(std::max(come, gate.opened_ns()), action);
          pass_turn(action.turn);
          slice(from, now_ns(), 1);
          break;
        }
        case Verb::kSignal:
          shared_.semaphores[static_cast<std::size_t>(action.target)].post(schedule_ns_);
          break;
        case Verb::kWait: {
          const std::int64_t posted =
              shared_.semaphores[static_cast<std::size_t>(action.target)].wait(shared_.giving_up);
          if (posted < 0) return;
          schedule_ns_ = std::max(schedule_ns_, posted);
          slice(from, now_ns(), 1);
          break;
        }
        case Verb::kRepeat:
          if (action.amount == 0) {
            at = static_cast<std::size_t>(action.target);
          } else {
            loops_.push_back(action.amount);
          }
          break;
        case Verb::kEnd:
          if (--loops_.back() > 0) {
            at = static_cast<std::size_t>(action.target);
          } else {
            loops_.pop_back();
          }
          break;
        case Verb::kMemory:
          memory_.hold(action.amount);
          break;
        case Verb::kRead:
        case Verb::kWrite:
          transfer(action);
          slice(from, now_ns(), 1);
          break;
        case Verb::kFsync:
          fsync(shared_.file);
          slice(from, now_ns(), 1);
          break;
        case Verb::kExit:
          await_turn(action.turn);
          finish();
          pass_turn(action.turn);
          break;
      }
      if (shared_.giving_up.load(std::memory_order_relaxed)) return;  // relaxed: one action late does no harm
      ++at;
    }
    played_.finished = true;
  }

  Shared& shared_;
  std::size_t index_;
  PlayedThread& played_;
  HeldMemory memory_;
  std::vector<std::int64_t> loops_;
  std::vector<char> buffer_;
  std::int64_t cpu_start_ = 0;
  std::int64_t account_ = 0;
  std::int64_t schedule_ns_ = 0;  // when what this thread has done would have ended if nothing were ever late
  std::int64_t held_back_ns_ = 0;  // by `ready`
  bool begun_ = false;
  bool ended_ = false;
};

bool uses_file(const PlayPlan& plan) noexcept {
  for (const auto& thread : plan.threads) {
    for (const auto& action : thread) {
      if (action.verb == Verb::kRead || action.verb == Verb::kWrite || action.verb == Verb::kFsync)
        return true;
    }
  }
  return false;
}

// How long before time zero the barrier opens. Threads that start there have to share CPUs where they are
// more than these: then spinning would only delay those that have none.
std::int64_t muster_ns(const PlayPlan& plan) noexcept {
  constexpr std::int64_t kMuster_ns = 400'000;
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  const auto first = std::count(plan.created.begin(), plan.created.end(), false);
  const bool fits = sched_getaffinity(0, sizeof allowed, &allowed) == 0 && first <= CPU_COUNT(&allowed);
  return fits ? kMuster_ns : 0;
}

}  // namespace

PlayResult play(const PlayPlan& plan) {
  spin_calibration();
  Shared shared(plan);
  const AwakeCpus awake(plan.scheduled);
  shared.result.awake = awake.held();
  shared.result.threads.resize(plan.threads.size());
  for (std::size_t i = 0; i < plan.semaphores.size(); ++i) shared.semaphores[i].set(plan.semaphores[i]);
  if (uses_file(plan)) {
    shared.file = open(plan.io_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (shared.file < 0) throw std::runtime_error(plan.io_path + ": " + std::strerror(errno));
  }
  std::vector<std::unique_ptr<Player>> players;
  std::vector<std::thread> threads;
  threads.reserve(plan.threads.size());
  try {
    for (std::size_t i = 0; i < plan.threads.size(); ++i) {
      players.push_back(std::make_unique<Player>(shared, i));
      threads.emplace_back(&Player::thread, players.back().get());
    }
  } catch (...) {
    shared.giving_up.store(true, std::memory_order_relaxed);  // join() publishes
    for (auto& thread : threads) thread.join();
    throw;
  }
  // acquire: pairs with the release of each thread that has come to the barrier
  while (shared.ready.load(std::memory_order_acquire) < threads.size())
    thread_sleeper().sleep(100'000, SleepMode::kPlain);
  thread_sleeper().sleep(2'000'000, SleepMode::kPlain);  // the last of them reaches its futex
  shared.result.refused = shared.refused.load(std::memory_order_relaxed);
  shared.zero_ns = now_ns() + muster_ns(plan);
  const std::int64_t limit = shared.zero_ns + plan.timeout_ns;
  shared.barrier.open();
  for (auto& over : shared.over) {
    if (over.pass_before(limit)) continue;
    shared.giving_up.store(true, std::memory_order_relaxed);  // the waits look at it every turn
    shared.result.timed_out = true;
    break;
  }
  for (auto& thread : threads) thread.join();
  for (const auto& thread : shared.result.threads) {
    shared.result.total_ns = std::max(shared.result.total_ns, thread.end_ns);
  }
  return std::move(shared.result);
}

}  // namespace latlab::stubs
