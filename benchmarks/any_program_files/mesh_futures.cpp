// limit: thread | refine_mesh
// Each batch starts three futures; two of them are quick, the third refines the mesh.
#include <cstdio>
#include <future>
#include <vector>
#include "now.h"
namespace {
[[gnu::noinline]] double smooth(std::vector<double>& v) {
  for (std::size_t i = 1; i + 1 < v.size(); ++i) v[i] = (v[i - 1] + v[i + 1]) * 0.5;
  return v[3];
}
[[gnu::noinline]] double refine_mesh(std::vector<double>& v) {
  double sum = 0;
  for (int pass = 0; pass < 40; ++pass)
    for (std::size_t i = 1; i + 1 < v.size(); ++i)
      sum += v[i] = v[i] * 0.9 + (v[i - 1] + v[i + 1]) * 0.05 + 1e-6;
  return sum;
}
}  // namespace
int main(int argc, char** argv) {
  begin(argc, argv);
  std::vector<double> a(40000, 1), b(40000, 2), c(60000, 3);
  double sum = 0;
  while (!over()) {
    auto left = std::async(std::launch::async, [&] { return smooth(a); });
    auto right = std::async(std::launch::async, [&] { return smooth(b); });
    auto mesh = std::async(std::launch::async, refine_mesh, std::ref(c));
    sum += left.get() + right.get() + mesh.get();
  }
  std::printf("%g\n", sum);
}
