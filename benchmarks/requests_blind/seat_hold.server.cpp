#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "loopback.hpp"

static std::mutex hall;
static std::map<unsigned, unsigned> seats;
static std::atomic<unsigned> requests{0};

[[gnu::noinline]] static void rebuild_index() {
  timespec a, b;
  clock_gettime(CLOCK_MONOTONIC, &a);
  do {
    for (auto& s : seats) s.second = s.second * 31 + s.first;
    clock_gettime(CLOCK_MONOTONIC, &b);
  } while ((b.tv_sec - a.tv_sec) * 1000000000L + b.tv_nsec - a.tv_nsec < 20'000'000);
}

static std::string hold(unsigned seat) {
  const unsigned n = ++requests;
  std::lock_guard guard(hall);
  if (n % 500 == 0) rebuild_index();
  return "held " + std::to_string(seat) + " for " + std::to_string(seats[seat % 2000]++) + "\n";
}

static void serve(int c) {
  send_at_once(c);
  answer_each(c, "\n", [](const std::string& line) { return hold(unsigned(std::atoi(line.c_str() + 5))); });
}

int main(int argc, char** argv) {
  const int s = listening(argc, argv, 7401, 64);
  for (unsigned i = 0; i < 2000; ++i) seats[i] = i;
  for (int c; (c = accept(s, nullptr, nullptr)) >= 0;) std::thread(serve, c).detach();
}
