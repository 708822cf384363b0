// limits: crane
#include <latlab/counted.hpp>

#include <atomic>
#include <chrono>
#include <thread>

#include "textbook_queue.hpp"

using Lane = latlab::Counted<TextbookQueue<long, 24>, latlab::Writers::one>;

int main() {
  using namespace std::chrono_literals;
  static Lane hold({.name = "hold", .capacity = 24, .source = {"ship", "ship"}, .drain = {"crane", "crane"}});
  static Lane quay(
      {.name = "quay", .capacity = 24, .source = {"crane", "crane"}, .drain = {"straddle", "straddle"}});
  static Lane yard(
      {.name = "yard", .capacity = 24, .source = {"straddle", "straddle"}, .drain = {"train", "train"}});
  std::thread([] {
    for (long n = 0;; ++n) hold.push(n), std::this_thread::sleep_for(300us);
  }).detach();
  std::thread([] {
    for (;;) {
      long n = hold.pop();
      std::this_thread::sleep_for(2500us);
      quay.push(n);
    }
  }).detach();
  std::thread([] {
    for (;;) {
      long n = quay.pop();
      std::this_thread::sleep_for(900us);
      yard.push(n);
    }
  }).detach();
  std::thread([] {
    for (;;) {
      yard.pop();
      std::this_thread::sleep_for(600us);
    }
  }).detach();
  std::this_thread::sleep_for(4s);
  std::_Exit(0);
}
