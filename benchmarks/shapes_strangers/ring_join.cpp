// limits: left
#include <chrono>
#include <cstdlib>
#include <latlab/queue.hpp>
#include <thread>

#include "info.hpp"

using namespace std::chrono_literals;
using Ring = latlab::SpscRing<long>;
static Ring a(32, info("a", "feed", "left")), b(32, info("b", "feed", "right")),
    c(32, info("c", "left", "match")), d(32, info("d", "right", "match"));

static void put(Ring& r, long v) {
  while (!r.try_push(v)) std::this_thread::sleep_for(30us);
}
static long get(Ring& r) {
  while (r.front() == nullptr) std::this_thread::sleep_for(30us);
  long v = *r.front();
  r.pop();
  return v;
}

static void serve(Ring& from, std::chrono::microseconds each, Ring& to) {
  std::thread([&from, each, &to] {
    for (;;) {
      long v = get(from);
      std::this_thread::sleep_for(each);
      put(to, v);
    }
  }).detach();
}

int main() {
  std::thread([] {
    for (long i = 0;; ++i) {
      put(a, i);
      put(b, i);
    }
  }).detach();
  serve(a, 2500us, c);
  serve(b, 700us, d);
  std::thread([] {
    for (;;) {
      get(c);
      get(d);
      std::this_thread::sleep_for(900us);
    }
  }).detach();
  std::this_thread::sleep_for(4s);
  std::_Exit(0);
}
