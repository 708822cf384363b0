// limit: lock | PriceList|refresh|lookup|rwlock|shared_mutex
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>
using namespace std::chrono;
class PriceList {
  std::map<int, double> prices_;
  mutable std::shared_mutex guard_;

 public:
  void refresh(int day) {
    std::unique_lock hold(guard_);
    for (int i = 0; i < 20000; ++i) prices_[i] = i * 0.5 + day;
  }
  double lookup(int item) const {
    std::shared_lock hold(guard_);
    auto it = prices_.find(item);
    return it == prices_.end() ? 0 : it->second;
  }
};
int main(int argc, char** argv) {
  PriceList list;
  auto end = steady_clock::now() + duration<double>(argc > 1 ? std::atof(argv[1]) : 2);
  std::jthread updater([&] {
    for (int day = 0; steady_clock::now() < end; ++day) {
      list.refresh(day);
      std::this_thread::sleep_for(microseconds(100));
    }
  });
  std::vector<std::jthread> shops;
  double sums[3] = {};
  long asked[3] = {};
  for (int s = 0; s < 3; ++s)
    shops.emplace_back([&, s] {
      while (steady_clock::now() < end) {
        sums[s] += list.lookup(int(asked[s]++ % 20000));
      }
    });
  shops.clear();
  updater.join();
  std::printf("%ld %ld %ld\n", asked[0], asked[1], asked[2]);
}
