// limits: crane
#include <latlab/counted.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

template <class T>
class Quay {
 public:
  using value_type = T;
  void push(T v) {
    std::unique_lock g(m_);
    space_.wait(g, [&] { return box_.size() < 24; });
    box_.push_back(v);
    some_.notify_one();
  }
  T pop() {
    std::unique_lock g(m_);
    some_.wait(g, [&] { return !box_.empty(); });
    T v = box_.front();
    box_.pop_front();
    space_.notify_one();
    return v;
  }

 private:
  std::mutex m_;
  std::condition_variable some_, space_;
  std::deque<T> box_;
};
using Lane = latlab::Counted<Quay<long>, latlab::Writers::one>;

int main() {
  using namespace std::chrono_literals;
  static Lane hold({.name = "hold", .capacity = 24, .source = {"ship", "ship"}, .drain = {"crane", "crane"}});
  static Lane quay(
      {.name = "quay", .capacity = 24, .source = {"crane", "crane"}, .drain = {"straddle", "straddle"}});
  static Lane yard(
      {.name = "yard", .capacity = 24, .source = {"straddle", "straddle"}, .drain = {"train", "train"}});
  std::thread([] {
    for (long n = 0;; ++n) hold.push(n), std::this_thread::sleep_for(300us);
  }).detach();
  std::thread([] {
    for (;;) {
      long n = hold.pop();
      std::this_thread::sleep_for(2500us);
      quay.push(n);
    }
  }).detach();
  std::thread([] {
    for (;;) {
      long n = quay.pop();
      std::this_thread::sleep_for(900us);
      yard.push(n);
    }
  }).detach();
  std::thread([] {
    for (;;) {
      yard.pop();
      std::this_thread::sleep_for(600us);
    }
  }).detach();
  std::this_thread::sleep_for(4s);
  std::_Exit(0);
}
