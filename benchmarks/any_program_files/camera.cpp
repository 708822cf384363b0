// limit: thread | develop|acquire
// Double buffering: the camera thread develops into one buffer while the display draws the other; then they
// swap.
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>
#include <vector>
#include "now.h"
namespace {
std::vector<float> buffers[2] = {std::vector<float>(20000), std::vector<float>(20000)};
std::mutex swap_lock;
std::condition_variable swapped;
int parked;
long turn;
bool quit;
void meet() {
  std::unique_lock hold(swap_lock);
  long mine = turn;
  if (++parked == 2) {
    parked = 0;
    ++turn;
    quit = over();
    swapped.notify_all();
  } else
    swapped.wait(hold, [&] { return turn != mine; });
}
[[gnu::noinline]] void develop(std::vector<float>& f) {
  for (int pass = 0; pass < 12; ++pass)
    for (std::size_t i = 1; i < f.size(); ++i) f[i] = f[i] * 0.7f + f[i - 1] * 0.29f + 0.01f;
}
[[gnu::noinline]] float draw(const std::vector<float>& f) {
  float s = 0;
  for (int pass = 0; pass < 4; ++pass)
    for (float v : f) s += v;
  return s;
}
}  // namespace
int main(int argc, char** argv) {
  begin(argc, argv);
  std::thread camera([] {
    for (long n = 0; !quit; ++n) develop(buffers[n % 2]), meet();
  });
  float sum = 0;
  for (long n = 1; !quit; ++n) sum += draw(buffers[n % 2]), meet();
  camera.join();
  std::printf("%g\n", static_cast<double>(sum));
}
