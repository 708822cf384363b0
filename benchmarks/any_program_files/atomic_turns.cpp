// limit: thread | solve
// Two threads hand a puzzle to and fro by std::atomic::wait and notify; solving is what takes time.
#include <atomic>
#include <cstdio>
#include <thread>
#include "now.h"
namespace {
std::atomic<int> turn{0};
unsigned puzzle = 1;
[[gnu::noinline]] void pose() {
  for (int i = 0; i < 30000; ++i) puzzle = puzzle * 134775813u + 1;
}
[[gnu::noinline]] void solve() {
  for (int i = 0; i < 300000; ++i) puzzle = (puzzle ^ (puzzle >> 15)) * 2246822519u;
}
void solver() {
  for (;;) {
    int t = turn.load();
    while (t == 0) turn.wait(0), t = turn.load();
    if (t == 2) return;
    solve();
    turn = 0;
    turn.notify_one();
  }
}
}  // namespace
int main(int argc, char** argv) {
  begin(argc, argv);
  std::thread other(solver);
  while (!over()) {
    pose();
    turn = 1;
    turn.notify_one();
    while (turn.load() == 1) turn.wait(1);
  }
  turn = 2;
  turn.notify_one();
  other.join();
  std::printf("%u\n", puzzle);
}
