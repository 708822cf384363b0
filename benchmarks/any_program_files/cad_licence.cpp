// limit: lock | licence|semaphore|acquire|mesh|designer|with_licence
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <semaphore>
#include <thread>
#include <vector>

namespace {
std::counting_semaphore<1> licence{1};
std::atomic<bool> evening{false};

[[gnu::noinline]] double mesh(std::vector<double>& grid, int sweeps) {
  const std::size_t w = 96;
  for (int s = 0; s < sweeps; ++s)
    for (std::size_t i = w + 1; i + w + 1 < grid.size(); ++i)
      grid[i] = 0.25 * (grid[i - 1] + grid[i + 1] + grid[i - w] + grid[i + w]);
  return std::accumulate(grid.begin(), grid.end(), 0.0);
}

template <class F>
auto with_licence(F work) {
  licence.acquire();
  auto r = work();
  licence.release();
  return r;
}

void designer(unsigned id, long* models) {
  std::vector<double> part(96 * 96);
  while (!evening) {
    for (std::size_t i = 0; i < part.size(); ++i) part[i] = std::sin(double(i * (id + 1)));
    const double volume = with_licence([&] { return mesh(part, 60); });
    *models += volume > -1e9;
  }
}
}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[argc - 1]) : 6;
  std::vector<long> models(4);
  std::vector<std::thread> office;
  for (unsigned i = 0; i < 4; ++i) office.emplace_back(designer, i, &models[i]);
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  evening = true;
  for (auto& t : office) t.join();
  std::printf("%ld models\n", std::accumulate(models.begin(), models.end(), 0L));
}
