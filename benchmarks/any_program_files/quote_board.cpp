// limit: lock | Board|board|publish|best
// A board of quotes under std::shared_mutex: publishers hold it exclusively while they recompute the
// averages.
#include <cstdio>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>
#include "now.h"
namespace {
class Board {
  mutable std::shared_mutex lock_;
  std::map<int, double> quotes_;
  double mean_ = 0;

 public:
  void publish(int symbol, double price) {
    std::unique_lock hold(lock_);
    quotes_[symbol] = price;
    double sum = 0;
    for (int round = 0; round < 4; ++round)
      for (auto& [s, p] : quotes_) sum += p * (s & 3);
    mean_ = sum / static_cast<double>(quotes_.size());
  }
  double best(int symbol) const {
    std::shared_lock hold(lock_);
    auto it = quotes_.lower_bound(symbol);
    return it == quotes_.end() ? mean_ : it->second;
  }
};
}  // namespace
int main(int argc, char** argv) {
  begin(argc, argv);
  Board board;
  for (int i = 0; i < 6000; ++i) board.publish(i * 3, i), i += 2;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      for (int i = t; !over(); i += 7) board.publish(i % 6000 * 3, i);
    });
  threads.emplace_back([&] {
    double s = 0;
    for (int i = 0; !over(); ++i) s += board.best(i % 18000);
    std::printf("%g\n", s);
  });
  for (auto& t : threads) t.join();
}
