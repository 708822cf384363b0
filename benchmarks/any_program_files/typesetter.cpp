// limit: thread | typeset
// Pages go through a chain by promise and future: fetch, typeset, print, two pages ahead.
#include <condition_variable>
#include <cstdio>
#include <future>
#include <queue>
#include <thread>
#include "now.h"
namespace {
template <class T>
struct Mailbox {
  std::queue<T> box;
  std::mutex lock;
  std::condition_variable cv;
  void send(T v) {
    {
      std::lock_guard hold(lock);
      box.push(std::move(v));
    }
    cv.notify_one();
  }
  T receive() {
    std::unique_lock hold(lock);
    cv.wait(hold, [&] { return !box.empty(); });
    T v = std::move(box.front());
    box.pop();
    return v;
  }
};
struct Page {
  unsigned text;
  std::promise<unsigned> laid_out;
  bool last;
};
Mailbox<Page> pages;
[[gnu::noinline]] unsigned typeset(unsigned text) {
  for (int i = 0; i < 500000; ++i) text = text * 747796405u + 2891336453u;
  return text;
}
void layout_thread() {
  for (bool last = false; !last;) {
    Page page = pages.receive();
    last = page.last;
    page.laid_out.set_value(typeset(page.text));
  }
}
[[gnu::noinline]] unsigned fetch_text(unsigned i) {
  for (int k = 0; k < 60000; ++k) i = i * 69069u + 1;
  return i;
}
}  // namespace
int main(int argc, char** argv) {
  begin(argc, argv);
  std::thread layout(layout_thread);
  std::queue<std::future<unsigned>> ahead;
  unsigned sum = 0;
  for (bool last = false; !last;) {
    last = over();
    Page page{fetch_text(sum), {}, last};
    ahead.push(page.laid_out.get_future());
    pages.send(std::move(page));
    if (ahead.size() > 2) sum += ahead.front().get(), ahead.pop();
  }
  layout.join();
  std::printf("%u\n", sum);
}
