// Threads: whoever includes it; each system says its own.
//
// What all systems are made of: work as so much CPU time, naps, a bounded queue, and the choice of
// the part that does only 1 - SHARE of its work.
#pragma once

#include <pthread.h>
#include <time.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>

#include "../textbook_queue.hpp"

#ifdef LATLAB_WITH_COZ
#include <coz.h>
#else
#include <barrier>
#define COZ_PROGRESS  // where a round of the system is done
#endif
#ifdef LATLAB_WITH_STUBS
#include <latlab/stub.hpp>
#endif

namespace systems {

// Coz samples no time in the kernel, where a loop spends most of it that asks for the time each microsecond,
// and takes its delays into account where a thread waits by pthread's functions, not by a futex of its own.
#ifdef LATLAB_WITH_COZ
constexpr std::uint64_t kStep = 20'000;
class Barrier {
 public:
  explicit Barrier(unsigned threads) { pthread_barrier_init(&barrier_, nullptr, threads); }
  void arrive_and_wait() { pthread_barrier_wait(&barrier_); }

 private:
  pthread_barrier_t barrier_;
};
#else
constexpr std::uint64_t kStep = 500;
using Barrier = std::barrier<>;
#endif

inline std::string part;
inline double share = 0;
inline int length = 1;
inline std::mt19937 dice;

inline double between(double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(dice);
}

inline double left(const char* name) {
  return part == name ? 1.0 - share : 1.0;
}

// So much CPU time of the calling thread: however fast the machine is at the moment, it takes the same.
inline void spin(const char* name, double us) {
  const auto now = [] {
    timespec at{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
    return at.tv_sec * 1'000'000'000LL + at.tv_nsec;
  };
  const auto length = static_cast<std::int64_t>(us * left(name) * 1000);
  if (length <= 0) return;
  volatile std::uint64_t x = 0;
  for (const std::int64_t begin = now(); now() - begin < length;)
    for (std::uint64_t i = 0; i < kStep; ++i) x = x + i;
}

inline void sleep(const char* name, double us) {
  std::this_thread::sleep_for(std::chrono::nanoseconds(static_cast<std::int64_t>(us * left(name) * 1000)));
}

// Each part is a component of its name where stubs are asked, too.
[[gnu::noinline]] inline void work(const char* name, double us) {
#ifdef LATLAB_WITH_STUBS
  latlab::stub::component(name, [name, us] { return spin(name, us), std::uint32_t{1}; });
#else
  spin(name, us);
#endif
}

inline void nap(const char* name, double us) {
#ifdef LATLAB_WITH_STUBS
  latlab::stub::component(name, [name, us] { return sleep(name, us), std::uint32_t{1}; });
#else
  sleep(name, us);
#endif
}

using Queue = TextbookQueue<int>;

inline std::thread run(const char* name, std::function<void()> body) {
  return std::thread([name, body = std::move(body)] {
    pthread_setname_np(pthread_self(), name);
    body();
  });
}

// So many rounds, or several times as many where a run has to last.
inline int many(int rounds) {
  return rounds * length;
}

// A thread of a name that does a step so many times.
inline std::thread repeat(const char* name, int rounds, std::function<void()> step) {
  return run(name, [rounds = many(rounds), step = std::move(step)] {
    for (int i = 0; i < rounds; ++i) step();
  });
}

using Systems = std::map<std::string, void (*)()>;
extern const Systems all;  // of the program that includes this

// Runs the system that the command line names: NAME SEED [PART SHARE [LENGTH]].
inline int choose(int argc, char** argv, const Systems& systems) {
  if (argc < 3 || systems.find(argv[1]) == systems.end()) return 2;
  dice.seed(static_cast<unsigned>(std::atoi(argv[2])));
  if (argc > 4) part = argv[3], share = std::atof(argv[4]);
  if (argc > 5) length = std::atoi(argv[5]);
  systems.at(argv[1])();
  return 0;
}

}  // namespace systems

int main(int argc, char** argv) {
  return systems::choose(argc, argv, systems::all);
}
