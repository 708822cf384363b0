// Threads: one producer and one consumer, in one process or two.
//
// A ring of equal slots in shared memory, one message a slot:
//
//   offset    0  magic, version, size, slots            written before the ring is shared, never after
//   offset  128  head: messages published               the producer's cache line
//   offset  256  tail: messages released                the consumer's cache line
//   offset  384  consumer waits, producer waits, closed  touched by a blocking variant, and at the end
//   offset  512  slots * stride bytes
//
// Lines are 128 bytes apart because x86 prefetches cache lines in pairs. Each side keeps the other's index as
// it last saw it and looks again only when it has run out of slots, so a stream of messages costs one miss
// for many.
#pragma once

#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <atomic>
#include <cstdint>
#include <ctime>

#include "messaging/channel.hpp"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace latlab::messaging {

struct RingHeader {
  std::uint32_t magic;
  std::uint32_t version;
  std::uint64_t size;
  std::uint64_t slots;
  std::uint64_t stride;
  alignas(128) std::atomic<std::uint64_t> head;
  alignas(128) std::atomic<std::uint64_t> tail;
  alignas(128) std::atomic<std::uint32_t> consumer_waits;
  std::atomic<std::uint32_t> producer_waits;
  std::atomic<std::uint32_t> closed;
};
static_assert(sizeof(RingHeader) == 512 && offsetof(RingHeader, head) == 128);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
inline constexpr std::uint32_t kRingMagic = 0x676E724CU;
inline constexpr std::uint32_t kRingVersion = 1;

class RingMapping {
 public:
  RingMapping(int fd, std::size_t size);
  RingMapping(const RingMapping&) = delete;
  RingMapping& operator=(const RingMapping&) = delete;
  ~RingMapping() { munmap(header_, bytes_); }
  RingHeader& header() const noexcept { return *header_; }
  std::byte* slots() const noexcept { return reinterpret_cast<std::byte*>(header_) + sizeof(RingHeader); }

 private:
  RingHeader* header_ = nullptr;
  std::size_t bytes_ = 0;
};

inline void pause_cpu() noexcept {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Waits until an index is no longer `seen`, or the stop flag or the closed flag is up.
struct RingWait {
  bool poll;
  bool yield;
  const StopFlag& stop;

  void operator()(RingHeader& ring, std::atomic<std::uint64_t>& index, std::uint64_t seen,
                  std::atomic<std::uint32_t>& waits) const noexcept {
    for (int spin = 0; spin < (poll ? 1 << 30 : 50); ++spin) {
      if (index.load(std::memory_order_acquire) != seen) return;
      if (stop.load(std::memory_order_relaxed) || ring.closed.load(std::memory_order_acquire) != 0) return;
      if (yield && (spin & 15) == 15) sched_yield();
      pause_cpu();
    }
    if (poll) return;
    // Ordered before the second look at the index: either the other side sees that we wait, or we its index.
    waits.store(1, std::memory_order_seq_cst);
    if (index.load(std::memory_order_seq_cst) == seen && !stop.load() && ring.closed.load() == 0) {
      const timespec limit{0, 100'000'000};  // a lost wake-up costs 100 ms, not the run
      syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&index), FUTEX_WAIT,
              static_cast<std::uint32_t>(seen), &limit, nullptr, 0);
    }
    waits.store(0, std::memory_order_relaxed);
  }
};

inline void ring_wake(std::atomic<std::uint64_t>& index, std::atomic<std::uint32_t>& waits) noexcept {
  // A read-modify-write, not a load: it is ordered after the index was written, the counterpart of the store
  // in RingWait. (A fence would do as well, and ThreadSanitizer knows none.)
  if (waits.fetch_add(0, std::memory_order_seq_cst) != 0) {
    syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&index), FUTEX_WAKE, 1, nullptr, nullptr, 0);
  }
}

