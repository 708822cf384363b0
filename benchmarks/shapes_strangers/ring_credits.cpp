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

static void put(Ring& r, int v) {
  while (!r.try_push(v)) {
  }
}
static int get(Ring& r) {
  while (r.front() == nullptr) {
  }
  int v = *r.front();
  r.pop();
  return v;
}
static void spin(std::chrono::microseconds t) {
  auto until = std::chrono::steady_clock::now() + t;
  while (std::chrono::steady_clock::now() < until) {
  }
}
static void nap(std::chrono::microseconds t) {
  std::this_thread::sleep_for(t);
}

int main() {
  for (int i = 0; i < 4; ++i) credits.try_push(i);
  std::thread([] {
    for (;;) {
      int v;
      while (credits.front() == nullptr) nap(20us);
      v = *credits.front();
      credits.pop();
      nap(200us);
      put(orders, v);
    }
  }).detach();
  std::thread([] {
    for (;;) {
      while (orders.front() == nullptr) nap(20us);
      int v = get(orders);
      spin(900us);
      put(fills, v);
    }
  }).detach();
  std::thread([] {
    for (;;) {
      while (fills.front() == nullptr) nap(20us);
      int v = get(fills);
      nap(150us);
      put(credits, v);
    }
  }).detach();
  std::this_thread::sleep_for(4s);
  std::_Exit(0);
}
