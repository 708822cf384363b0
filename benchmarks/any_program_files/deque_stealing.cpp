// limit: thread | worker|explore|run
// Two workers with deques of their own steal from each other; all of it is one kind of work.
#include <atomic>
#include <cstdio>
#include <deque>
#include <mutex>
#include <thread>
#include "now.h"
namespace {
struct Deque {
  std::mutex lock;
  std::deque<int> tasks;
} deques[2];
std::atomic<long> sum;
[[gnu::noinline]] long explore(int depth) {
  long n = depth + 1;
  for (int i = 0; i < 90000; ++i) n = n * 6364136223846793005l + (n >> 40);
  return n;
}
bool take(int me, int& task) {
  for (int k = 0; k < 2; ++k) {
    auto& from = deques[(me + k) % 2];
    std::lock_guard hold(from.lock);
    if (from.tasks.empty()) continue;
    if (k)
      task = from.tasks.front(), from.tasks.pop_front();
    else
      task = from.tasks.back(), from.tasks.pop_back();
    return true;
  }
  return false;
}
void worker(int me) {
  int task;
  while (!over()) {
    if (!take(me, task)) {
      std::this_thread::yield();
      continue;
    }
    sum += explore(task);
    std::lock_guard hold(deques[me].lock);
    if (task > 0)
      deques[me].tasks.push_back(task - 1), deques[me].tasks.push_back(task - 1);
    else if (deques[me].tasks.empty())
      deques[me].tasks.push_back(9);
  }
}
}  // namespace
int main(int argc, char** argv) {
  begin(argc, argv);
  deques[0].tasks.push_back(9);
  std::thread other(worker, 1);
  worker(0);
  other.join();
  std::printf("%ld\n", sum.load());
}
