// limits: compress
#include <latlab/counted.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "../textbook_queue.hpp"

using Buffer = std::vector<unsigned>;
using Counted = latlab::Counted<TextbookQueue<Buffer*>, latlab::Writers::one>;

static void fill(Buffer& b, unsigned seed) {
  for (auto& x : b) x = seed = seed * 1664525u + 1013904223u;
}

int main() {
  constexpr int kBuffers = 5;
  static Counted vacant({.name = "vacant",
                         .capacity = kBuffers,
                         .source = {"compress", "compress"},
                         .drain = {"expose", "expose"}});
  static Counted exposed({.name = "exposed",
                          .capacity = kBuffers,
                          .source = {"expose", "expose"},
                          .drain = {"compress", "compress"}});
  for (int i = 0; i < kBuffers; ++i) vacant.push(new Buffer(30000));
  std::thread([] {
    for (unsigned n = 0;; ++n) {
      auto* b = vacant.pop();
      fill(*b, n);
      exposed.push(b);
    }
  }).detach();
  std::thread([] {
    for (;;) {
      auto* b = exposed.pop();
      std::sort(b->begin(), b->end());
      vacant.push(b);
    }
  }).detach();
  std::this_thread::sleep_for(std::chrono::seconds(4));
  std::_Exit(0);
}
