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
  std::string rest;
  char buf[1024];
  for (ssize_t n; (n = read(c, buf, sizeof buf)) > 0;) {
    rest.append(buf, std::size_t(n));
    for (std::size_t at; (at = rest.find('\n')) != std::string::npos; rest.erase(0, at + 1)) {
      const auto reply = hold(unsigned(std::atoi(rest.c_str() + 5)));
      if (write(c, reply.data(), reply.size()) < 0) break;
    }
  }
  close(c);
}

int main(int argc, char** argv) {
  const int s = listening(argc, argv, 7401, 64);
  for (unsigned i = 0; i < 2000; ++i) seats[i] = i;
  for (int c; (c = accept(s, nullptr, nullptr)) >= 0;) std::thread(serve, c).detach();
}
