// Replay and recording of a 64-byte struct: nanoseconds a call, the best of seven rounds.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <latlab/stub.hpp>

namespace {
struct Order {
  std::array<long, 8> members{};
};
static_assert(sizeof(Order) == 64);
std::int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}
}  // namespace

int main(int, char** arguments) {
  namespace stub = latlab::stub;
  constexpr int kCalls = 200'000;
  double record = 1e9;
  double load = 1e9;
  for (int round = 0; round < 7; ++round) {
    stub::record(arguments[1]);
    std::int64_t start = now_ns();
    for (int i = 0; i < kCalls; ++i) {
      const Order order{{i}};
      stub::save_state("order", "Order", &order);
    }
    record = std::min(record, static_cast<double>(now_ns() - start) / kCalls);
    stub::stop();
    stub::replay(arguments[1]);
    Order order;
    bool right = true;
    start = now_ns();
    for (int i = 0; i < kCalls; ++i) {
      stub::load_state("order", &order);
      right = right && order.members[0] == i;
    }
    load = std::min(load, static_cast<double>(now_ns() - start) / kCalls);
    stub::stop();
    if (!right) return 1;
  }
  std::printf("%.3f %.3f\n", record, load);
}
