// limit: thread | amdahl|merge_histograms|main
// Two helpers count in parallel between barriers; then the main thread merges alone, which takes longest.
#include <barrier>
#include <cstdio>
#include <thread>
#include <vector>
#include "now.h"
namespace {
std::vector<unsigned> counts[2] = {std::vector<unsigned>(1 << 14), std::vector<unsigned>(1 << 14)};
bool stop;
[[gnu::noinline]] void count(std::vector<unsigned>& c, unsigned seed) {
  for (int i = 0; i < 60000; ++i) ++c[(seed = seed * 1664525u + 1013904223u) >> 18];
}
[[gnu::noinline]] double merge_histograms() {
  double sum = 0;
  for (int pass = 0; pass < 30; ++pass)
    for (std::size_t i = 0; i < counts[0].size(); ++i) sum += counts[0][i] * 1.0 / (counts[1][i] + 1.0);
  return sum;
}
}  // namespace
int main(int argc, char** argv) {
  begin(argc, argv);
  std::barrier start(3), end(3);
  auto helper = [&](int me) {
    for (unsigned i = 0;; ++i) {
      start.arrive_and_wait();
      if (stop) return;
      count(counts[me], i);
      end.arrive_and_wait();
    }
  };
  std::thread a(helper, 0), b(helper, 1);
  double sum = 0;
  for (;;) {
    stop = over();
    start.arrive_and_wait();
    if (stop) break;
    end.arrive_and_wait();
    sum += merge_histograms();
  }
  a.join(), b.join();
  std::printf("%g\n", sum);
}
