// limit: lock | seats|reserve|mutex|agent|SeatMap
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

class SeatMap {
 public:
  explicit SeatMap(std::size_t n) : taken_(n, 0) {}
  [[gnu::noinline]] bool reserve(unsigned want) {
    std::lock_guard hold(seats_);
    for (std::size_t i = 0; i < taken_.size(); ++i) {
      auto& s = taken_[(want + i * 17) % taken_.size()];
      if (s < 3 + (want & 7)) {
        checks_ += i;
        if (i > 900) return ++s, true;
      }
      if (s > 200) s = 0;
    }
    return false;
  }
  long checks() const { return checks_; }

 private:
  std::mutex seats_;
  std::vector<unsigned char> taken_;
  long checks_ = 0;
};

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[argc - 1]) : 6;
  SeatMap hall(8192);
  std::atomic<bool> closed{false};
  std::atomic<long> asked{0};
  auto agent = [&](unsigned id) {
    unsigned x = id * 2654435761u + 1;
    while (!closed) {
      x ^= x << 13, x ^= x >> 17, x ^= x << 5;
      hall.reserve(x);
      asked.fetch_add(1, std::memory_order_relaxed);
    }
  };
  std::vector<std::thread> desks;
  for (unsigned i = 0; i < 6; ++i) desks.emplace_back(agent, i);
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  closed = true;
  for (auto& d : desks) d.join();
  std::printf("%ld requests, %ld seats looked at\n", asked.load(), hall.checks());
}
