// limit: cpu | cpu|CPU|processor | pinned
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <random>
#include <vector>

struct Star {
  double ra, dec, mag;
};
static std::atomic<bool> dawn{false};

static std::vector<Star> plate(unsigned seed) {
  std::mt19937 g(seed);
  std::uniform_real_distribution<> u(0, 1);
  std::vector<Star> s(3000);
  for (auto& x : s) x = {u(g) * 360, std::asin(2 * u(g) - 1), u(g) * 20};
  return s;
}
static long magnitudes() {
  long done = 0;
  for (unsigned n = 0; !dawn; ++n, ++done) {
    auto s = plate(n);
    std::sort(s.begin(), s.end(), [](auto& a, auto& b) { return a.mag < b.mag; });
  }
  return done;
}
static long pairs() {
  long close = 0;
  for (unsigned n = 0; !dawn; ++n) {
    auto s = plate(n + 1000);
    for (std::size_t i = 0; i < 300; ++i)
      for (std::size_t j = 0; j < i; ++j)
        close += std::cos(s[i].ra - s[j].ra) * std::cos(s[i].dec - s[j].dec) > 0.999;
  }
  return close;
}
static long spectra() {
  double sum = 0;
  for (unsigned n = 0; !dawn; ++n)
    for (auto& x : plate(n + 5000)) sum += std::exp(-x.mag) * std::pow(x.dec + 2, 1.7);
  return long(sum);
}

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[argc - 1]) : 6;
  auto a = std::async(std::launch::async, magnitudes);
  auto b = std::async(std::launch::async, pairs);
  auto c = std::async(std::launch::async, spectra);
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  dawn = true;
  std::printf("%ld plates, %ld pairs, %ld\n", a.get(), b.get(), c.get());
}
