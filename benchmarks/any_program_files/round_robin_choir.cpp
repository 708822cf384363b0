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

static void sing(int who, unsigned trills, int bar) {
  for (;;) {
    {
      std::unique_lock page(score);
      if (!wait_for(page, who)) return;
    }
    ornament(trills);
    std::unique_lock page(score);
    bars += bar;
    next((who + 1) % 3);
  }
}
static void soprano() {
  sing(0, 3, 0);
}
static void alto() {
  sing(1, 5, 0);
}
static void tenor() {
  sing(2, 7, 1);
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
