// limit: silent |
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "../textbook_queue.hpp"
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
  TextbookQueue<double> mid(16);
  auto end = steady_clock::now() + duration<double>(std::atof(a[1]));
  std::thread first([&] {
    double v = 1;
    while (steady_clock::now() < end) mid.push(low_pass(v));
    mid.push(-1);
  });
  std::thread second([&] {
    for (;;) {
      double v = mid.pop();
      if (v == -1) break;
      sink = high_pass(v);
    }
  });
  first.join();
  second.join();
  std::printf("%g\n", double(sink));
}
