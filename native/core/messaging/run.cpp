// Over 400 lines: one run from its start to its last message, whose loops share what an interrupt must find.
#include "messaging/run.hpp"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <new>
#include <span>
#include <stdexcept>
#include <utility>

#include "messaging/loops.hpp"
#include "messaging/plugin.hpp"
#include "messaging/ring.hpp"

namespace latlab::messaging {
namespace {

// How long this thread has been runnable without a CPU; 0 where the kernel doesn't say.
std::uint64_t waited_ns() {
  std::uint64_t ran = 0;
  std::uint64_t waited = 0;
  std::ifstream("/proc/thread-self/schedstat") >> ran >> waited;
  return waited;
}

struct Usage {
  Usage() { getrusage(RUSAGE_THREAD, &start); }
  void add_to(Side& side) const {
    rusage now{};
    getrusage(RUSAGE_THREAD, &now);
    side.cpu_ns = thread_cpu_ns() - cpu;
    side.minor_faults = static_cast<std::uint64_t>(now.ru_minflt - start.ru_minflt);
    side.major_faults = static_cast<std::uint64_t>(now.ru_majflt - start.ru_majflt);
    side.voluntary_switches = static_cast<std::uint64_t>(now.ru_nvcsw - start.ru_nvcsw);
    side.involuntary_switches = static_cast<std::uint64_t>(now.ru_nivcsw - start.ru_nivcsw);
    side.waited_ns = waited_ns() - waited;
  }
  rusage start{};
  std::uint64_t waited = waited_ns();
  std::uint64_t cpu = thread_cpu_ns();
};

std::int64_t realtime_offset() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const std::int64_t real = static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
  return real - static_cast<std::int64_t>(monotonic_ns());
}

// The stack of a new thread faults on its first use: before the measurement, then.
void touch_stack() {
  std::array<volatile char, 64 * 1024> stack;  // NOLINT: written, never read
  for (std::size_t at = 0; at < stack.size(); at += 4096) stack[at] = 1;
}

}  // namespace

Words::Words(std::size_t count) : count_(count), bytes_(std::max<std::size_t>(count * 8, 8)) {
  void* at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  madvise(at, bytes_, MADV_HUGEPAGE);
  locked_ = mlock(at, bytes_) == 0;  // which also touches it …
  data_ = static_cast<std::uint64_t*>(at);
  std::fill_n(static_cast<volatile std::uint64_t*>(data_), count_,
              0);  // … as this does where it is not allowed
}

Words::~Words() {
  munmap(data_, bytes_);
}

Run::Run(const ChannelSpec& out, const ChannelSpec& in, RunPlan plan)
    : plan_(std::move(plan)), out_spec_(out), in_spec_(in), pattern_(out.size) {
  if (plan_.messages == 0 || plan_.messages >= 0xFFFFFFFFULL || plan_.burst == 0 || plan_.sample_every == 0) {
    throw std::invalid_argument(
        "a run has 1 to 2^32 - 2 messages, and bursts and samples of at least one message");
  }
  if (!plan_.gaps_ns.empty() && plan_.gaps_ns.size() < plan_.messages) {
    throw std::invalid_argument("fewer gaps than messages");
  }
  install_interrupt();
  sent_ = std::make_unique<Words>(plan_.messages);
  received_ = std::make_unique<Words>(plan_.messages);
  if (in.kernel_stamps) kernel_ = std::make_unique<Words>(plan_.messages);
  const std::size_t samples = plan_.messages / plan_.sample_every + 2;
  for (Side* side : {&sender_, &receiver_}) side->samples.reserve(samples);
  for (Side* side : {&sender_, &receiver_}) {  // touched, so that they don't fault later
    side->samples.resize(samples);
    side->samples.clear();
  }
  // A receiver that binds must be there before a sender connects; a plug-in's opens the way for both.
  in_ = make_receiver(in_spec_, stop_);
  out_ = make_sender(out_spec_, stop_);
}

Run::~Run() {
  stop();
  if (sending_.joinable()) sending_.join();
  if (receiving_.joinable()) receiving_.join();
}

void Run::start() {
  const ClockReference before = clock_reference();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ticks_per_ns_ = ticks_hz(before, clock_reference()) / 1e9;
  realtime_offset_ = realtime_offset();
  process_cpu_ = process_cpu_ns();
  from_ = clock_reference();
  const std::scoped_lock lock(mutex_);
  if (plan_.pingpong) {
    running_ = 1;
    sending_ = std::thread([this] { pingpong(); });
  } else {
    running_ = 2;
    receiving_ = std::thread([this] { receive(); });
    sending_ = std::thread([this] { send(); });
  }
}

bool Run::wait(double seconds) {
  std::unique_lock lock(mutex_);
  return end_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return running_ == 0; });
}

