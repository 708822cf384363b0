#include "messaging/forward.hpp"

#include <sched.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <ctime>
#include <latlab/clock.hpp>
#include <utility>

#include "messaging/message.hpp"
#include "messaging/ring.hpp"

namespace latlab::messaging {
namespace {

std::uint64_t clock_ns(clockid_t clock) noexcept {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}

// Sleeps to an absolute time, so that an interruption doesn't lengthen the stall; the last 200 us spinning,
// since a sleeper wakes up late.
void stand_still(std::uint64_t ns, const StopFlag& stop) {
  const std::uint64_t end = monotonic_ns() + ns;
  const std::uint64_t wake = end - std::min<std::uint64_t>(ns, 200'000);
  const timespec until{static_cast<time_t>(wake / 1'000'000'000U), static_cast<long>(wake % 1'000'000'000U)};
  while (!stop.load() && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
  // No pause instruction: a hypervisor takes many of them for idling, and the core away for some
  // microseconds.
  while (!stop.load() && monotonic_ns() < end) {
  }
}

void spin(std::uint64_t ns) {
  const std::uint64_t end = monotonic_ns() + ns;
  while (monotonic_ns() < end) pause_cpu();
}

bool every(std::uint64_t n, std::uint64_t k) {
  return k != 0 && n % k == k - 1;
}

}  // namespace

std::uint64_t thread_cpu_ns() noexcept {
  return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}
std::uint64_t process_cpu_ns() noexcept {
  return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

bool pin_thread(int cpu) noexcept {
  if (cpu < 0) return true;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(cpu), &set);
  return sched_setaffinity(0, sizeof set, &set) == 0;
}

int raise_priority(int priority) noexcept {
  if (priority <= 0) return 0;
  const sched_param wanted{.sched_priority = priority};
  return sched_setscheduler(0, SCHED_FIFO, &wanted) == 0 ? 0 : errno;
}

void install_interrupt() {
  struct sigaction action{};
  action.sa_handler = [](int) {};
  sigemptyset(&action.sa_mask);
  action.sa_flags = 0;  // no SA_RESTART: the interrupted call must return
  sigaction(SIGRTMIN + 7, &action, nullptr);
}

void interrupt_thread(pthread_t thread) noexcept {
  pthread_kill(thread, SIGRTMIN + 7);
}

ForwardResult forward(Receiver& in, Sender& out, std::size_t size, const ForwardPlan& plan,
                      const StopFlag& stop) {
  ForwardResult result;
  const std::uint64_t cpu_start = thread_cpu_ns();
  const bool errs =
      plan.drop_every != 0 || plan.repeat_every != 0 || plan.swap_every != 0 || plan.damage_every != 0;
  const bool samples = plan.sample_every != 0 && size >= kBrokered;
  std::vector<std::byte> held;
  auto stall = plan.stalls.begin();
  result.stalls.reserve(plan.stalls.size());
  if (!plan.stalls.empty()) stand_still(0, stop);  // its pages and symbols are there before it counts
  std::uint64_t n = 0;
  const auto pass = [&](const std::byte* data) -> std::byte* {
    std::byte* room = out.claim();
    if (room != nullptr) std::memcpy(room, data, size);
    return room;
  };
  const auto pass_on = [&](const std::byte* data) {
    if (pass(data) == nullptr) return false;
    out.commit();
    return true;
  };
  for (bool open = true; open;) {
    const Block block = in.receive();
    if (block.count == 0) break;
    for (std::size_t i = 0; i < block.count && open; ++i, ++n) {
      const std::byte* message = block.data + i * block.stride;
      const std::uint64_t entered = samples && n % plan.sample_every == 0 ? ticks() : 0;
      if (stall != plan.stalls.end() && stall->message == n) {
        if (!out.flush()) break;  // what came before the stall must not be held up by it
        const std::uint64_t from = ticks();
        stand_still(stall->ns, stop);
        result.stalls.push_back({.message = n, .from_ticks = from, .to_ticks = ticks()});
        ++stall;
      }
      if (plan.work_ns != 0) spin(plan.work_ns);
      if (errs) {
        if (every(n, plan.drop_every)) continue;
        if (every(n, plan.swap_every) && held.empty()) {
          held.assign(message, message + size);
          continue;
        }
      }
      std::byte* room = pass(message);
      if (room == nullptr) {
        open = false;
        break;
      }
      if (entered != 0) {
        const std::uint64_t stay = std::min<std::uint64_t>(ticks() - entered, 0xFFFFFFFFU);
        const std::array<std::uint32_t, 2> times{
            static_cast<std::uint32_t>(stay),
            static_cast<std::uint32_t>((thread_cpu_ns() - cpu_start) / 1000)};
        std::memcpy(room + 8, times.data(), 8);
      }
      if (every(n, plan.damage_every)) room[size - 1] ^= std::byte{0x10};
      out.commit();
      ++result.forwarded;
      if (every(n, plan.repeat_every)) open = pass_on(message);
      if (!held.empty() && open) {
        open = pass_on(held.data());
        held.clear();
      }
    }
    if (!out.flush()) open = false;
  }
  if (!held.empty() && pass(held.data()) != nullptr) {
    out.commit();
    out.flush();
  }
  out.close();
  result.cpu_ns = thread_cpu_ns() - cpu_start;
  result.error = in.error() != 0 ? in.error() : out.error();
  return result;
}

Forwarder::Forwarder(const ChannelSpec& in, const ChannelSpec& out, ForwardPlan plan)
    : in_(make_receiver(in, stop_)), out_(make_sender(out, stop_)), plan_(std::move(plan)) {
  install_interrupt();
  thread_ = std::thread([this, size = in.size] {
    pin_thread(plan_.cpu);
    raise_priority(plan_.priority);
    result_ = forward(*in_, *out_, size, plan_, stop_);
    done_.store(true, std::memory_order_release);
  });
}

Forwarder::~Forwarder() {
  stop();
  if (thread_.joinable()) thread_.join();
}

void Forwarder::stop() {
  stop_.store(true);
  // Again and again: a signal that comes just before the system call interrupts nothing.
  while (thread_.joinable() && !done_.load(std::memory_order_acquire)) {
    interrupt_thread(thread_.native_handle());
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

ForwardResult Forwarder::result() {
  if (thread_.joinable()) thread_.join();
  return result_;
}

std::uint64_t Forwarder::cpu_ns() const {
  if (done_.load(std::memory_order_acquire)) return result_.cpu_ns;
  clockid_t clock{};
  if (pthread_getcpuclockid(const_cast<std::thread&>(thread_).native_handle(), &clock) != 0) return 0;
  return clock_ns(clock);
}

}  // namespace latlab::messaging
