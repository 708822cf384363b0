// limit: timer,load | timer|nanosleep|sleep|timerfd|sample_beds|sensor|pace|tick|load
#include <sys/timerfd.h>
#include <unistd.h>

#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <queue>
#include <thread>

struct Reading {
  int bed;
  double celsius;
};
static std::mutex m;
static std::condition_variable cv;
static std::queue<Reading> readings;
static bool closed = false;

static void sample_beds(double seconds) {
  const int pace = timerfd_create(CLOCK_MONOTONIC, 0);
  itimerspec every{{0, 4'000'000}, {0, 4'000'000}};
  timerfd_settime(pace, 0, &every, nullptr);
  for (long n = 0, ticks = long(seconds * 250); n < ticks;) {
    std::uint64_t missed;
    if (read(pace, &missed, sizeof missed) != sizeof missed) break;
    n += long(missed);
    std::lock_guard g(m);
    for (int bed = 0; bed < 6; ++bed) readings.push({bed, 18 + 4 * std::sin(double(n + bed) / 50)});
    cv.notify_one();
  }
  std::lock_guard g(m);
  closed = true;
  cv.notify_one();
}

static void control_vents() {
  double smooth[6] = {};
  long opened = 0;
  for (;;) {
    std::unique_lock g(m);
    cv.wait(g, [] { return closed || !readings.empty(); });
    if (readings.empty()) break;
    Reading r = readings.front();
    readings.pop();
    g.unlock();
    for (int i = 0; i < 200; ++i) smooth[r.bed] += (r.celsius - smooth[r.bed]) * 0.01;
    opened += smooth[r.bed] > 20;
  }
  std::printf("vents opened %ld times\n", opened);
}

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[argc - 1]) : 6;
  std::thread vents(control_vents);
  sample_beds(seconds);
  vents.join();
}
