// Threads: one producing and one consuming instance at a time (instances hand over with acquire and release).
//
// A queue of the pipeline: one of the library's kinds, chosen at run time, and who is to be woken on either
// side.
#pragma once

#include <latlab/queue.hpp>
#include <latlab/wait.hpp>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "pipeline/plan.hpp"

namespace latlab::pipeline {

template <class T>
class Channel {
 public:
  Channel(const std::string& kind, std::size_t capacity, const QueueInfo& info) : capacity_(capacity) {
    if (kind == "spsc") {
      queue_.template emplace<std::unique_ptr<SpscRing<T>>>(std::make_unique<SpscRing<T>>(capacity, info));
    } else if (kind == "mpmc") {
      auto ring = std::make_unique<MpmcRing<T>>(capacity, info);
      capacity_ = ring->capacity();
      queue_.template emplace<std::unique_ptr<MpmcRing<T>>>(std::move(ring));
    } else if (kind == "unbounded") {
      queue_.template emplace<std::unique_ptr<UnboundedQueue<T>>>(std::make_unique<UnboundedQueue<T>>(info));
      capacity_ = SIZE_MAX;
    } else {
      throw PlanError("queue " + std::string(info.name) + ": unknown kind '" + kind + "'");
    }
    slot_ = on(queue_, [](auto& queue) { return &queue.slot(); });
  }

  void wake_consumer(EventCount* count) noexcept { consumer_ = count; }
  void wake_producer(EventCount* count) noexcept { producer_ = count; }

  [[nodiscard]] std::uint32_t slot() const noexcept { return slot_->slot(); }
  [[nodiscard]] std::size_t size() const noexcept {
    return on(queue_, [](const auto& queue) { return queue.size(); });
  }
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  [[nodiscard]] bool full() const noexcept { return size() >= capacity_; }
  [[nodiscard]] std::size_t room() const noexcept {
    const std::size_t now = size();
    return now >= capacity_ ? 0 : capacity_ - now;
  }
  [[nodiscard]] bool closed() const noexcept { return closed_.load(std::memory_order_acquire); }
  [[nodiscard]] bool exhausted() const noexcept { return closed() && empty(); }

  // The other side is woken by flush, once a batch: waking it for every event would cost more than the
  // events.
  bool push(const T& value) {
    const bool done = on(queue_, [&](auto& queue) { return queue.try_push(value); });
    pushed_ = pushed_ || done;
    return done;
  }
  void flush_pushed() noexcept {
    if (std::exchange(pushed_, false) && consumer_ != nullptr) consumer_->notify();
  }
  void count_dropped() noexcept { slot_->producer().dropped.fetch_add(1, std::memory_order_relaxed); }
  void count_blocked() noexcept {
    on(queue_, [](auto& queue) { queue.count_blocked(); });
  }
  void count_empty() noexcept {
    on(queue_, [](auto& queue) { queue.count_empty(); });
  }
  bool pop(T& value) {
    const bool done = on(queue_, [&](auto& queue) { return queue.try_pop(value); });
    popped_ = popped_ || done;
    return done;
  }
  void flush_popped() noexcept {
    if (std::exchange(popped_, false) && producer_ != nullptr) producer_->notify();
  }
  void close() noexcept {
    closed_.store(true, std::memory_order_release);
    if (consumer_ != nullptr) consumer_->notify();
  }

 private:
  using Queue = std::variant<std::unique_ptr<SpscRing<T>>, std::unique_ptr<MpmcRing<T>>,
                             std::unique_ptr<UnboundedQueue<T>>>;

  // std::visit may throw, which a noexcept member must not: the variant is never without a value here.
  template <class Of, class Call>
  static auto on(Of& queue, Call call) {
    if (auto* spsc = std::get_if<0>(&queue)) return call(**spsc);
    if (auto* mpmc = std::get_if<1>(&queue)) return call(**mpmc);
    return call(**std::get_if<2>(&queue));
  }

  Queue queue_;
  std::size_t capacity_;
  QueueSlot* slot_ = nullptr;
  alignas(kCacheLine) EventCount* consumer_ = nullptr;
  bool pushed_ = false;  // the producer's
  alignas(kCacheLine) EventCount* producer_ = nullptr;
  bool popped_ = false;  // the consumer's
  std::atomic<bool> closed_{false};
};

}  // namespace latlab::pipeline
