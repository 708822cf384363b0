// limit: thread | match_order|matcher
// A lock-free ring; whoever finds it empty or full yields the CPU and looks again.
#include <atomic>
#include <cstdio>
#include <thread>
#include "now.h"
namespace {
constexpr unsigned SIZE = 256;
unsigned ring[SIZE];
alignas(64) std::atomic<unsigned> head{0};
alignas(64) std::atomic<unsigned> tail{0};
std::atomic<bool> closed{false};
[[gnu::noinline]] unsigned match_order(unsigned o) {
  for (int i = 0; i < 9000; ++i) o = o * 22695477u + (o >> 5);
  return o;
}
void gateway() {
  for (unsigned i = 0;; ++i) {
    while (head.load() - tail.load() == SIZE) std::this_thread::yield();
    ring[i % SIZE] = i;
    head.store(i + 1);
    if (i % 64 == 0 && over()) break;
  }
  closed = true;
}
}  // namespace
int main(int argc, char** argv) {
  begin(argc, argv);
  unsigned sum = 0;
  std::thread matcher([&] {
    for (unsigned i = 0;; ++i) {
      while (head.load() == i) {
        if (closed) return;
        std::this_thread::yield();
      }
      sum += match_order(ring[i % SIZE]);
      tail.store(i + 1);
    }
  });
  gateway();
  matcher.join();
  std::printf("%u\n", sum);
}
