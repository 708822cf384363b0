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

// The counter has one writer: no read-modify-write is needed.
void add(std::atomic<std::uint64_t>& count, std::uint64_t more) noexcept {
  count.store(count.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
}

std::uint64_t thread_cpu_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace

struct Sampler::Watch {
  const ProducerLine* producer = nullptr;
  const ConsumerLine* consumer = nullptr;
  std::uint32_t queue = 0;
  std::uint32_t several = 0;  // 1 + index into Plan::several where it has more parts than these two
};

constexpr std::uint32_t kMirrored = ~0U;  // Watch::several of a queue in another process's memory

struct Sampler::Last {
  std::uint64_t in = 0;
  std::uint64_t out = 0;
  std::uint64_t dropped = 0;
  std::uint64_t blocked = 0;
  std::uint64_t looked = 0;  // sweep of the last look
  std::uint32_t skip = 0;
  bool seen = false;
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
  std::vector<Watch> watches;  // those of mirrors first, since they were copied first
  std::vector<Last> last;      // by queue number
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
  plan->last.resize(numbers);
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
    Watch watch{parts.producers.front(), parts.consumers.front(), target.queue, 0};
    const std::size_t reader = target.producers.front().reader;
    if (reader < mirrors.size() && mirrors[reader] != nullptr) {
      watch.several = kMirrored;
    } else if (parts.producers.size() > 1 || parts.consumers.size() > 1) {
      plan->several.push_back(std::move(parts));
      watch.several = static_cast<std::uint32_t>(plan->several.size());
    }
    plan->watches.push_back(watch);
  }
  std::stable_partition(plan->watches.begin(), plan->watches.end(),
                        [](const Watch& watch) { return watch.several == kMirrored; });
  std::erase(mirrors, nullptr);
  plan->mirrors = std::move(mirrors);
  delete retired_.exchange(nullptr, std::memory_order_acquire);
  delete next_.exchange(plan.release(), std::memory_order_acq_rel);
}

void Sampler::adopt_plan() noexcept {
  if (next_.load(std::memory_order_relaxed) == nullptr) return;
  std::unique_ptr<Plan> plan(next_.exchange(nullptr, std::memory_order_acq_rel));
  if (plan_ != nullptr) {
    const std::size_t known = std::min(plan_->last.size(), plan->last.size());
    std::copy_n(plan_->last.begin(), known, plan->last.begin());
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
  cpu_ns_.store(thread_cpu_ns(), std::memory_order_relaxed);
}

void Sampler::sweep_at(std::uint64_t now_ns) noexcept {
  adopt_plan();
  if (plan_ == nullptr) return;
  Plan& plan = *plan_;
  ++sweep_number_;
  const std::size_t count = plan.watches.size();
  const std::size_t group =
      std::min(options_.stamp_every == 0 ? count : options_.stamp_every, options_.chunk_samples);
  if (!make_room(plan, std::min(group, count), now_ns)) return;
  sweep_first_ = chunk_->sample_count;
  const std::uint64_t reads_before = reads_.load(std::memory_order_relaxed);
  const std::uint64_t start = ticks_ordered();
  std::uint64_t begin = start;
  for (const auto& mirror : plan.mirrors) mirror->refresh();
  for (std::size_t from = 0; from < count; from += group) {
    const std::size_t to = std::min(from + group, count);
    if (!make_room(plan, to - from, now_ns)) return;
    for (std::size_t i = from; i < to; ++i) look(plan, plan.watches[i], begin);
    begin = ticks_ordered();
    stamp(begin);
  }
  discard_strangers(plan);
  SweepRow& row = chunk_->sweeps[chunk_->sweep_count++];
  row.begin_ticks = start;
  row.duration_ticks = static_cast<std::uint32_t>(std::min<std::uint64_t>(begin - start, ~0U));
  row.read = static_cast<std::uint32_t>(reads_.load(std::memory_order_relaxed) - reads_before);
  add(sweeps_, 1);
  if (now_ns - opened_ns_ >= kHandOverNs) close_chunk();
}

void Sampler::look(Plan& plan, const Watch& watch, std::uint64_t begin) noexcept {
  Last& last = plan.last[watch.queue];
  const std::uint64_t unread = sweep_number_ - last.looked - 1;
  if (unread < last.skip) return;
  last.looked = sweep_number_;
  add(reads_, 1);
  QueueCounts counts;
  if (watch.several == 0) {
    counts = read_counts(*watch.producer, *watch.consumer, options_.retries);
  } else if (watch.several == kMirrored) {
    counts = {.in = watch.producer->in.load(std::memory_order_relaxed),
              .out_low = watch.consumer->cached_in,
              .out_high = watch.consumer->out.load(std::memory_order_relaxed)};
  } else {
    counts = plan.read(plan.several[watch.several - 1], options_.retries);
  }
  if (last.seen && counts.in == last.in && counts.out_high == last.out && counts.out_low == last.out &&
      counts.dropped == last.dropped && counts.blocked == last.blocked) {
    last.skip = std::min(options_.longest_skip, last.skip * 2 + 1);
    return;
  }
  if (counts.out_low != counts.out_high) add(torn_, 1);
  const std::uint32_t skipped = last.seen ? static_cast<std::uint32_t>(unread) : 0;
  last = {counts.in, counts.out_high, counts.dropped, counts.blocked, sweep_number_, 0, true};
  chunk_->samples[chunk_->sample_count++] = {
      begin,        0,           counts.in, counts.out_low, counts.out_high, counts.dropped, counts.blocked,
      counts.empty, watch.queue, skipped};
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
  cpu_ns_.store(thread_cpu_ns(), std::memory_order_relaxed);
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
