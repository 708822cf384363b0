// Where the threads of a player wait for each other: semaphores and gates on a futex each.
//
// Threads: each is shared by all threads of a play. Setting a semaphore's first count comes before they
// start.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <climits>
#include <cstdint>

#include "stubs/sleep.hpp"

namespace latlab::stubs {

// A counting semaphore on a futex. Its waits end by themselves after a while, so that a player that was told
// to give up never hangs.
// A post carries the time at which the schedule has it. Posts that come faster than they are taken may be
// taken with a neighbour's time, which only moves the taker's schedule by as much.
class alignas(64) Semaphore {  // 64: two of them never share a cache line
 public:
  void set(std::int64_t value) noexcept {
    count_.store(static_cast<std::uint32_t>(value), std::memory_order_relaxed);
  }

  void post(std::int64_t at_ns) noexcept {
    // relaxed: the count publishes it
    times_[posted_.fetch_add(1, std::memory_order_relaxed) % times_.size()].store(at_ns,
                                                                                  std::memory_order_relaxed);
    // release: what the poster did before is seen by the one that is let through
    count_.fetch_add(1, std::memory_order_release);
    syscall(SYS_futex, &count_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  }

  // The post's time; negative where the player gives up.
  std::int64_t wait(const std::atomic<bool>& giving_up) noexcept {
    std::uint32_t value = count_.load(std::memory_order_relaxed);
    for (;;) {
      while (value > 0) {
        // acquire: pairs with the release in post()
        if (count_.compare_exchange_weak(value, value - 1, std::memory_order_acquire,
                                         std::memory_order_relaxed)) {
          return times_[taken_.fetch_add(1, std::memory_order_relaxed) % times_.size()].load(
              std::memory_order_relaxed);
        }
      }
      // relaxed: seen one turn late it costs a tenth of a second
      if (giving_up.load(std::memory_order_relaxed)) return -1;
      const timespec turn{0, 100'000'000};
      syscall(SYS_futex, &count_, FUTEX_WAIT_PRIVATE, 0, &turn, nullptr, 0);
      value = count_.load(std::memory_order_relaxed);
    }
  }

 private:
  std::atomic<std::uint32_t> count_{0};
  std::atomic<std::uint32_t> posted_{0};
  std::atomic<std::uint32_t> taken_{0};
  std::array<std::atomic<std::int64_t>, 32> times_{};
  static_assert(sizeof(std::atomic<std::uint32_t>) == 4, "a futex is four bytes");
};

// A gate stays open for everybody, however many pass.
class alignas(64) Gate {
 public:
  void open(std::int64_t at_ns = 0) noexcept {
    at_ns_ = at_ns;
    opened_ns_ = now_ns();
    // release: pairs with the acquire of those that pass
    open_.store(1, std::memory_order_release);
    syscall(SYS_futex, &open_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
  }
  bool pass(const std::atomic<bool>& giving_up) noexcept {
    while (open_.load(std::memory_order_acquire) == 0) {
      if (giving_up.load(std::memory_order_relaxed)) return false;
      const timespec turn{0, 100'000'000};
      syscall(SYS_futex, &open_, FUTEX_WAIT_PRIVATE, 0, &turn, nullptr, 0);
    }
    return true;
  }
  bool pass_before(std::int64_t limit_ns) noexcept {
    // acquire: pairs with the release in open()
    while (open_.load(std::memory_order_acquire) == 0) {
      const std::int64_t left = limit_ns - now_ns();
      if (left <= 0) return false;
      const timespec turn{static_cast<time_t>(left / 1'000'000'000), static_cast<long>(left % 1'000'000'000)};
      syscall(SYS_futex, &open_, FUTEX_WAIT_PRIVATE, 0, &turn, nullptr, 0);
    }
    return true;
  }
  // When the schedule has it open; read by those that have passed.
  [[nodiscard]] std::int64_t at_ns() const noexcept { return at_ns_; }
  // When it was opened; likewise.
  [[nodiscard]] std::int64_t opened_ns() const noexcept { return opened_ns_; }

 private:
  std::atomic<std::uint32_t> open_{0};
  std::int64_t at_ns_ = 0;
  std::int64_t opened_ns_ = 0;
};

}  // namespace latlab::stubs
