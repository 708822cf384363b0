// Threads: one thread owns a crew and calls run(); what it runs sees everything written before, and the
// caller everything that was written in it.
//
// Threads that do the same thing at once, again and again: kept between two times, since a time may be short.
// Who waits looks for a while before it sleeps: a virtual CPU that has nothing to do takes 50 us and more to
// wake, twice a time.
#pragma once

#include <latlab/wait.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "not_copied.hpp"

namespace latlab::market {

class Crew : NotCopied {
 public:
  // size: of those that run, the caller's own thread among them.
  explicit Crew(std::size_t size) {
    threads_.reserve(size - 1);
    for (std::size_t i = 1; i < size; ++i) threads_.emplace_back([this, i] { serve(i); });
  }
  ~Crew() {
    over_.store(true, std::memory_order_release);
    begin_.notify();
    for (auto& thread : threads_) thread.join();
  }

  // work(i) for each i below the size, at once; the first exception of any of them is thrown here.
  void run(const std::function<void(std::size_t)>& work) {
    work_ = &work;
    busy_.store(threads_.size(), std::memory_order_relaxed);
    round_.fetch_add(1, std::memory_order_release);  // with what was written before
    begin_.notify();
    attempt(0);
    wait(done_, [this] { return busy_.load(std::memory_order_acquire) == 0; });
    work_ = nullptr;
    if (const auto error = std::exchange(error_, nullptr)) std::rethrow_exception(error);
  }

 private:
  static constexpr std::chrono::microseconds kLook{200};

  void attempt(std::size_t i) {
    try {
      (*work_)(i);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (error_ == nullptr) error_ = std::current_exception();
    }
  }

  template <class Ready>
  static void wait(EventCount& event, Ready&& ready) {
    const auto until = std::chrono::steady_clock::now() + kLook;
    while (!ready() && std::chrono::steady_clock::now() < until) {
      for (int i = 0; i < 64 && !ready(); ++i) spin_pause();
    }
    constexpr std::uint64_t kSecond = 1'000'000'000;
    while (!ready()) event.wait(ready, kSecond);
  }

  void serve(std::size_t i) {
    std::size_t seen = 0;
    for (;;) {
      wait(begin_, [&] {
        return over_.load(std::memory_order_acquire) || round_.load(std::memory_order_acquire) != seen;
      });
      if (over_.load(std::memory_order_acquire)) return;
      ++seen;
      attempt(i);
      // Release: who waits sees what was written in it.
      if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) done_.notify();
    }
  }

  std::vector<std::thread> threads_;
  std::mutex mutex_;  // of the error, while a round is on
  std::exception_ptr error_;
  const std::function<void(std::size_t)>* work_ = nullptr;  // written between rounds
  std::atomic<std::size_t> round_{0};
  std::atomic<std::size_t> busy_{0};
  std::atomic<bool> over_{false};
  EventCount begin_;
  EventCount done_;
};

}  // namespace latlab::market
