// The queue of the textbook: a mutex and condition variables; `most` or `room` bounds what it holds.
#pragma once
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>

template <class T, std::size_t most = SIZE_MAX>
class TextbookQueue {
 public:
  using value_type = T;
  explicit TextbookQueue(std::size_t room = most) : room_(room) {}
  void push(T v) {
    std::unique_lock g(m_);
    space_.wait(g, [&] { return q_.size() < room_; });
    q_.push_back(v);
    some_.notify_one();
  }
  bool try_push(T v) {
    std::lock_guard g(m_);
    if (q_.size() >= room_) return false;
    q_.push_back(v);
    some_.notify_one();
    return true;
  }
  T pop() {
    std::unique_lock g(m_);
    some_.wait(g, [&] { return !q_.empty(); });
    T v = q_.front();
    q_.pop_front();
    space_.notify_one();
    return v;
  }

 private:
  std::mutex m_;
  std::deque<T> q_;
  std::condition_variable some_;
  std::condition_variable space_;
  std::size_t room_;
};
