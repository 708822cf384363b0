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
  return mixed(v, 200000);
}
[[gnu::noinline]] unsigned dry(unsigned v) {
  return mixed(v + 1u, 200000);
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