void Run::stop() {
  stop_.store(true);
  for (;;) {
    {
      const std::scoped_lock lock(mutex_);
      if (running_ == 0) return;
      // Under the lock, so that neither thread has gone. Again and again: a signal that comes just before the
      // system call interrupts nothing.
      if (sending_.joinable()) interrupt_thread(sending_.native_handle());
      if (receiving_.joinable()) interrupt_thread(receiving_.native_handle());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

Progress Run::progress() const {
  return {.sent = sent_count_.load(std::memory_order_relaxed),
          .received = received_count_.load(std::memory_order_relaxed),
          .sender_done = sender_done_.load(),
          .receiver_done = receiver_done_.load()};
}

void Run::ended() {
  const std::scoped_lock lock(mutex_);
  if (--running_ == 0) {
    to_ = clock_reference();
    process_cpu_ = process_cpu_ns() - process_cpu_;
    end_.notify_all();
  }
}

bool Run::paced() const {
  return plan_.period_ns > 0.0 || !plan_.gaps_ns.empty();
}

void Run::set_base() {
  // 1 ms on where messages are due at times of their own, so that message 0 isn't late.
  base_ = ticks() + (paced() ? static_cast<std::uint64_t>(1e6 * ticks_per_ns_) : 0);
}

std::uint64_t Run::intended(std::uint64_t n) {
  double offset = 0.0;
  if (!plan_.gaps_ns.empty()) {
    if (n != 0) gap_sum_ += plan_.gaps_ns[n - 1];
    offset = static_cast<double>(gap_sum_);
  } else {
    const std::uint64_t bursts = n / plan_.burst;
    offset = static_cast<double>(bursts) * plan_.period_ns;
  }
  return base_ + static_cast<std::uint64_t>(offset * ticks_per_ns_);
}

bool Run::wait_until(std::uint64_t target) {
  constexpr double kSpinNs = 100'000.0;  // a sleeper wakes up to some 60 us late
  for (;;) {
    const std::uint64_t now = ticks();
    if (now >= target) return true;
    if (stop_.load(std::memory_order_relaxed)) return false;
    const double left = static_cast<double>(target - now) / ticks_per_ns_;
    if (plan_.sleep && left > 2 * kSpinNs) {
      const auto ns = static_cast<std::uint64_t>(std::min(left - kSpinNs, 1e8));
      const timespec rest{0, static_cast<long>(std::min<std::uint64_t>(ns, 99'999'999U))};
      nanosleep(&rest, nullptr);
    } else {
      pause_cpu();
    }
  }
}

template <class S>
void Run::send_through(S& out) {
  SendLoop loop{.pattern = pattern_,
                .sent = sent_->data(),
                .total = plan_.messages,
                .batch = out_spec_.batch,
                .sample_every = plan_.sample_every,
                .progress = sent_count_,
                .side = sender_};
  const bool paced = plan_.period_ns > 0.0 || !plan_.gaps_ns.empty();
  if (paced)
    loop.run(out, [this](std::uint64_t n) { return wait_until(intended(n)); });
  else
    loop.run(out, [](std::uint64_t) { return true; });
}

void Run::begin_to_send() {
  sending_tid_.store(gettid());
  sender_.pinned = pin_thread(plan_.sender_cpu);
  raise_priority(plan_.priority);
  prctl(PR_SET_TIMERSLACK, 1);
  touch_stack();
}

void Run::send() {
  begin_to_send();
  while (!receiver_ready_.load(std::memory_order_acquire)) std::this_thread::yield();
  set_base();
  const Usage usage;
  if (auto* ring = dynamic_cast<RingSender*>(out_.get()))
    send_through(*ring);  // no virtual call a message
  else if (auto* plugin = dynamic_cast<PluginSender*>(out_.get()))
    send_through(*plugin);
  else
    send_through(*out_);
  usage.add_to(sender_);
  out_->close();
  sender_done_.store(true);
  ended();
}

ReceiveLoop Run::receive_loop() {
  return {.pattern = pattern_,
          .received = received_->data(),
          .kernel = kernel_ ? kernel_->data() : nullptr,
          .total = plan_.messages,
          .sample_every = plan_.sample_every,
          .work_ns = plan_.receiver_work_ns,
          .progress = received_count_,
          .side = receiver_};
}

void Run::receive() {
  receiving_tid_.store(gettid());
  receiver_.pinned = pin_thread(plan_.receiver_cpu);
  raise_priority(plan_.priority == 0 ? 0 : plan_.priority + 3);
  touch_stack();
  ReceiveLoop loop = receive_loop();
  const Usage usage;
  receiver_ready_.store(true, std::memory_order_release);
  loop.run(*in_);
  usage.add_to(receiver_);
  receiver_done_.store(true);
  ended();
}

void Run::pingpong() {
  begin_to_send();
  ReceiveLoop back = receive_loop();
  set_base();
  const Usage usage;
  SendLoop forth{.pattern = pattern_,
                 .sent = sent_->data(),
                 .total = plan_.messages,
                 .batch = 1,
                 .sample_every = plan_.sample_every,
                 .progress = sent_count_,
                 .side = sender_};
  forth.run(*out_, [&](std::uint64_t n) {
    // The answer to the message before is waited for here; a lost one ends the run, since nobody would ever
    // send.
    while (n != 0 && receiver_.count < n) {
      const Block block = in_->receive();
      if (block.count == 0) return false;
      back.take(block);
    }
    received_count_.store(receiver_.count, std::memory_order_relaxed);
    return !paced() || wait_until(intended(n));
  });
  while (receiver_.count < sender_.count) {
    const Block block = in_->receive();
    if (block.count == 0) break;
    back.take(block);
  }
  receiver_.error = in_->error();
  received_count_.store(receiver_.count, std::memory_order_relaxed);
  usage.add_to(sender_);
  out_->close();
  sender_done_.store(true);
  receiver_done_.store(true);
  ended();
}

namespace {

class Nowhere final : public Sender {
 public:
  explicit Nowhere(std::size_t size) : room_(size) {}
  std::byte* claim() override { return room_.data(); }
  void commit() override { asm volatile("" : : "r"(room_.data()) : "memory"); }
  bool flush() override { return true; }

 private:
  std::vector<std::byte> room_;
};

class Replay final : public Receiver {
 public:
  Replay(const Pattern& pattern, std::size_t count) : size_(pattern.size()), messages_(size_ * count) {
    for (std::size_t i = 0; i < count; ++i) {
      std::memcpy(messages_.data() + i * size_, pattern.data(), size_);
      pattern.form().stamp(messages_.data() + i * size_, static_cast<std::uint32_t>(i));
    }
  }
  Block receive() override {
    return {.data = messages_.data(), .stride = size_, .count = messages_.size() / size_};
  }

 private:
  std::size_t size_;
  std::vector<std::byte> messages_;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// ns a step of `work`, which does `count` of them.
template <class Work>
double cost(std::size_t count, Work&& work) {
  const std::uint64_t start = monotonic_ns();
  work();
  return static_cast<double>(monotonic_ns() - start) / static_cast<double>(count);
}

// What the steps of a round cost, by round.
struct Rounds {
  std::vector<double> with{}, without{};
  double median_ns() const {
    std::vector<double> apart(with.size());
    for (std::size_t i = 0; i < with.size(); ++i) apart[i] = with[i] - (without.empty() ? 0.0 : without[i]);
    return std::max(median(std::move(apart)), 0.0);
  }
  double best_ns() const {
    const double base = without.empty() ? 0.0 : *std::min_element(without.begin(), without.end());
    return std::max(*std::min_element(with.begin(), with.end()) - base, 0.0);
  }
};

}  // namespace

HarnessCosts harness_cost(std::size_t size, int rounds) {
  if (rounds < 1 || size < 1) throw std::invalid_argument("the cost takes a round and a message of a byte");
  const Pattern pattern(size);
  const std::size_t count = std::clamp<std::size_t>((4U << 20) / size, 4, 8192);
  std::vector<std::uint64_t> words(count);
  std::atomic<std::uint64_t> progress{0};
  Nowhere out(size);
  Replay in(pattern, count);
  std::uint64_t read = 0;
  Rounds sender;
  Rounds receiver;
  Rounds clock;
  for (int round = 0; round < rounds; ++round) {
    sender.with.push_back(cost(count, [&] {
      Side side;
      side.samples.reserve(16);
      SendLoop{pattern, words.data(), count, 1, 1000, progress, side}.run(out,
                                                                          [](std::uint64_t) { return true; });
    }));
    sender.without.push_back(cost(count, [&] {  // what anybody's sender does: write the message, hand it over
      for (std::size_t i = 0; i < count; ++i) {
        std::byte* room = out.claim();
        if (i == 0) std::memcpy(room, pattern.data(), size);
        std::memcpy(room, &i, std::min<std::size_t>(size, 8));
        out.commit();
        out.flush();
      }
    }));
    receiver.without.push_back(cost(count, [&] {  // what anybody's receiver does: look at the message
      const Block block = in.receive();
      for (std::size_t i = 0; i < block.count; ++i) {
        std::uint64_t word = 0;
        std::memcpy(&word, block.data + i * block.stride, std::min<std::size_t>(size, 8));
        read += word;
        asm volatile("" : "+r"(read));
      }
    }));
    receiver.with.push_back(cost(count, [&] {
      Side side;
      side.samples.reserve(16);
      ReceiveLoop{pattern, words.data(), nullptr, count, 1000, 0, progress, side}.run(in);
    }));
    clock.with.push_back(cost(count, [&] {
      for (auto& word : words) word = ticks();
    }));
  }
  return {.median = {sender.median_ns(), receiver.median_ns(), clock.median_ns()},
          .best = {sender.best_ns(), receiver.best_ns(), clock.best_ns()}};
}

}  // namespace latlab::messaging
