#include "jitter/collector.hpp"

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>
#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#endif

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <system_error>
#include <utility>

namespace latlab::jitter {
namespace {

// On aarch64 the counter may be read early: isb holds it in place. (Compiled, never run by us.)
inline std::uint64_t read_counter() noexcept {
#if defined(__aarch64__)
  order_reads();
#endif
  return ticks();
}

// The kernel clears a restartable sequence's pointer when it resumes a preempted thread whose instruction
// pointer is outside of that sequence (rseq(2)). A pointer to a sequence that we never enter is thus a flag
// of preemption.
class PreemptionFlag {
 public:
  void arm() noexcept {
#if defined(RSEQ_SIG)
    if (__rseq_size == 0) return;
    area_ = reinterpret_cast<struct rseq*>(static_cast<char*>(__builtin_thread_pointer()) + __rseq_offset);
    never_.start_ip = reinterpret_cast<std::uint64_t>(&never_);  // data: no instruction pointer is in it
    never_.post_commit_offset = 1;
    // The kernel kills a thread whose abort handler is not preceded by the signature that libc registered.
    never_.abort_ip = reinterpret_cast<std::uint64_t>(&signature_[1]);
    set();
#endif
  }
  std::uint32_t take() noexcept {
#if defined(RSEQ_SIG)
    if (area_ == nullptr) return 2;
    const bool cleared =
        __atomic_load_n(&area_->rseq_cs, __ATOMIC_RELAXED) == 0;  // same thread: the kernel's write
    if (cleared) set();
    return cleared ? 1 : 0;
#else
    return 2;
#endif
  }
  void disarm() noexcept {
#if defined(RSEQ_SIG)
    if (area_ != nullptr) __atomic_store_n(&area_->rseq_cs, 0, __ATOMIC_RELAXED);
#endif
  }

 private:
#if defined(RSEQ_SIG)
  void set() noexcept {
    __atomic_store_n(&area_->rseq_cs, reinterpret_cast<std::uint64_t>(&never_), __ATOMIC_RELAXED);
  }
  struct rseq* area_ = nullptr;
  struct rseq_cs never_{};
  std::uint32_t signature_[2] = {RSEQ_SIG, 0};
#endif
};

constexpr std::size_t kTables = 8;

struct Block {
  std::array<std::uint64_t, kBlock> at;
};

// kBlock readings without a branch, and nothing between them but their stores: this counter waits for what is
// before it, so that counting in between made a reading 13.7 ns long in place of 9.8.
[[gnu::always_inline]] inline void read_block(Block& block) noexcept {
#pragma GCC unroll 48
  for (std::size_t i = 0; i < kBlock; ++i) block.at[i] = read_counter();
}

// From the reading before. Two instructions that each read memory: the compiler keeps every reading in a
// register as well, and needs three, which makes 97.7 % of the bare loop in place of 98.0.
[[gnu::always_inline]] inline std::uint64_t distance(const Block& block, std::size_t i) noexcept {
#if defined(__x86_64__)
  std::uint64_t delta;
  asm("movq %1, %0\n\tsubq %2, %0" : "=&r"(delta) : "m"(block.at[i]), "m"(block.at[i - 1]) : "cc");
  return delta;
#else
  return block.at[i] - block.at[i - 1];
#endif
}

// Counts the deltas inside of a block; the first reading's distance to the block before is the bridge, and
// not counted here. Returns whether one is over `slow`.
[[gnu::always_inline]] inline bool count_block(const Block& block, std::uint64_t* linear,
                                               std::uint64_t slow) noexcept {
  if (block.at[kBlock - 1] - block.at[0] <= slow) {
    // The whole block is no longer than one delta may be: nothing to test.
#pragma GCC unroll 47
    for (std::size_t i = 1; i < kBlock; ++i) linear[(i % kTables) * (kLinear + 1) + distance(block, i)] += 1;
    return false;
  }
  std::uint64_t over = 0;
#pragma GCC unroll 47
  for (std::size_t i = 1; i < kBlock; ++i) {
    const std::uint64_t delta = block.at[i] - block.at[i - 1];
    over |= slow - delta;  // the sign says that it is longer; no delta is of 2^63 ticks
    // A conditional move: the last slot takes the rest. Several tables in turn: most deltas are equal, and an
    // increment would wait for the one before.
    linear[(i % kTables) * (kLinear + 1) + (delta < kLinear ? delta : kLinear)] += 1;
  }
  return (over >> 63U) != 0;
}

// Not on the measured path any more. The marker first: behind a stopped trace it would be refused.
void end_trace(TraceStop files, int cpu) noexcept {
  std::array<char, 64> text{};
  const int length =
      std::snprintf(text.data(), text.size(), "latlab: a gap over the threshold on CPU %d\n", cpu);
  // What can't be written is for the caller to say, who opened the files.
  if (files.marker_fd >= 0)
    static_cast<void>(!write(files.marker_fd, text.data(), static_cast<std::size_t>(length)));
  if (files.on_fd >= 0) static_cast<void>(!write(files.on_fd, "0", 1));
}

}  // namespace

std::size_t log_bin(std::uint64_t delta) noexcept {
  const unsigned octave = 63U - static_cast<unsigned>(std::countl_zero(delta | 1U));
  const std::uint64_t part = (delta >> (octave - kSubBits)) & ((1U << kSubBits) - 1U);
  return (static_cast<std::size_t>(octave - kLinearBits) << kSubBits) + part;
}

std::uint64_t log_bin_upper(std::size_t bin) noexcept {
  const unsigned octave = kLinearBits + static_cast<unsigned>(bin >> kSubBits);
  const std::uint64_t part = bin & ((1U << kSubBits) - 1U);
  return (1ULL << octave) + ((part + 1) << (octave - kSubBits)) - 1;
}

struct Collector::Core {
  CoreRequest request;
  Collector* owner = nullptr;
  CoreResult result;
  std::vector<Gap> ring;
  pthread_t thread{};

