// Threads: any number may notify and wait. The object may lie in memory that processes share.
//
// An event count: lets a consumer sleep until "something may have changed", without a lock and without a
// system call where nobody sleeps. The waiter announces itself, looks again, and sleeps only then.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <ctime>

namespace latlab {

class EventCount {
 public:
  // The signal that something changed. Costs one atomic read-modify-write; a system call only if someone
  // sleeps.
  void notify() noexcept {
    // A read-modify-write, not a load: it takes a place in the word's order. If it comes after a waiter's
    // announcement it sees it; if before, that announcement acquires what we wrote, and the second look finds
    // it.
    if ((word_.fetch_add(0, std::memory_order_acq_rel) & kWaiters) == 0) return;
    word_.fetch_add(kEpoch, std::memory_order_acq_rel);
    futex(FUTEX_WAKE, INT32_MAX, nullptr);
  }

  // Sleeps until a notify(), or `timeout_ns` at most. `ready` is asked once more after the announcement.
  // False when nothing came in time.
  template <class Ready>
  bool wait(Ready&& ready, std::uint64_t timeout_ns) noexcept {
    const std::uint32_t seen = word_.fetch_add(1, std::memory_order_acq_rel) + 1;
    bool came = true;
    if (!ready()) {
      const timespec timeout{static_cast<time_t>(timeout_ns / 1'000'000'000U),
                             static_cast<long>(timeout_ns % 1'000'000'000U)};
      // The word changes too when another waiter comes or goes; then we return early, and the caller looks
      // again.
      came = futex(FUTEX_WAIT, static_cast<int>(seen), &timeout) == 0;
    }
    word_.fetch_sub(1, std::memory_order_acq_rel);
    return came;
  }

 private:
  // Low bits count the waiters, high bits the notifications that found any.
  static constexpr std::uint32_t kWaiters = 0xFFF;
  static constexpr std::uint32_t kEpoch = 0x1000;

  long futex(int operation, int value, const timespec* timeout) noexcept {
    return ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word_), operation, value, timeout, nullptr,
                     0);
  }

  std::atomic<std::uint32_t> word_{0};
};

static_assert(sizeof(EventCount) == 4);

// Tells the core that this is a spinning loop.
inline void spin_pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace latlab
