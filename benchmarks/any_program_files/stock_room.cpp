// limit: lock | stock|inner|take_item|lock
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>
struct Shelf {
  std::mutex m;
  long items = 0;
};
static Shelf shelves[16];
static std::mutex stock;
static std::unordered_map<int, long> ledger;
static void take_item(int who, int n) {
  std::lock_guard outer(shelves[(who * 5 + n) % 16].m);
  ++shelves[(who * 5 + n) % 16].items;
  std::lock_guard inner(stock);
  for (int i = 0; i < 3000; ++i) ledger[i % 700] += who;
}
int main(int, char** a) {
  auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(std::atof(a[1]));
  std::vector<std::thread> clerks;
  for (int w = 0; w < 4; ++w)
    clerks.emplace_back([=] {
      for (int n = 0; std::chrono::steady_clock::now() < end; ++n) take_item(w, n);
    });
  for (auto& c : clerks) c.join();
  std::printf("%ld\n", ledger[3]);
}