  void gap(std::uint64_t end, std::uint64_t delta, std::uint32_t preempted) noexcept {
    result.gap_ticks += delta;
    const int cpu = sched_getcpu();  // vDSO or rseq: no system call
    if (cpu != request.cpu) ++result.migrations;
    if (!ring.empty()) ring[result.gaps % ring.size()] = {end, delta, preempted, cpu};
    ++result.gaps;
    count(delta);
    if (request.stop_ticks != 0 && delta > request.stop_ticks) {
      result.stopped = true;
      owner->stop_.store(true, std::memory_order_relaxed);
    }
  }
  void count(std::uint64_t delta) noexcept {
    if (delta < kLinear)
      ++result.linear[delta];
    else
      ++result.log[log_bin(delta)];
    result.max_ticks = std::max(result.max_ticks, delta);
  }
  void measure() noexcept;
  void slow_block(const Block& block, PreemptionFlag& flag) noexcept;
  void prepare();
};

void Collector::Core::prepare() {
  cpu_set_t* set = CPU_ALLOC(static_cast<std::size_t>(request.cpu) + 1);
  const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(request.cpu) + 1);
  CPU_ZERO_S(bytes, set);
  CPU_SET_S(static_cast<std::size_t>(request.cpu), bytes, set);
  result.affinity_error = pthread_setaffinity_np(pthread_self(), bytes, set);
  CPU_FREE(set);
  if (request.fifo_priority > 0) {
    sched_param parameter{};
    parameter.sched_priority = request.fifo_priority;
    result.scheduling_error = pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameter);
  }
  // Allocated and touched here, on the measuring core: its own node's memory, and no page fault later.
  result.cpu = request.cpu;
  result.linear.assign(kTables * (kLinear + 1), 0);
  result.log.assign(kLogBins, 0);
  ring.assign(request.ring, Gap{});
}

