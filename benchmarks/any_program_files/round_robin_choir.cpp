// limit: silent |
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

static std::mutex score;
static std::condition_variable turn;
static int singer = 0;
static bool finale = false;
static std::vector<unsigned> phrase(20000, 1);
static long bars = 0;

static void ornament(unsigned k) {
  for (int pass = 0; pass < 12; ++pass)
    for (auto& n : phrase) k = n = n * 1103515245u + 12345u + (k >> 9);
}

static bool wait_for(std::unique_lock<std::mutex>& page, int who) {
  turn.wait(page, [&] { return finale || singer == who; });
  return !finale;
}
static void next(int who) {
  singer = who;
  turn.notify_all();
}

static void soprano() {
  for (;;) {
    {
      std::unique_lock page(score);
      if (!wait_for(page, 0)) return;
    }
    ornament(3);
    {
      std::unique_lock page(score);
      next(1);
    }
  }
}
static void alto() {
  for (;;) {
    {
      std::unique_lock page(score);
      if (!wait_for(page, 1)) return;
    }
    ornament(5);
    {
      std::unique_lock page(score);
      next(2);
    }
  }
}
static void tenor() {
  for (;;) {
    {
      std::unique_lock page(score);
      if (!wait_for(page, 2)) return;
    }
    ornament(7);
    {
      std::unique_lock page(score);
      ++bars;
      next(0);
    }
  }
}

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[argc - 1]) : 6;
  std::thread s(soprano), a(alto), t(tenor);
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  {
    std::lock_guard page(score);
    finale = true;
  }
  turn.notify_all();
  s.join(), a.join(), t.join();
  std::printf("%ld bars (%u)\n", bars, phrase[7]);
}
