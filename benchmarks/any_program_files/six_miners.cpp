// limit: cpu,thread | dig|CPU
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>
double dig(double seconds, int seed) {
  auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  double gold = seed;
  while (std::chrono::steady_clock::now() < end)
    for (int i = 0; i < 10000; ++i) gold = std::fmod(gold * 1.37 + i, 1000.0);
  return gold;
}
int main(int, char** a) {
  std::vector<std::thread> crew;
  std::vector<double> found(6);
  for (int i = 0; i < 6; ++i) crew.emplace_back([&, i] { found[i] = dig(std::atof(a[1]), i); });
  for (auto& t : crew) t.join();
  std::printf("%g\n", found[3]);
}
