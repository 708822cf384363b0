// limit: thread | peel
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <thread>
std::atomic<int> potato{0};
std::atomic<bool> over{false};
double basket[2];
void peel(double seconds) {
  auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
    double x = 1;
    for (int i = 1; i < 9000; ++i) x += std::sin(x + i);
    while (potato.load(std::memory_order_acquire) != 0) {
    }
    basket[0] = x;
    potato.store(1, std::memory_order_release);
  }
  over = true;
}
void eat() {
  long n = 0;
  for (;;) {
    while (potato.load(std::memory_order_acquire) != 1)
      if (over) {
        std::printf("%ld eaten\n", n);
        return;
      }
    basket[1] += basket[0];
    ++n;
    potato.store(0, std::memory_order_release);
  }
}
int main(int c, char** v) {
  std::thread e(eat);
  peel(c > 1 ? std::atof(v[1]) : 2);
  e.join();
}