class RingSender final : public Sender {
 public:
  RingSender(int fd, const ChannelSpec& spec, const StopFlag& stop)
      : map_(fd, spec.size), ring_(map_.header()), slots_(map_.slots()), wait_{spec.poll, spec.yield, stop} {
    head_ = ring_.head.load(std::memory_order_relaxed);
    published_ = head_;
    tail_ = ring_.tail.load(std::memory_order_acquire);
    capacity_ = ring_.slots;
    stride_ = ring_.stride;
    slot_ = head_ % capacity_;
  }
  std::byte* claim() override {
    if (head_ - tail_ == capacity_) [[unlikely]] {
      if (!make_room()) return nullptr;
    }
    return slots_ + slot_ * stride_;
  }
  void commit() override {
    ++head_;
    if (++slot_ == capacity_) slot_ = 0;
  }
  bool flush() override {
    ring_.head.store(head_, std::memory_order_release);  // publishes the slots before it
    published_ = head_;
    if (!wait_.poll) ring_wake(ring_.head, ring_.consumer_waits);
    return true;
  }
  bool keeps_bodies() const noexcept override { return false; }  // a sender writes its own message
  void close() override {
    ring_.closed.store(1, std::memory_order_seq_cst);
    ring_wake(ring_.head, ring_.consumer_waits);
  }

 private:
  bool make_room() {
    if (published_ != head_) flush();  // a batch larger than the ring must not wait for itself
    for (;;) {
      tail_ = ring_.tail.load(std::memory_order_acquire);  // the slots before it have been read
      if (head_ - tail_ < capacity_) return true;
      if (wait_.stop.load(std::memory_order_relaxed) || ring_.closed.load(std::memory_order_acquire) != 0) {
        return false;
      }
      wait_(ring_, ring_.tail, tail_, ring_.producer_waits);
    }
  }
  RingMapping map_;
  RingHeader& ring_;
  std::byte* slots_;
  RingWait wait_;
  std::uint64_t head_, published_, tail_, capacity_, stride_, slot_;
};

class RingReceiver final : public Receiver {
 public:
  RingReceiver(int fd, const ChannelSpec& spec, const StopFlag& stop)
      : map_(fd, spec.size), ring_(map_.header()), slots_(map_.slots()), wait_{spec.poll, spec.yield, stop} {
    tail_ = ring_.tail.load(std::memory_order_relaxed);
    capacity_ = ring_.slots;
    // Released in parts, so that a full ring's producer need not wait for a whole round.
    largest_ = capacity_ < 8 ? 1 : capacity_ / 8;
  }
  Block receive() override {
    if (lent_ != 0) {
      tail_ += lent_;
      lent_ = 0;
      ring_.tail.store(tail_, std::memory_order_release);  // our reads of the slots come before it
      if (!wait_.poll) ring_wake(ring_.tail, ring_.producer_waits);
    }
    while (head_ == tail_) {
      head_ = ring_.head.load(std::memory_order_acquire);  // sees the slots before it
      if (head_ != tail_) break;
      if (wait_.stop.load(std::memory_order_relaxed)) return {};
      if (ring_.closed.load(std::memory_order_acquire) != 0 &&
          ring_.head.load(std::memory_order_acquire) == tail_) {
        return {};
      }
      wait_(ring_, ring_.head, tail_, ring_.consumer_waits);
    }
    const std::uint64_t slot = tail_ % capacity_;
    std::uint64_t count = head_ - tail_;
    if (count > capacity_ - slot) count = capacity_ - slot;
    if (count > largest_) count = largest_;
    lent_ = count;
    return {.data = slots_ + slot * ring_.stride, .stride = ring_.stride, .count = count};
  }

 private:
  RingMapping map_;
  RingHeader& ring_;
  std::byte* slots_;
  RingWait wait_;
  std::uint64_t head_ = 0, tail_, capacity_, largest_, lent_ = 0;
};

}  // namespace latlab::messaging
