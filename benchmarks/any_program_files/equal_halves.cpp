// limit: silent |
// A line of two equally slow stages over a queue with room for four: neither alone limits.
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <mutex>
#include <thread>
#include "now.h"
namespace {
std::mutex lock;
std::condition_variable room, more;
std::deque<unsigned> line;
bool closed;
[[gnu::noinline]] unsigned wash(unsigned v) {
  for (int i = 0; i < 200000; ++i) v = v * 1664525u + 1013904223u;
  return v;
}
[[gnu::noinline]] unsigned dry(unsigned v) {
  for (int i = 0; i < 200000; ++i) v = v * 22695477u + 1u;
  return v;
}
}  // namespace
int main(int argc, char** argv) {
  begin(argc, argv);
  unsigned sum = 0;
  std::thread washing([] {
    for (unsigned i = 0; !over(); ++i) {
      unsigned v = wash(i);
      std::unique_lock hold(lock);
      room.wait(hold, [] { return line.size() < 4; });
      line.push_back(v);
      more.notify_one();
    }
    std::lock_guard hold(lock);
    closed = true;
    more.notify_one();
  });
  std::thread drying([&] {
    for (;;) {
      std::unique_lock hold(lock);
      more.wait(hold, [] { return !line.empty() || closed; });
      if (line.empty()) return;
      unsigned v = line.front();
      line.pop_front();
      room.notify_one();
      hold.unlock();
      sum += dry(v);
    }
  });
  washing.join(), drying.join();
  std::printf("%u\n", sum);
}
