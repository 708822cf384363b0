// limits: engine
#include <chrono>
#include <cstdlib>
#include <latlab/queue.hpp>
#include <thread>

#include "info.hpp"

using namespace std::chrono_literals;
using Ring = latlab::SpscRing<int>;
static Ring orders(8, info("orders", "gateway", "engine")), fills(8, info("fills", "engine", "reporter")),
    credits(8, info("credits", "reporter", "gateway"));

static void nap(std::chrono::microseconds t) {
  std::this_thread::sleep_for(t);
}
static void put(Ring& r, int v) {
  while (!r.try_push(v)) {
  }
}
static int get(Ring& r) {
  while (r.front() == nullptr) nap(20us);
  int v = *r.front();
  r.pop();
  return v;
}
static void spin(std::chrono::microseconds t) {
  auto until = std::chrono::steady_clock::now() + t;
  while (std::chrono::steady_clock::now() < until) {
  }
}
static void serve(Ring& from, void (*spend)(std::chrono::microseconds), std::chrono::microseconds each,
                  Ring& to) {
  std::thread([&from, spend, each, &to] {
    for (;;) {
      int v = get(from);
      spend(each);
      put(to, v);
    }
  }).detach();
}

int main() {
  for (int i = 0; i < 4; ++i) credits.try_push(i);
  serve(credits, nap, 200us, orders);
  serve(orders, spin, 900us, fills);
  serve(fills, nap, 150us, credits);
  std::this_thread::sleep_for(4s);
  std::_Exit(0);
}
