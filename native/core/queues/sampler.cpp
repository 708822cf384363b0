// Over 400 lines: one loop, with what it may read between two sweeps and may not allocate.
#include "queues/sampler.hpp"

#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <system_error>
#include <utility>

namespace latlab::queues {

namespace {

constexpr std::uint64_t kHandOverNs = 20'000'000;  // a chunk is handed over at the latest after so long

constexpr std::size_t kFenced = 8;  // queues with stamps of their own between two ordered readings
constexpr std::size_t kAhead = 12;  // queues

// The counter, read before whatever is read at an address that `zero` is added to. On x86 without a fence:
// `zero` is 0, computed from the reading, so that no such address is known earlier (an ordered reading takes
// 22 ns on the reference machine, a plain one 10).
inline std::uint64_t ticks_before(std::size_t& zero) noexcept {
#if defined(__x86_64__)
  const std::uint64_t now = ticks();
  zero = now;
  asm volatile("andl $0, %k0" : "+r"(zero) : : "cc");  // no idiom that a CPU takes for a constant
  return now;
#else
  zero = 0;
  return ticks_ordered();
#endif
}

// The counter has one writer: no read-modify-write is needed.
void add(std::atomic<std::uint64_t>& count, std::uint64_t more) noexcept {
  count.store(count.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
}

}  // namespace

// A target as the sweep reads it, and what it was at the last look. Ten thousand of them and their counts are
// read from end to end at every sweep: every byte here is time.
struct Sampler::Watch {
  const QueueHot* hot =
      nullptr;  // of its first producer's part; its consumer's too, unless there are several
  std::uint64_t in = kNever;
  std::uint64_t out = kNever;
  std::uint64_t refused = 0;  // dropped + blocked: neither ever falls, so the sum changes with either
  std::uint32_t queue = 0;
  std::uint32_t several = 0;  // 1 + index into Plan::several where it has more parts than one; or kMirrored

  static constexpr std::uint64_t kNever = ~0ULL;
  static constexpr std::uint32_t kMirrored = ~0U;  // in another process's memory
};

// When a queue was looked at last; used by adaptive sampling alone.
struct Sampler::Pace {
  std::uint64_t looked = 0;  // sweep
  std::uint32_t skip = 0;
};

struct Sampler::Plan {
  struct Several {
    bool adds = false;
    std::vector<const ProducerLine*> producers;
    std::vector<const ConsumerLine*> consumers;
  };
  struct Claim {
    const QueueDescriptor* descriptor;
    std::uint32_t generation;
  };

  std::vector<std::shared_ptr<const CounterReader>> readers;  // keeps what the pointers below point into
  std::vector<std::uint64_t> versions;
  std::vector<std::shared_ptr<Mirror>> mirrors;
  std::vector<Watch> watches;           // those of mirrors first, since they were copied first
  std::vector<Pace> paces;              // one a watch
  std::vector<std::uint32_t> position;  // by queue number: 1 + index of its watch
  std::vector<Several> several;
  std::vector<std::vector<Claim>> claims;  // by queue number

