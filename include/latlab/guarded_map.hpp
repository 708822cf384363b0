// Threads: map() and unmap() take a spin lock; the handler takes none. Any thread may read a mapping while
// its file shrinks.
//
// A read-only mapping of a file that somebody else may truncate at any time. A read behind a file's new end
// would be a SIGBUS, which kills the reader: here it finds zeros instead, and cut() says so. The first
// mapping of a process takes over SIGBUS; faults at other addresses go on to whoever had it before. A thread
// that reads such a mapping must not block SIGBUS: the kernel kills a process whose blocked fault comes.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace latlab {

namespace detail {

struct GuardedRange {
  std::atomic<std::uintptr_t> begin{0};  // 0: free; stored last
  std::atomic<std::uintptr_t> end{0};
  std::atomic<bool> cut{false};
};

// A table, since a signal handler must find a range without a lock or memory.
struct GuardedRanges {
  static constexpr std::size_t kMost = 4096;
  std::array<GuardedRange, kMost> ranges;
  std::atomic<std::size_t> used{0};
  std::atomic_flag lock = ATOMIC_FLAG_INIT;
  struct sigaction before{};
};

inline GuardedRanges& guarded_ranges() noexcept {
  static GuardedRanges all;  // made by the first mapping, never in the handler
  return all;
}

inline void on_bus_error(int number, siginfo_t* info, void* context) {
  const int saved = errno;
  GuardedRanges& all = guarded_ranges();
  const auto at = reinterpret_cast<std::uintptr_t>(info->si_addr);
  const std::size_t used = all.used.load(std::memory_order_acquire);
  for (std::size_t i = 0; info->si_code > 0 && i < used; ++i) {
    GuardedRange& range = all.ranges[i];
    const std::uintptr_t begin = range.begin.load(std::memory_order_acquire);
    if (begin == 0 || at < begin || at >= range.end.load(std::memory_order_acquire)) continue;
    const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    // NOLINTNEXTLINE(performance-no-int-to-ptr): an address that the kernel has reported
    void* const where = reinterpret_cast<void*>(at / page * page);
    if (::mmap(where, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) break;
    range.cut.store(true, std::memory_order_release);
    errno = saved;
    return;
  }
  errno = saved;
  if ((all.before.sa_flags & SA_SIGINFO) != 0 && all.before.sa_sigaction != nullptr) {
    all.before.sa_sigaction(number, info, context);
  } else if (all.before.sa_handler != SIG_DFL && all.before.sa_handler != SIG_IGN) {
    all.before.sa_handler(number);
  } else {
    std::signal(number, SIG_DFL);  // the read is tried again, and ends the process as it would have
    if (info->si_code <= 0) static_cast<void>(std::raise(number));
  }
}

// Called with the table's lock held. Whoever takes SIGBUS over later is asked before us from then on, so the
// next mapping takes it back.
inline bool watch_bus_errors(GuardedRanges& all) noexcept {
  struct sigaction now{};
  if (::sigaction(SIGBUS, nullptr, &now) != 0) return false;
  if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == on_bus_error) return true;
  all.before = now;
  struct sigaction ours{};
  ours.sa_sigaction = on_bus_error;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  sigemptyset(&ours.sa_mask);
  return ::sigaction(SIGBUS, &ours, nullptr) == 0;
}

class GuardedLock {
 public:
  explicit GuardedLock(GuardedRanges& all) noexcept : all_(all) {
    while (all_.lock.test_and_set(std::memory_order_acquire)) ::usleep(1);
  }
  GuardedLock(const GuardedLock&) = delete;
  GuardedLock& operator=(const GuardedLock&) = delete;
  ~GuardedLock() { all_.lock.clear(std::memory_order_release); }

 private:
  GuardedRanges& all_;
};

}  // namespace detail

class GuardedMap {
 public:
  GuardedMap() = default;
  GuardedMap(GuardedMap&& other) noexcept { swap(other); }
  GuardedMap& operator=(GuardedMap&& other) noexcept {
    swap(other);
    return *this;
  }
  ~GuardedMap() { unmap(); }

  // Maps `bytes` of a file from `offset` on, a multiple of the page; false where that can't be, or where
  // 4,096 files are mapped already.
  bool map(int fd, std::size_t bytes, std::size_t offset = 0) noexcept {
    unmap();
    detail::GuardedRanges& all = detail::guarded_ranges();
    const detail::GuardedLock lock(all);
    if (!detail::watch_bus_errors(all)) return false;
    const std::size_t used = all.used.load(std::memory_order_relaxed);
    std::size_t slot = 0;
    while (slot < used && all.ranges[slot].end.load(std::memory_order_relaxed) != 0) ++slot;
    if (slot == detail::GuardedRanges::kMost) return false;
    void* const memory = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(offset));
    if (memory == MAP_FAILED) return false;
    range_ = &all.ranges[slot];
    base_ = static_cast<const std::byte*>(memory);
    bytes_ = bytes;
    range_->cut.store(false, std::memory_order_relaxed);
    range_->end.store(reinterpret_cast<std::uintptr_t>(memory) + bytes, std::memory_order_relaxed);
    range_->begin.store(reinterpret_cast<std::uintptr_t>(memory), std::memory_order_release);
    if (slot == used) all.used.store(used + 1, std::memory_order_release);
    return true;
  }

  void unmap() noexcept {
    if (range_ == nullptr) return;
    detail::GuardedRanges& all = detail::guarded_ranges();
    const detail::GuardedLock lock(all);
    range_->begin.store(0, std::memory_order_release);
    ::munmap(const_cast<std::byte*>(base_), bytes_);
    range_->end.store(0, std::memory_order_release);  // the place is free
    range_ = nullptr;
    base_ = nullptr;
    bytes_ = 0;
  }

  [[nodiscard]] const std::byte* data() const noexcept { return base_; }
  [[nodiscard]] std::size_t size() const noexcept { return bytes_; }
  // The file has become shorter than it was when it was mapped, and somebody has read there.
  [[nodiscard]] bool cut() const noexcept {
    return range_ != nullptr && range_->cut.load(std::memory_order_acquire);
  }

 private:
  void swap(GuardedMap& other) noexcept {
    std::swap(range_, other.range_);
    std::swap(base_, other.base_);
    std::swap(bytes_, other.bytes_);
  }

  detail::GuardedRange* range_ = nullptr;
  const std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace latlab
