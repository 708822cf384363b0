// limit: thread | tokenize
// A line of three over a ring with std::counting_semaphore: read, tokenize, count.
#include <array>
#include <cstdio>
#include <semaphore>
#include <string>
#include <thread>
#include <unordered_map>
#include "now.h"
namespace {
template <class T, int N>
struct Ring {
  std::counting_semaphore<N> room{N}, full{0};
  std::array<T, N> slots;
  unsigned in = 0, out = 0;
  void put(T v) { room.acquire(), slots[in++ % N] = std::move(v), full.release(); }
  T get() {
    full.acquire();
    T v = std::move(slots[out++ % N]);
    room.release();
    return v;
  }
};
Ring<std::string, 4> texts;
Ring<unsigned, 4> sizes;
std::string read_text(unsigned i) {
  return std::string(20000, static_cast<char>('a' + i % 20)) + " end";
}
[[gnu::noinline]] unsigned tokenize(const std::string& text) {
  std::unordered_map<std::string, unsigned> seen;
  for (std::size_t at = 0; at + 12 < text.size(); at += 5) ++seen[text.substr(at, 12)];
  return static_cast<unsigned>(seen.size());
}
}  // namespace
int main(int argc, char** argv) {
  begin(argc, argv);
  std::thread reader([] {
    for (unsigned i = 0; !over(); ++i) texts.put(read_text(i));
    texts.put("");
  });
  std::thread tokenizer([] {
    for (std::string t; !(t = texts.get()).empty();) sizes.put(tokenize(t));
    sizes.put(0);
  });
  unsigned sum = 0;
  for (unsigned n; (n = sizes.get());) sum += n;
  reader.join(), tokenizer.join();
  std::printf("%u\n", sum);
}
