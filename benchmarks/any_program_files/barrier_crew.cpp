// limit: thread | paint_ceiling|ceiling
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
static std::atomic<bool> done{false};
static volatile double wall[3];
__attribute__((noinline)) void paint_wall(int k) {
  double x = 0;
  for (int i = 0; i < 60000; ++i) x = x * 0.5 + i;
  wall[k] = x;
}
__attribute__((noinline)) void paint_ceiling(int k) {
  double x = 0;
  for (int i = 0; i < 700000; ++i) x = x * 0.5 + i;
  wall[k] = x;
}
int main(int, char** a) {
  auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(std::atof(a[1]));
  std::barrier coat(3, [&]() noexcept { done = std::chrono::steady_clock::now() > end; });
  auto left = [&] {
    while (!done) {
      paint_wall(0);
      coat.arrive_and_wait();
    }
  };
  auto right = [&] {
    while (!done) {
      paint_wall(1);
      coat.arrive_and_wait();
    }
  };
  auto top = [&] {
    while (!done) {
      paint_ceiling(2);
      coat.arrive_and_wait();
    }
  };
  std::thread l(left), r(right), t(top);
  l.join();
  r.join();
  t.join();
  std::puts("dry");
}
