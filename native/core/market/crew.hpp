// Threads: one thread owns a crew and calls run(); what it runs sees everything written before, and the
// caller everything that was written in it.
//
// Threads that do the same thing at once, again and again: kept between two times, since a time may be short.
#pragma once

#include <condition_variable>
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
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    begin_.notify_all();
    for (auto& thread : threads_) thread.join();
  }

  // work(i) for each i below the size, at once; the first exception of any of them is thrown here.
  void run(const std::function<void(std::size_t)>& work) {
    {
      const std::lock_guard lock(mutex_);
      work_ = &work;
      busy_ = threads_.size();
      ++round_;
    }
    begin_.notify_all();
    attempt(0);
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return busy_ == 0; });
    work_ = nullptr;
    if (const auto error = std::exchange(error_, nullptr)) std::rethrow_exception(error);
  }

 private:
  void attempt(std::size_t i) {
    try {
      (*work_)(i);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (error_ == nullptr) error_ = std::current_exception();
    }
  }
  void serve(std::size_t i) {
    std::size_t seen = 0;
    std::unique_lock lock(mutex_);
    for (;;) {
      begin_.wait(lock, [&] { return over_ || round_ != seen; });
      if (over_) return;
      seen = round_;
      lock.unlock();
      attempt(i);
      lock.lock();
      if (--busy_ == 0) done_.notify_one();
    }
  }

  std::vector<std::thread> threads_;
  std::mutex mutex_;  // of all that follows; work_ is read without it while a round is on
  std::condition_variable begin_;
  std::condition_variable done_;
  const std::function<void(std::size_t)>* work_ = nullptr;
  std::exception_ptr error_;
  std::size_t round_ = 0;
  std::size_t busy_ = 0;
  bool over_ = false;
};

}  // namespace latlab::market
