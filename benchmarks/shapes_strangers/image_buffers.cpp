// limits: compress
#include <latlab/counted.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

template <class T>
class Channel {
 public:
  using value_type = T;
  void push(T v) {
    {
      std::lock_guard g(m_);
      q_.push_back(v);
    }
    c_.notify_one();
  }
  T pop() {
    std::unique_lock g(m_);
    c_.wait(g, [&] { return !q_.empty(); });
    T v = q_.front();
    q_.pop_front();
    return v;
  }

 private:
  std::mutex m_;
  std::condition_variable c_;
  std::deque<T> q_;
};
using Buffer = std::vector<unsigned>;
using Counted = latlab::Counted<Channel<Buffer*>, latlab::Writers::one>;

static void fill(Buffer& b, unsigned seed) {
  for (auto& x : b) x = seed = seed * 1664525u + 1013904223u;
}

int main() {
  constexpr int kBuffers = 5;
  static Counted vacant({.name = "vacant",
                         .capacity = kBuffers,
                         .source = {"compress", "compress"},
                         .drain = {"expose", "expose"}});
  static Counted exposed({.name = "exposed",
                          .capacity = kBuffers,
                          .source = {"expose", "expose"},
                          .drain = {"compress", "compress"}});
  for (int i = 0; i < kBuffers; ++i) vacant.push(new Buffer(30000));
  std::thread([] {
    for (unsigned n = 0;; ++n) {
      auto* b = vacant.pop();
      fill(*b, n);
      exposed.push(b);
    }
  }).detach();
  std::thread([] {
    for (;;) {
      auto* b = exposed.pop();
      std::sort(b->begin(), b->end());
      vacant.push(b);
    }
  }).detach();
  std::this_thread::sleep_for(std::chrono::seconds(4));
  std::_Exit(0);
}
