// limit: thread | encode_tile|encode
// Tiles go through a queue with condition_variable_any and a stop token; the encoder is the slow one of
// three.
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <mutex>
#include <thread>
#include "now.h"
namespace {
struct Channel {
  std::mutex lock;
  std::condition_variable_any changed;
  std::deque<unsigned> items;
  bool put(std::stop_token stop, unsigned v) {
    std::unique_lock hold(lock);
    if (!changed.wait(hold, stop, [&] { return items.size() < 16; })) return false;
    items.push_back(v);
    changed.notify_all();
    return true;
  }
  bool get(std::stop_token stop, unsigned& v) {
    std::unique_lock hold(lock);
    if (!changed.wait(hold, stop, [&] { return !items.empty(); })) return false;
    v = items.front();
    items.pop_front();
    changed.notify_all();
    return true;
  }
};
Channel raw, coded;
[[gnu::noinline]] unsigned render_tile(unsigned v) {
  for (int i = 0; i < 40000; ++i) v = v * 1664525u + 1013904223u;
  return v;
}
[[gnu::noinline]] unsigned encode_tile(unsigned v) {
  for (int i = 0; i < 200000; ++i) v = (v >> 3 | v << 29) * 2654435761u;
  return v;
}
}  // namespace
int main(int argc, char** argv) {
  begin(argc, argv);
  unsigned sum = 0;
  std::jthread render([](std::stop_token s) { for (unsigned i = 0; raw.put(s, render_tile(i)); ++i); });
  std::jthread encode([](std::stop_token s) {
    unsigned v;
    while (raw.get(s, v) && coded.put(s, encode_tile(v)));
  });
  std::jthread store([&](std::stop_token s) {
    for (unsigned v; coded.get(s, v);) sum += v;
  });
  std::this_thread::sleep_for(std::chrono::duration<double>(until - now()));
  render.request_stop(), encode.request_stop(), store.request_stop();
  render.join(), encode.join(), store.join();
  std::printf("%u\n", sum);
}
