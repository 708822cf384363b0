// A queue of one's own, measured by latlab. Build and run, from the root of a clone:
//
//   g++ -std=c++20 -O3 -shared -fPIC -Iinclude examples/messaging/spsc_queue.cpp -o spsc_queue.so
//   latlab messaging run --transport ./spsc_queue.so --topology direct
//
// The queue: bounded, for one producer and one consumer; each side keeps the other's index as it last saw it.
#include <latlab/messaging_queue.hpp>

#include <atomic>
#include <cstddef>
#include <vector>

namespace {

class SpscQueue {
 public:
  SpscQueue(std::size_t slots, std::size_t bytes) : slots_(slots), bytes_(bytes), room_(slots * bytes) {}
  std::byte* front() {  // where the next message is written; nullptr: full
    const std::size_t head = head_.load(std::memory_order_relaxed);
    if (head - seen_tail_ == slots_) {
      seen_tail_ = tail_.load(std::memory_order_acquire);  // the slots before it have been read
      if (head - seen_tail_ == slots_) return nullptr;
    }
    return room_.data() + head % slots_ * bytes_;
  }
  void push() {
    head_.store(head_.load(std::memory_order_relaxed) + 1, std::memory_order_release);  // publishes the slot
  }
  const std::byte* back() {  // the oldest message; nullptr: none
    const std::size_t tail = tail_.load(std::memory_order_relaxed);
    if (seen_head_ == tail) {
      seen_head_ = head_.load(std::memory_order_acquire);  // sees the slots before it
      if (seen_head_ == tail) return nullptr;
    }
    return room_.data() + tail % slots_ * bytes_;
  }
  void pop() {
    tail_.store(tail_.load(std::memory_order_relaxed) + 1,
                std::memory_order_release);  // our reads come before
  }

 private:
  std::size_t slots_;
  std::size_t bytes_;
  std::vector<std::byte> room_;
  alignas(128) std::atomic<std::size_t> head_{0};  // 128: x86 prefetches cache lines in pairs
  std::size_t seen_tail_ = 0;
  alignas(128) std::atomic<std::size_t> tail_{0};
  std::size_t seen_head_ = 0;
};

struct Adapter {
  explicit Adapter(const latlab_messaging_settings& asked)
      : queue(asked.capacity != 0 ? asked.capacity : 1024, (asked.size + 63) / 64 * 64) {}
  template <class Write>
  bool try_push(std::size_t, Write&& write) {
    std::byte* slot = queue.front();
    if (slot == nullptr) return false;
    write(slot);
    queue.push();
    return true;
  }
  template <class Read>
  bool try_pop(std::size_t, Read&& read) {
    const std::byte* slot = queue.back();
    if (slot == nullptr) return false;
    read(slot);
    queue.pop();
    return true;
  }
  SpscQueue queue;
};

}  // namespace

LATLAB_MESSAGING_QUEUE(Adapter, "spsc-queue", "bounded queue between two threads (example)")
