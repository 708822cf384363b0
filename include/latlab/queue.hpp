// Threads: SpscRing and UnboundedQueue: one producer thread, one consumer thread. MpmcRing and Pool: any
// number of each. Construction and destruction: one thread, while no other uses the queue. size() from
// anywhere.
//
// Queues whose own indices are their counters: `in` and `out` count events for ever, stand in the counter
// file (or in private memory, when there is none), and their difference is the fill. Observing them costs the
// application nothing that the queue would not do anyway.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "counters.hpp"

namespace latlab {

namespace detail {

template <class T>
struct alignas(T) Cell {
  std::byte bytes[sizeof(T)];
  T* get() noexcept { return std::launder(reinterpret_cast<T*>(bytes)); }
};

template <class Queue, class T>
bool pop_into(Queue& queue, T& value) {
  T* const first = queue.front();
  if (first == nullptr) return false;
  value = std::move(*first);
  queue.pop();
  return true;
}

template <class T>
T take(T* from) noexcept(std::is_nothrow_move_constructible_v<T>) {
  T value = std::move(*from);
  std::destroy_at(from);
  return value;
}

// An event that is to know when it was put in has a function before_put(T&) beside its type. It is called
// when all is done but the count, so that hardly a disturbance falls between its time stamp and the count.
template <class T>
void last_moment(T& event) noexcept {
  if constexpr (requires { before_put(event); }) before_put(event);
}

inline QueueInfo described(QueueInfo info, QueueKind kind, std::uint64_t capacity,
                           std::string_view implementation) {
  if (info.kind != QueueKind::bidirectional) info.kind = kind;  // a direction of two is bounded as well
  info.capacity = capacity;
  if (info.implementation.empty()) info.implementation = implementation;
  return info;
}

// What every queue here has: a slot in the counter file, and in it a line for each side.
class Ends {
 public:
  Ends(const Ends&) = delete;
  Ends& operator=(const Ends&) = delete;
  [[nodiscard]] QueueSlot& slot() noexcept { return slot_; }
  [[nodiscard]] std::size_t size() const noexcept {
    const std::uint64_t out = consumer_->out.load(std::memory_order_acquire);
    return static_cast<std::size_t>(producer_->in.load(std::memory_order_acquire) - out);
  }

 protected:
  Ends(const QueueInfo& info, CounterFile& file) : slot_(file.add_queue(info)) {}
  ~Ends() = default;

  QueueSlot slot_;
  ProducerLine* const producer_ = &slot_.producer();
  ConsumerLine* const consumer_ = &slot_.consumer();
};

// The ways to put an event into a bounded queue, which may be full, by its try_emplace.
template <class Ring, class T>
class Pushes {
 public:
  bool try_push(const T& value) { return ring().try_emplace(value); }
  bool try_push(T&& value) { return ring().try_emplace(std::move(value)); }
  // As try_push, and what does not fit is counted as dropped.
  bool push_or_drop(const T& value) {
    if (ring().try_emplace(value)) return true;
    ring().count_dropped();
    return false;
  }

 private:
  friend Ring;
  Pushes() = default;
  Ring& ring() noexcept { return static_cast<Ring&>(*this); }
};

}  // namespace detail

// A bounded first-in-first-out queue between two threads. Holds exactly `capacity` events.
template <class T>
class SpscRing : public detail::Ends, public detail::Pushes<SpscRing<T>, T> {
 public:
  explicit SpscRing(std::size_t capacity, const QueueInfo& info = {},
                    CounterFile& file = CounterFile::process())
      : Ends(detail::described(info, QueueKind::bounded, capacity < 1 ? 1 : capacity, "latlab::SpscRing"),
             file),
        capacity_(capacity < 1 ? 1 : capacity),
        mask_(std::bit_ceil(capacity_) - 1),
        cells_(std::make_unique<detail::Cell<T>[]>(mask_ + 1)) {
    producer_->cached_out = 0 - capacity_;  // "full": so that the first push looks, and notes its thread
  }
  ~SpscRing() {
    while (front() != nullptr) pop();
  }

  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }

