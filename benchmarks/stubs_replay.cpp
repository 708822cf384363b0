// Replay and recording of a 64-byte struct: nanoseconds a call, the best of seven rounds; and once of very
// many calls (nanoseconds a call, and by how much the most memory has grown meanwhile, in MB).
#include <sys/resource.h>

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
long most_memory_kb() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return used.ru_maxrss;
}

double recorded_ns(int calls) {
  const std::int64_t start = now_ns();
  for (int i = 0; i < calls; ++i) {
    const Order order{{i}};
    latlab::stub::save_state("order", "Order", &order);
  }
  return static_cast<double>(now_ns() - start) / calls;
}
}  // namespace

int main(int, char** arguments) {
  namespace stub = latlab::stub;
  constexpr int kCalls = 200'000;
  double record = 1e9;
  double load = 1e9;
  for (int round = 0; round < 7; ++round) {
    stub::record(arguments[1]);
    record = std::min(record, recorded_ns(kCalls));
    stub::stop();
    stub::replay(arguments[1]);
    Order order;
    bool right = true;
    const std::int64_t start = now_ns();
    for (int i = 0; i < kCalls; ++i) {
      stub::load_state("order", &order);
      right = right && order.members[0] == i;
    }
    load = std::min(load, static_cast<double>(now_ns() - start) / kCalls);
    stub::stop();
    if (!right) return 1;
  }
  stub::record(arguments[1]);
  const long before = most_memory_kb();
  const double many = recorded_ns(10'000'000);
  const double grown = static_cast<double>(most_memory_kb() - before) / 1024;
  stub::stop();
  std::printf("%.3f %.3f %.3f %.3f\n", record, load, many, grown);
}