  [[nodiscard]] bool current() const noexcept {
    for (std::size_t i = 0; i < readers.size(); ++i) {
      // acquire: after the counts that were read before it
      if (readers[i]->header().topology_version.load(std::memory_order_acquire) != versions[i]) return false;
    }
    return true;
  }
  [[nodiscard]] bool still_owns(std::uint32_t queue) const noexcept {
    return std::all_of(claims[queue].begin(), claims[queue].end(), [](const Claim& claim) {
      return claim.descriptor->generation.load(std::memory_order_acquire) == claim.generation;
    });
  }
  [[nodiscard]] QueueCounts read(const Several& from, int retries) const noexcept;
};

QueueCounts Sampler::Plan::read(const Several& from, int retries) const noexcept {
  const auto join = [&](std::uint64_t total, std::uint64_t part) {
    return from.adds ? total + part : std::max(total, part);
  };
  const auto outs = [&] {
    std::uint64_t total = 0;
    for (const auto* line : from.consumers) total = join(total, line->out.load(std::memory_order_acquire));
    return total;
  };
  QueueCounts counts;
  counts.out_high = outs();
  for (int i = 0; i <= retries; ++i) {
    counts.out_low = counts.out_high;
    counts.in = 0;
    for (const auto* line : from.producers) {
      counts.in = join(counts.in, line->in.load(std::memory_order_acquire));
    }
    counts.out_high = outs();
    if (counts.out_low == counts.out_high) break;
  }
  for (const auto* line : from.producers) {
    counts.dropped += line->dropped.load(std::memory_order_relaxed);
    counts.blocked += line->blocked.load(std::memory_order_relaxed);
  }
  for (const auto* line : from.consumers) counts.empty += line->empty.load(std::memory_order_relaxed);
  return counts;
}

Sampler::Sampler(const SamplerOptions& options)
    : options_(options), chunks_(options.chunks), period_ns_(options.period_ns) {
  for (Chunk& chunk : chunks_) {
    chunk.samples.resize(options.chunk_samples);
    chunk.sweeps.resize(1024);
    chunk.gaps.resize(256);
  }
}

Sampler::~Sampler() {
  stop();
  delete next_.exchange(nullptr);
  delete retired_.exchange(nullptr);
}

void Sampler::set_plan(std::vector<std::shared_ptr<const CounterReader>> readers,
                       std::vector<std::uint64_t> versions, const std::vector<Target>& targets,
                       std::vector<std::shared_ptr<Mirror>> mirrors) {
  auto plan = std::make_unique<Plan>();
  plan->readers = std::move(readers);
  plan->versions = std::move(versions);
  std::uint32_t numbers = 0;
  for (const Target& target : targets) numbers = std::max(numbers, target.queue + 1);
  plan->position.resize(numbers);
  plan->claims.resize(numbers);
  plan->watches.reserve(targets.size());
  for (const Target& target : targets) {
    if (target.producers.empty() || target.consumers.empty()) continue;
    Plan::Several parts{.adds = target.adds, .producers = {}, .consumers = {}};
    const auto hot = [&](const Part& part) -> const QueueHot& {
      const CounterReader& reader = *plan->readers[part.reader];
      plan->claims[target.queue].push_back({&reader.queue(part.slot), part.generation});
      return reader.counts(part.slot);
    };
    for (const Part& part : target.producers) parts.producers.push_back(&hot(part).producer);
    for (const Part& part : target.consumers) parts.consumers.push_back(&hot(part).consumer);
    Watch watch;
    const Part& first = target.producers.front();
    watch.hot = &plan->readers[first.reader]->counts(first.slot);
    watch.queue = target.queue;
    const bool alone = parts.producers.size() == 1 && parts.consumers.size() == 1 &&
                       parts.consumers.front() == &watch.hot->consumer;
    if (first.reader < mirrors.size() && mirrors[first.reader] != nullptr) {
      watch.several = Watch::kMirrored;
    } else if (!alone) {
      plan->several.push_back(std::move(parts));
      watch.several = static_cast<std::uint32_t>(plan->several.size());
    }
    plan->watches.push_back(watch);
  }
  std::stable_partition(plan->watches.begin(), plan->watches.end(),
                        [](const Watch& watch) { return watch.several == Watch::kMirrored; });
  plan->paces.resize(plan->watches.size());
  for (std::size_t i = 0; i < plan->watches.size(); ++i) {
    plan->position[plan->watches[i].queue] = static_cast<std::uint32_t>(i + 1);
  }
  std::erase(mirrors, nullptr);
  plan->mirrors = std::move(mirrors);
  delete retired_.exchange(nullptr, std::memory_order_acquire);
  delete next_.exchange(plan.release(), std::memory_order_acq_rel);
}

void Sampler::adopt_plan() noexcept {
  if (next_.load(std::memory_order_relaxed) == nullptr) return;
  std::unique_ptr<Plan> plan(next_.exchange(nullptr, std::memory_order_acq_rel));
  if (plan_ != nullptr) {
    // A queue that was watched before goes on from what it was.
    for (std::size_t i = 0; i < plan->watches.size(); ++i) {
      Watch& watch = plan->watches[i];
      if (watch.queue >= plan_->position.size() || plan_->position[watch.queue] == 0) continue;
      const std::size_t before = plan_->position[watch.queue] - 1;
      watch.in = plan_->watches[before].in;
      watch.out = plan_->watches[before].out;
      watch.refused = plan_->watches[before].refused;
      plan->paces[i] = plan_->paces[before];
    }
    // set_plan has emptied the place before it published the plan that we have just taken
    retired_.store(plan_.release(), std::memory_order_release);
  }
  plan_ = std::move(plan);
  stale_.store(false, std::memory_order_relaxed);
}

void Sampler::start() {
  // Signals are for the controlling thread.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  sigdelset(&all, SIGBUS);  // a counter file that is cut short: its handler must run here (guarded_map.hpp)
  pthread_sigmask(SIG_SETMASK, &all, &before);
  stop_.store(false);
  thread_ = std::thread([this] { run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  set_scheduling();
}

void Sampler::set_scheduling() {
  trouble_.clear();
  const auto complain = [this](const char* what, int code) {
    if (code == 0) return;
    if (!trouble_.empty()) trouble_ += "; ";
    trouble_ += std::string(what) + ": " + std::generic_category().message(code);
  };
  if (options_.cpu >= 0) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<unsigned>(options_.cpu), &set);
    complain("pinning the sampler", pthread_setaffinity_np(thread_.native_handle(), sizeof set, &set));
  }
  if (options_.priority > 0) {
    const sched_param parameter{.sched_priority = options_.priority};
    complain("SCHED_FIFO for the sampler",
             pthread_setschedparam(thread_.native_handle(), SCHED_FIFO, &parameter));
  }
}

void Sampler::stop() noexcept {
  if (!thread_.joinable()) return;
  stop_.store(true, std::memory_order_relaxed);
  thread_.join();
}

void Sampler::run() noexcept {
  prctl(PR_SET_TIMERSLACK, 1UL);
  timer_slack_ns_.store(static_cast<std::uint64_t>(prctl(PR_GET_TIMERSLACK)), std::memory_order_relaxed);
  std::uint64_t deadline = monotonic_ns();
  while (!stop_.load(std::memory_order_relaxed)) {
    const std::uint64_t period = period_ns_.load(std::memory_order_relaxed);
    deadline += period;
    const timespec until{static_cast<time_t>(deadline / 1'000'000'000U),
                         static_cast<long>(deadline % 1'000'000'000U)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
    }
    const std::uint64_t now = monotonic_ns();
    if (now >= deadline + period) {
      const std::uint64_t missed = (now - deadline) / period;
      add_gap(deadline, deadline + missed * period, missed, GapCause::late);
      add(missed_, missed);
      deadline += missed * period;
    }
    sweep_at(now);
  }
  flush();
}

void Sampler::flush() noexcept {
  if (chunk_ != nullptr) close_chunk();
  cpu_ns_.store(clock_ns(CLOCK_THREAD_CPUTIME_ID), std::memory_order_relaxed);
}

void Sampler::sweep_at(std::uint64_t now_ns) noexcept {
  adopt_plan();
  if (plan_ == nullptr) return;
  Plan& plan = *plan_;
  ++sweep_number_;
  const std::size_t count = plan.watches.size();
  // With a stamp each, a sample's first stamp is its own; the second comes once a few.
  const bool own_stamps = options_.stamp_every == 1;
  const std::size_t asked = own_stamps ? kFenced : options_.stamp_every;
  const std::size_t group = std::min(asked == 0 ? count : asked, options_.chunk_samples);
  if (!make_room(plan, std::min(group, count), now_ns)) return;
  sweep_first_ = chunk_->sample_count;
  std::uint64_t read = 0;
  const std::uint64_t start = ticks_ordered();
  std::uint64_t begin = start;
  for (const auto& mirror : plan.mirrors) mirror->refresh();
  for (std::size_t from = 0; from < count; from += group) {
    const std::size_t to = std::min(from + group, count);
    if (!make_room(plan, to - from, now_ns)) return;
    if (own_stamps) {
      for (std::size_t i = from; i < to; ++i) {
        std::size_t zero = 0;
        const std::uint64_t own = ticks_before(zero);
        read += look(plan, i, own, zero);
      }
    } else {
      for (std::size_t i = from; i < to; ++i) read += look(plan, i, begin, 0);
    }
    begin = ticks_ordered();
    stamp(begin);
  }
  discard_strangers(plan);
  SweepRow& row = chunk_->sweeps[chunk_->sweep_count++];
  row.begin_ticks = start;
  row.duration_ticks = static_cast<std::uint32_t>(std::min<std::uint64_t>(begin - start, ~0U));
  row.read = static_cast<std::uint32_t>(read);
  add(reads_, read);
  add(sweeps_, 1);
  if (now_ns - opened_ns_ >= kHandOverNs) close_chunk();
}

// Looks at a queue; 1 where it was its turn. `zero` is 0, and ties the reads to whatever it was computed
// from.
inline std::uint64_t Sampler::look(Plan& plan, std::size_t index, std::uint64_t begin,
                                   std::size_t zero) noexcept {
  Watch& watch = plan.watches[index];
  std::uint32_t skipped = 0;
  if (options_.longest_skip != 0) {
    Pace& pace = plan.paces[index];
    const std::uint64_t unread = sweep_number_ - pace.looked - 1;
    if (unread < pace.skip) return 0;
    pace.looked = sweep_number_;
    skipped = watch.in == Watch::kNever ? 0 : static_cast<std::uint32_t>(unread);
  }
  const QueueHot& hot = *(watch.hot + zero);
  __builtin_prefetch(&(watch.hot + kAhead)->producer);  // registered in turn, so most lie in a row
  __builtin_prefetch(&(watch.hot + kAhead)->consumer);
  QueueCounts counts;
  if (watch.several == 0) [[likely]] {
    counts = read_counts(hot.producer, hot.consumer, options_.retries);
  } else if (watch.several == Watch::kMirrored) {
    counts = {.in = hot.producer.in.load(std::memory_order_relaxed),
              .out_low = hot.consumer.cached_in,
              .out_high = hot.consumer.out.load(std::memory_order_relaxed)};
  } else {
    counts = plan.read(plan.several[watch.several - 1], options_.retries);
  }
  const std::uint64_t refused = counts.dropped + counts.blocked;
  if (counts.in == watch.in && counts.out_high == watch.out && counts.out_low == watch.out &&
      refused == watch.refused) [[likely]] {
    if (options_.longest_skip != 0) {
      Pace& pace = plan.paces[index];
      pace.skip = std::min(options_.longest_skip, pace.skip * 2 + 1);
    }
    return 1;
  }
  if (counts.out_low != counts.out_high) add(torn_, 1);
  if (options_.longest_skip != 0) plan.paces[index].skip = 0;
  watch.in = counts.in;
  watch.out = counts.out_high;
  watch.refused = refused;
  chunk_->samples[chunk_->sample_count++] = {
      begin,        0,           counts.in, counts.out_low, counts.out_high, counts.dropped, counts.blocked,
      counts.empty, watch.queue, skipped};
  return 1;
}

void Sampler::stamp(std::uint64_t end) noexcept {
  for (; stamped_ < chunk_->sample_count; ++stamped_) chunk_->samples[stamped_].end_ticks = end;
}

// Takes back the samples of this sweep that were read while their slot belonged to another queue.
void Sampler::discard_strangers(const Plan& plan) noexcept {
  if (!plan.current()) {
    stale_.store(true, std::memory_order_relaxed);
    std::size_t kept = sweep_first_;
    for (std::size_t i = sweep_first_; i < chunk_->sample_count; ++i) {
      if (plan.still_owns(chunk_->samples[i].queue)) chunk_->samples[kept++] = chunk_->samples[i];
    }
    add(discarded_, chunk_->sample_count - kept);
    chunk_->sample_count = kept;
    stamped_ = kept;
  }
  add(samples_, chunk_->sample_count - sweep_first_);
  sweep_first_ = chunk_->sample_count;
}

bool Sampler::make_room(const Plan& plan, std::size_t samples, std::uint64_t now_ns) noexcept {
  if (chunk_ != nullptr) {
    const bool fits = chunk_->sample_count + samples <= chunk_->samples.size() &&
                      chunk_->sweep_count < chunk_->sweeps.size() &&
                      chunk_->gap_count + 2 <= chunk_->gaps.size();
    if (fits) return true;
    discard_strangers(plan);
    close_chunk();
  }
  // acquire: the controlling thread has read all of a chunk before it gave it back
  if (written_.load(std::memory_order_relaxed) - drained_.load(std::memory_order_acquire) == chunks_.size()) {
    if (no_room_.periods == 0) no_room_ = {now_ns, now_ns, 0, GapCause::no_room};
    ++no_room_.periods;
    add(lost_, 1);
    return false;
  }
  chunk_ = &chunks_[written_.load(std::memory_order_relaxed) % chunks_.size()];
  chunk_->sample_count = chunk_->sweep_count = chunk_->gap_count = 0;
  stamped_ = sweep_first_ = 0;
  opened_ns_ = now_ns;
  if (no_room_.periods != 0) {
    no_room_.to_ns = now_ns;
    chunk_->gaps[chunk_->gap_count++] = std::exchange(no_room_, GapRow{});
  }
  return true;
}

void Sampler::add_gap(std::uint64_t from_ns, std::uint64_t to_ns, std::uint64_t periods,
                      GapCause cause) noexcept {
  if (plan_ == nullptr || !make_room(*plan_, 0, from_ns)) return;
  chunk_->gaps[chunk_->gap_count++] = {from_ns, to_ns, static_cast<std::uint32_t>(periods), cause};
}

void Sampler::close_chunk() noexcept {
  cpu_ns_.store(clock_ns(CLOCK_THREAD_CPUTIME_ID), std::memory_order_relaxed);
  chunk_ = nullptr;
  written_.store(written_.load(std::memory_order_relaxed) + 1,
                 std::memory_order_release);  // all of the chunk
}

const Chunk* Sampler::front() const noexcept {
  const std::uint64_t drained = drained_.load(std::memory_order_relaxed);
  if (written_.load(std::memory_order_acquire) == drained) return nullptr;  // the chunk before its count
  return &chunks_[drained % chunks_.size()];
}

void Sampler::release() noexcept {
  drained_.store(drained_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

SamplerStatistics Sampler::statistics() const {
  const auto get = [](const std::atomic<std::uint64_t>& count) {
    return count.load(std::memory_order_relaxed);
  };
  return {.sweeps = get(sweeps_),
          .samples = get(samples_),
          .reads = get(reads_),
          .torn = get(torn_),
          .missed_periods = get(missed_),
          .lost_periods = get(lost_),
          .discarded = get(discarded_),
          .cpu_ns = get(cpu_ns_),
          .timer_slack_ns = get(timer_slack_ns_),
          .trouble = trouble_};
}

}  // namespace latlab::queues
