// limit: cpu | cpu|CPU|quota|cgroup | quota=0.4
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <queue>
#include <vector>

struct Edge {
  int to, metres;
};

static std::vector<std::vector<Edge>> town(int n) {
  std::vector<std::vector<Edge>> roads(n);
  unsigned x = 12345;
  for (int v = 0; v < n; ++v)
    for (int k = 0; k < 4; ++k) {
      x = x * 1664525u + 1013904223u;
      roads[v].push_back({int((x >> 8) % n), int(x >> 20) + 1});
    }
  return roads;
}

static long shortest(const std::vector<std::vector<Edge>>& roads, int from) {
  std::vector<int> far(roads.size(), 1 << 30);
  std::priority_queue<std::pair<int, int>, std::vector<std::pair<int, int>>, std::greater<>> open;
  open.emplace(far[from] = 0, from);
  while (!open.empty()) {
    auto [d, v] = open.top();
    open.pop();
    if (d != far[v]) continue;
    for (auto& e : roads[v])
      if (d + e.metres < far[e.to]) open.emplace(far[e.to] = d + e.metres, e.to);
  }
  long sum = 0;
  for (int d : far) sum += d;
  return sum;
}

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[argc - 1]) : 6;
  const auto roads = town(3000);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  long tiles = 0, total = 0;
  for (; std::chrono::steady_clock::now() < end; ++tiles) total += shortest(roads, int(tiles % 3000));
  std::printf("%ld tiles, mean %.0f\n", tiles, double(total) / double(tiles));
}
