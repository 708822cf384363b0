// limits: none|timer|load
#include <latlab/counted.hpp>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "../textbook_queue.hpp"

using CountedGate = latlab::Counted<TextbookQueue<int, 100>, latlab::Writers::one>;

int main() {
  using namespace std::chrono;
  static CountedGate taps(
      {.name = "taps", .capacity = 100, .source = {"turnstile", "turnstile"}, .drain = {"fare", "fare"}});
  static CountedGate fares(
      {.name = "fares", .capacity = 100, .source = {"fare", "fare"}, .drain = {"statement", "statement"}});
  std::thread([] {
    for (;;) {
      int card = taps.pop();
      fares.try_push(card % 97);
    }
  }).detach();
  std::thread([] {
    long sum = 0;
    for (;;) sum += fares.pop();
  }).detach();
  auto due = steady_clock::now();
  const auto end = due + seconds(4);
  for (int n = 0; due < end; ++n) {
    std::this_thread::sleep_until(due += milliseconds(3));
    taps.try_push(n);
  }
  std::_Exit(0);
}