// A block that holds a delta over the lower one of threshold and table: the deltas once more, with branches.
void Collector::Core::slow_block(const Block& block, PreemptionFlag& flag) noexcept {
  std::uint64_t longest = 0;
  for (std::size_t i = 1; i < kBlock; ++i) longest = std::max(longest, block.at[i] - block.at[i - 1]);
  std::uint32_t preempted = 0;
  if (longest > request.threshold_ticks) preempted = flag.take();
  for (std::size_t i = 1; i < kBlock; ++i) {
    const std::uint64_t delta = block.at[i] - block.at[i - 1];
    if (delta > request.threshold_ticks) {
      result.pure_ticks -= delta;
      if (delta < kLinear) --result.linear[(i % kTables) * (kLinear + 1) + delta];  // gap() counts it again
      // One flag a block: it tells of the block's longest gap, which a preemption is.
      gap(block.at[i], delta, delta == longest || preempted == 2 ? preempted : 0);
    } else if (delta >= kLinear) {
      count(delta);
    }
  }
}

void Collector::Core::measure() noexcept {
  PreemptionFlag flag;
  flag.arm();
  Block block{};
  const std::uint64_t slow = std::min(request.threshold_ticks, kLinear - 1);
  std::uint64_t* linear = result.linear.data();
  result.begin = clock_reference();
  // The rate is not known yet to better than this; the result's own rate is taken over what really passed.
  const ClockReference early = clock_reference();
  while (monotonic_ns() - early.ns < 1'000'000U) {
  }
  const double hz = ticks_hz(early, clock_reference());
  result.begin = clock_reference();
  const auto length = static_cast<std::uint64_t>(static_cast<double>(request.duration_ns) * hz / 1e9);
  std::uint64_t last = read_counter();
  const std::uint64_t deadline = last + length;
  result.first_ticks = last;
  flag.take();
  while (last < deadline && !owner->stop_.load(std::memory_order_relaxed)) {  // relaxed: only that it comes
    if (request.pause_ns != 0) {
      const timespec pause{.tv_sec = static_cast<time_t>(request.pause_ns / 1'000'000'000U),
                           .tv_nsec = static_cast<long>(request.pause_ns % 1'000'000'000U)};
      nanosleep(&pause, nullptr);
      const std::uint64_t now = read_counter();
      result.paused_ticks += now - last;
      last = now;
      flag.take();
    }
    read_block(block);
    const std::uint64_t bridge = block.at[0] - last;
    result.pure_ticks += block.at[kBlock - 1] - block.at[0];
    last = block.at[kBlock - 1];
    ++result.bridges;
    if (bridge > request.threshold_ticks) {
      gap(block.at[0], bridge, flag.take());
    } else {
      result.bridge_ticks += bridge;
    }
    if (count_block(block, linear, slow)) slow_block(block, flag);
  }
  result.last_ticks = last;
  if (result.stopped) end_trace(owner->trace_stop_, request.cpu);
  result.end = clock_reference();
  flag.disarm();
  result.deltas = result.bridges * (kBlock - 1);
}

std::uint64_t automatic_threshold(double hz, std::uint64_t floor_ns, std::size_t readings) {
  std::vector<std::uint64_t> deltas(readings);
  std::uint64_t last = read_counter();
  for (auto& delta : deltas) {
    const std::uint64_t now = read_counter();
    delta = now - last;
    last = now;
  }
  const auto middle = deltas.begin() + static_cast<std::ptrdiff_t>(deltas.size() / 2);
  std::nth_element(deltas.begin(), middle, deltas.end());
  return std::max(10 * *middle, static_cast<std::uint64_t>(static_cast<double>(floor_ns) * hz / 1e9));
}

Collector::Collector(const std::vector<CoreRequest>& requests, TraceStop trace_stop)
    : trace_stop_(trace_stop) {
  for (const auto& request : requests) {
    auto core = std::make_unique<Core>();
    core->request = request;
    core->owner = this;
    cores_.push_back(std::move(core));
  }
}

Collector::~Collector() {
  stop();
  if (!joined_) join();
}

void* Collector::run(void* argument) {
  auto& core = *static_cast<Core*>(argument);
  Collector& owner = *core.owner;
  prctl(PR_SET_NAME, "latlab-jitter");
  core.prepare();
  // Release: what was prepared is done before the start is given.
  owner.waiting_.fetch_sub(1, std::memory_order_release);
  // Acquire: pairs with start().
  while (!owner.go_.load(std::memory_order_acquire)) sched_yield();
  if (core.result.affinity_error == 0) core.measure();
  // Release: the result is written before the core counts as finished.
  owner.running_.fetch_sub(1, std::memory_order_release);
  return nullptr;
}

void Collector::start() {
  if (!joined_) return;
  joined_ = false;
  go_ = false;
  stop_ = false;
  waiting_ = running_ = static_cast<int>(cores_.size());
  // 256 KiB of stack: a locked process must not hold 8 MiB a core.
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 256U << 10U);
  for (std::size_t i = 0; i < cores_.size(); ++i) {
    const int error = pthread_create(&cores_[i]->thread, &attributes, &Collector::run, cores_[i].get());
    if (error != 0) {
      stop_ = true;
      go_ = true;
      for (std::size_t k = 0; k < i; ++k) pthread_join(cores_[k]->thread, nullptr);
      pthread_attr_destroy(&attributes);
      joined_ = true;
      throw std::system_error(error, std::generic_category(), "starting a thread for each core");
    }
  }
  pthread_attr_destroy(&attributes);
  // Acquire: every core is prepared.
  while (waiting_.load(std::memory_order_acquire) > 0) sched_yield();
  go_.store(true, std::memory_order_release);
}

void Collector::stop() noexcept {
  stop_.store(true, std::memory_order_relaxed);
}

bool Collector::finished() const noexcept {
  return running_.load(std::memory_order_acquire) == 0;
}

std::vector<CoreResult> Collector::join() {
  std::vector<CoreResult> results;
  if (joined_) return results;
  for (auto& core : cores_) {
    pthread_join(core->thread, nullptr);
    CoreResult& result = core->result;
    result.threshold_ticks = core->request.threshold_ticks;
    for (std::size_t table = 1; table < kTables && result.linear.size() > kLinear + 1; ++table)
      for (std::size_t bin = 0; bin < kLinear; ++bin)
        result.linear[bin] += result.linear[table * (kLinear + 1) + bin];
    result.linear.resize(kLinear);
    for (std::size_t bin = 0; bin < result.linear.size(); ++bin)
      if (result.linear[bin] != 0) result.max_ticks = std::max<std::uint64_t>(result.max_ticks, bin);
    const std::size_t kept = std::min<std::size_t>(result.gaps, core->ring.size());
    if (result.gaps > kept && kept > 0)
      std::rotate(core->ring.begin(), core->ring.begin() + static_cast<std::ptrdiff_t>(result.gaps % kept),
                  core->ring.end());
    core->ring.resize(kept);
    result.ring = std::move(core->ring);
    results.push_back(std::move(result));
  }
  joined_ = true;
  return results;
}

double bare_readings_per_second(std::uint64_t duration_ns) {
  const ClockReference begin = clock_reference();
  const double hz = [&] {
    while (monotonic_ns() - begin.ns < 1'000'000U) {
    }
    return ticks_hz(begin, clock_reference());
  }();
  const auto length = static_cast<std::uint64_t>(static_cast<double>(duration_ns) * hz / 1e9);
  const std::uint64_t first = read_counter();
  std::uint64_t last = first;
  std::uint64_t count = 0;
  while (last - first < length) {
#pragma GCC unroll 48
    for (int i = 0; i < 64; ++i) last = read_counter();
    count += 64;
  }
  return static_cast<double>(count) * hz / static_cast<double>(last - first);
}

}  // namespace latlab::jitter
