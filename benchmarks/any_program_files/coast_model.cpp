// limit: thread | shallow_shelf|shelf|advect
#include <barrier>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

struct Basin {
  std::vector<double> h, next;
  explicit Basin(std::size_t n) : h(n, 1.0), next(n) {}
};

[[gnu::noinline]] static void advect(Basin& b, int substeps) {
  for (int s = 0; s < substeps; ++s) {
    for (std::size_t i = 1; i + 1 < b.h.size(); ++i)
      b.next[i] = b.h[i] - 0.1 * std::sqrt(std::abs(b.h[i + 1] - b.h[i - 1]) + 1e-9);
    b.h.swap(b.next);
    b.h.front() = b.h[1], b.h.back() = 1;
  }
}

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[argc - 1]) : 6;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  bool more = true;
  long steps = 0;
  std::barrier sync(3, [&]() noexcept { ++steps, more = std::chrono::steady_clock::now() < end; });
  Basin deep(8000), shelf(8000), lagoon(8000);
  auto deep_water = [&] {
    while (more) {
      advect(deep, 12);
      sync.arrive_and_wait();
    }
  };
  auto shallow_shelf = [&] {
    while (more) {
      advect(shelf, 90);
      sync.arrive_and_wait();
    }
  };
  auto closed_lagoon = [&] {
    while (more) {
      advect(lagoon, 16);
      sync.arrive_and_wait();
    }
  };
  std::thread a([&] {
    pthread_setname_np(pthread_self(), "deep_water");
    deep_water();
  });
  std::thread b([&] {
    pthread_setname_np(pthread_self(), "shallow_shelf");
    shallow_shelf();
  });
  std::thread c([&] {
    pthread_setname_np(pthread_self(), "closed_lagoon");
    closed_lagoon();
  });
  a.join(), b.join(), c.join();
  std::printf("%ld steps, level %.3f\n", steps, shelf.h[100] + deep.h[9] + lagoon.h[7]);
}