  // Producer. False when the queue is full: then nothing is moved from.
  template <class... Args>
  bool try_emplace(Args&&... args) noexcept(std::is_nothrow_constructible_v<T, Args...>) {
    const std::uint64_t in = producer_->in.load(std::memory_order_relaxed);  // ours alone to write
    if (in - producer_->cached_out >= capacity_) [[unlikely]] {
      slot_.note_producer();
      // acquire: the consumer has moved out of the cells that we are about to fill
      producer_->cached_out = consumer_->out.load(std::memory_order_acquire);
      if (in - producer_->cached_out >= capacity_) return false;
    }
    detail::last_moment(*std::construct_at(cells_[in & mask_].get(), std::forward<Args>(args)...));
    producer_->in.store(in + 1, std::memory_order_release);  // the event before its count
    return true;
  }
  void count_dropped() noexcept {
    producer_->dropped.store(producer_->dropped.load(std::memory_order_relaxed) + 1,
                             std::memory_order_relaxed);
  }

  // Producer. It found the queue full and will wait.
  void count_blocked() noexcept {
    producer_->blocked.store(producer_->blocked.load(std::memory_order_relaxed) + 1,
                             std::memory_order_relaxed);
  }

  // Consumer. The oldest event, or null; it stays in the queue until pop().
  T* front() noexcept {
    const std::uint64_t out = consumer_->out.load(std::memory_order_relaxed);  // ours alone to write
    if (out == consumer_->cached_in) {
      slot_.note_consumer();
      consumer_->cached_in = producer_->in.load(std::memory_order_acquire);  // the events that it counts
      if (out == consumer_->cached_in) return nullptr;
    }
    return cells_[out & mask_].get();
  }
  // Consumer, after front() was not null.
  void pop() noexcept {
    const std::uint64_t out = consumer_->out.load(std::memory_order_relaxed);
    std::destroy_at(cells_[out & mask_].get());
    consumer_->out.store(out + 1, std::memory_order_release);  // we are out of the cell
  }
  bool try_pop(T& value) { return detail::pop_into(*this, value); }
  // Consumer. Hands up to `most` events to `use` (T&&), oldest first, and returns how many. All of them leave
  // the queue together, when the last has been used: a batch that is being worked on still fills the queue.
  template <class Use>
  std::size_t consume(std::size_t most, Use&& use) {
    if (front() == nullptr) return 0;
    const std::uint64_t out = consumer_->out.load(std::memory_order_relaxed);
    const std::uint64_t waiting = consumer_->cached_in - out;
    const std::uint64_t count = waiting < most ? waiting : most;
    for (std::uint64_t i = out; i != out + count; ++i) use(std::move(*cells_[i & mask_].get()));
    for (std::uint64_t i = out; i != out + count; ++i) std::destroy_at(cells_[i & mask_].get());
    consumer_->out.store(out + count, std::memory_order_release);  // one store a batch
    return static_cast<std::size_t>(count);
  }
  void count_empty() noexcept {
    consumer_->empty.store(consumer_->empty.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

 private:
  const std::size_t capacity_;
  const std::size_t mask_;
  const std::unique_ptr<detail::Cell<T>[]> cells_;
};

// A bounded queue for any number of threads on both sides, after D. Vyukov's array queue: each cell carries
// the turn at which it may be used next, and `in` and `out` are the tickets.
template <class T>
class MpmcRing : public detail::Ends, public detail::Pushes<MpmcRing<T>, T> {
 public:
  explicit MpmcRing(std::size_t capacity, const QueueInfo& info = {},
                    CounterFile& file = CounterFile::process())
      : MpmcRing(capacity, detail::described(info, QueueKind::bounded, rounded(capacity), "latlab::MpmcRing"),
                 file, nullptr) {}
  ~MpmcRing() {
    const std::uint64_t in = producer_->in.load(std::memory_order_acquire);
    for (std::uint64_t out = consumer_->out.load(std::memory_order_acquire); out != in; ++out) {
      std::destroy_at(cells_[out & mask_].value.get());
    }
  }

  // A power of two: tickets find their cell by it.
  [[nodiscard]] std::size_t capacity() const noexcept { return mask_ + 1; }

  template <class... Args>
  bool try_emplace(Args&&... args) {
    std::uint64_t ticket;
    Slot* const cell = claim(producer_->in, 0, ticket);
    if (cell == nullptr) return false;  // full
    slot_.note_producer();
    std::construct_at(cell->value.get(), std::forward<Args>(args)...);
    cell->turn.store(ticket + 1, std::memory_order_release);  // the event before its turn
    return true;
  }
  void count_dropped() noexcept { producer_->dropped.fetch_add(1, std::memory_order_relaxed); }
  void count_blocked() noexcept { producer_->blocked.fetch_add(1, std::memory_order_relaxed); }

  bool try_pop(T& value) {
    std::uint64_t ticket;
    Slot* const cell = claim(consumer_->out, 1, ticket);
    if (cell == nullptr) return false;  // empty
    slot_.note_consumer();
    value = detail::take(cell->value.get());
    cell->turn.store(ticket + mask_ + 1, std::memory_order_release);  // free for the next round
    return true;
  }
  void count_empty() noexcept { consumer_->empty.fetch_add(1, std::memory_order_relaxed); }

 private:
  template <class U>
  friend class Pool;

  struct Slot {
    std::atomic<std::uint64_t> turn;
    detail::Cell<T> value;
  };

  // Takes the next ticket and its cell, whose turn must be `after` behind it: 0 to fill the cell, 1 to empty
  // it. None where the cell is behind: a full round (full), or nobody has filled it (empty).
  Slot* claim(std::atomic<std::uint64_t>& next, std::uint64_t after, std::uint64_t& ticket) noexcept {
    ticket = next.load(std::memory_order_relaxed);
    for (;;) {
      Slot& cell = cells_[ticket & mask_];
      // acquire: the consumer has left the cell, or the event that the turn announces is in it
      const std::uint64_t turn = cell.turn.load(std::memory_order_acquire);
      const auto ahead = static_cast<std::int64_t>(turn - (ticket + after));
      if (ahead < 0) return nullptr;
      if (ahead > 0) {
        ticket = next.load(std::memory_order_relaxed);
        continue;
      }
      // relaxed: the cell's turn carries the ordering, the ticket is only a number
      if (next.compare_exchange_weak(ticket, ticket + 1, std::memory_order_relaxed)) return &cell;
    }
  }

  // With one cell a full and an empty queue would carry the same turn.
  static std::size_t rounded(std::size_t capacity) { return std::bit_ceil(capacity < 2 ? 2 : capacity); }

  MpmcRing(std::size_t capacity, const QueueInfo& info, CounterFile& file, std::nullptr_t)
      : Ends(info, file), mask_(rounded(capacity) - 1), cells_(std::make_unique<Slot[]>(mask_ + 1)) {
    for (std::size_t i = 0; i <= mask_; ++i) cells_[i].turn.store(i, std::memory_order_relaxed);
  }

  const std::size_t mask_;
  const std::unique_ptr<Slot[]> cells_;
};

// A first-in-first-out queue between two threads without a bound: chunks in a chain. The producer allocates
// when a chunk is full, except where the consumer has handed one back; steady traffic allocates nothing.
template <class T, std::size_t ChunkEvents = 512>
class UnboundedQueue : public detail::Ends {
 public:
  explicit UnboundedQueue(const QueueInfo& info = {}, CounterFile& file = CounterFile::process())
      : Ends(detail::described(info, QueueKind::unbounded, 0, "latlab::UnboundedQueue"), file),
        tail_(new Chunk),
        head_(tail_) {}
  ~UnboundedQueue() {
    while (front() != nullptr) pop();
    delete head_;
    delete spare_.load(std::memory_order_acquire);
  }

  template <class... Args>
  void emplace(Args&&... args) {
    const std::uint64_t in = producer_->in.load(std::memory_order_relaxed);
    const std::size_t at = in % ChunkEvents;
    if (at == 0) slot_.note_producer();
    if (at == 0 && in != 0) {
      Chunk* next = spare_.exchange(nullptr, std::memory_order_acquire);  // the consumer has left it
      if (next == nullptr) next = new Chunk;
      next->next = nullptr;
      tail_->next = next;  // published by `in` below: the consumer follows it only then
      tail_ = next;
    }
    detail::last_moment(*std::construct_at(tail_->cells[at].get(), std::forward<Args>(args)...));
    producer_->in.store(in + 1, std::memory_order_release);
  }
  bool try_push(T value) {
    emplace(std::move(value));
    return true;
  }

  T* front() noexcept {
    const std::uint64_t out = consumer_->out.load(std::memory_order_relaxed);
    if (out == consumer_->cached_in) {
      slot_.note_consumer();
      consumer_->cached_in = producer_->in.load(std::memory_order_acquire);
      if (out == consumer_->cached_in) return nullptr;
    }
    const std::size_t at = out % ChunkEvents;
    if (at == 0 && out != 0 && !moved_) {
      Chunk* const done = std::exchange(head_, head_->next);
      delete spare_.exchange(done, std::memory_order_acq_rel);  // keep one chunk for the producer
      moved_ = true;
    }
    return head_->cells[at].get();
  }
  void pop() noexcept {
    const std::uint64_t out = consumer_->out.load(std::memory_order_relaxed);
    std::destroy_at(head_->cells[out % ChunkEvents].get());
    moved_ = false;
    consumer_->out.store(out + 1, std::memory_order_release);
  }
  bool try_pop(T& value) { return detail::pop_into(*this, value); }
  void count_empty() noexcept {
    consumer_->empty.store(consumer_->empty.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  void count_blocked() noexcept {}  // it has no bound to be blocked at

 private:
  struct Chunk {
    Chunk* next = nullptr;
    detail::Cell<T> cells[ChunkEvents];
  };

  alignas(kCacheLine) Chunk* tail_;  // the producer's
  alignas(kCacheLine) Chunk* head_;  // the consumer's
  bool moved_ = false;               // the consumer's: head_ already is the chunk of `out`
  alignas(kCacheLine) std::atomic<Chunk*> spare_{nullptr};
};

// A memory pool as a queue of free objects: `out` counts takings, `in` returns, and empty is what hurts.
template <class T>
class Pool {
 public:
  explicit Pool(std::size_t objects, const QueueInfo& info = {}, CounterFile& file = CounterFile::process())
      : objects_(std::make_unique<T[]>(MpmcRing<T*>::rounded(objects))),
        free_(objects,
              detail::described(info, QueueKind::pool, MpmcRing<T*>::rounded(objects), "latlab::Pool"), file,
              nullptr) {
    for (std::size_t i = 0; i < free_.capacity(); ++i) free_.try_push(&objects_[i]);
  }

  [[nodiscard]] QueueSlot& slot() noexcept { return free_.slot(); }
  [[nodiscard]] std::size_t capacity() const noexcept { return free_.capacity(); }
  [[nodiscard]] std::size_t available() const noexcept { return free_.size(); }

  // An object, or null when all are out (which is counted).
  T* take() noexcept {
    T* object = nullptr;
    if (!free_.try_pop(object)) {
      free_.count_empty();
      return nullptr;
    }
    return object;
  }
  void give_back(T* object) noexcept { free_.try_push(object); }
  [[nodiscard]] std::size_t index(const T* object) const noexcept {
    return static_cast<std::size_t>(object - objects_.get());
  }

 private:
  std::unique_ptr<T[]> objects_;
  MpmcRing<T*> free_;
};

}  // namespace latlab
