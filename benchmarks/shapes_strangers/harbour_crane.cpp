// limits: crane
#include <latlab/counted.hpp>

#include <atomic>
#include <chrono>
#include <thread>

#include "../textbook_queue.hpp"

using Lane = latlab::Counted<TextbookQueue<long, 24>, latlab::Writers::one>;

static void carry(Lane& from, std::chrono::microseconds each, Lane& to) {
  std::thread([&from, each, &to] {
    for (;;) {
      long n = from.pop();
      std::this_thread::sleep_for(each);
      to.push(n);
    }
  }).detach();
}

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
  carry(hold, 2500us, quay);
  carry(quay, 900us, yard);
  std::thread([] {
    for (;;) {
      yard.pop();
      std::this_thread::sleep_for(600us);
    }
  }).detach();
  std::this_thread::sleep_for(4s);
  std::_Exit(0);
}
