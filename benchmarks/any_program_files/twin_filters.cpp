// limit: silent |
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <thread>
template <class T>
struct Channel {
  std::deque<T> q;
  std::mutex m;
  std::condition_variable c;
  size_t cap = 16;
  void send(T v) {
    std::unique_lock l(m);
    c.wait(l, [&] { return q.size() < cap; });
    q.push_back(v);
    c.notify_all();
  }
  T recv() {
    std::unique_lock l(m);
    c.wait(l, [&] { return !q.empty(); });
    T v = q.front();
    q.pop_front();
    c.notify_all();
    return v;
  }
};
static volatile double sink;
__attribute__((noinline)) double low_pass(double v) {
  for (int i = 0; i < 40000; ++i) v = v * 0.99 + i;
  return v;
}
__attribute__((noinline)) double high_pass(double v) {
  for (int i = 0; i < 40000; ++i) v = v * 0.98 + i;
  return v;
}
int main(int, char** a) {
  using namespace std::chrono;
  Channel<double> mid;
  auto end = steady_clock::now() + duration<double>(std::atof(a[1]));
  std::thread first([&] {
    double v = 1;
    while (steady_clock::now() < end) mid.send(low_pass(v));
    mid.send(-1);
  });
  std::thread second([&] {
    for (;;) {
      double v = mid.recv();
      if (v == -1) break;
      sink = high_pass(v);
    }
  });
  first.join();
  second.join();
  std::printf("%g\n", double(sink));
}
