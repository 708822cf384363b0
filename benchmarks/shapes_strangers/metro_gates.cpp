// limits: none|timer|load
#include <latlab/counted.hpp>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <queue>
#include <thread>

class Gate {
 public:
  using value_type = int;
  bool try_push(int v) {
    std::lock_guard g(m_);
    if (q_.size() >= 100) return false;
    q_.push(v);
    c_.notify_one();
    return true;
  }
  int pop() {
    std::unique_lock g(m_);
    c_.wait(g, [&] { return !q_.empty(); });
    int v = q_.front();
    q_.pop();
    return v;
  }

 private:
  std::mutex m_;
  std::condition_variable c_;
  std::queue<int> q_;
};
using CountedGate = latlab::Counted<Gate, latlab::Writers::one>;

int main() {
  using namespace std::chrono;
  static CountedGate taps(
      {.name = "taps", .capacity = 100, .source = {"turnstile", "turnstile"}, .drain = {"fare", "fare"}});
  static CountedGate fares(
      {.name = "fares", .capacity = 100, .source = {"fare", "fare"}, .drain = {"statement", "statement"}});
  std::thread([] {
    for (;;) {
      int card = taps.pop();
      fares.try_push(card % 97);
    }
  }).detach();
  std::thread([] {
    long sum = 0;
    for (;;) sum += fares.pop();
  }).detach();
  auto due = steady_clock::now();
  const auto end = due + seconds(4);
  for (int n = 0; due < end; ++n) {
    std::this_thread::sleep_until(due += milliseconds(3));
    taps.try_push(n);
  }
  std::_Exit(0);
}
