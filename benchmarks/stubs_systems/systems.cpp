// Over 400 lines: what a benchmark builds is one program, whose every system is started by its name.
//
// Threads: each system starts its own; what they share stands behind a mutex or an atomic.
//
// Systems of known structure around one component, "cus": `systems NAME ITERATIONS_PER_US`. What the
// component would take when it is really faster is asked by LATLAB_FASTER (0 to 1, a part of its work).
// `systems calibrate` prints the iterations of the work loop a microsecond. Threads that run beside each
// other have a CPU each (as those of a program that cares for latency have), so that the structure is the
// system's and not what a scheduler makes of it in this run or that; LATLAB_UNPINNED leaves them to it.
#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <iostream>
#include <latlab/stub.hpp>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

double iterations_per_us = 0;
double faster = 0;

std::uint64_t work(double us) {
  std::uint64_t value = 1;
  for (auto left = static_cast<std::uint64_t>(us * iterations_per_us); left > 0; --left) {
    value = value * 6364136223846793005ULL + 1442695040888963407ULL;
    asm volatile("" : "+r"(value));
  }
  return value;
}

// The component under study: so many microseconds of work, or less where it has become faster.
void cus(double us) {
  latlab::stub::component("cus", [us] {
    work(us * (1 - faster));
    return std::uint32_t{1};
  });
}

void idle(double us) {
  std::this_thread::sleep_for(std::chrono::nanoseconds(static_cast<std::int64_t>(us * 1e3)));
}

// A component that works on memory: a walk through a cycle of 32 MB whose jumps no prefetcher foresees. The
// cycle is that of a linear congruential generator of full period (T. E. Hull and A. R. Dobell, Random Number
// Generators, 1962), which is written in passing: a shuffle would take longer than the system that is
// studied.
struct Walk {
  static constexpr std::uint32_t kSize = 8U << 20U;  // a power of two
  std::vector<std::uint32_t> next = std::vector<std::uint32_t>(kSize);
  std::uint32_t at = 0;
  Walk() {
    for (std::uint32_t i = 0; i < kSize; ++i) next[i] = (i * 1664525U + 1013904223U) % kSize;
  }
  std::uint32_t go(int steps) {
    for (int i = 0; i < steps; ++i) at = next[at];
    return at;
  }
  std::uint32_t component(int steps) {
    return latlab::stub::component("cus", [&] { return go(static_cast<int>(steps * (1 - faster))); });
  }
};

// A component whose cost isn't the work loop's: pieces of something else, fewer where it has become faster.
void pieces(int count, const std::function<void()>& one) {
  latlab::stub::component("cus", [&] {
    const int left = static_cast<int>(count * (1 - faster));
    for (int i = 0; i < left; ++i) one();
    return std::uint32_t{1};
  });
}

// Copies that no cache holds, 128 KB each.
struct Copies {
  static constexpr std::size_t kPiece = 128U << 10U;
  std::vector<char> bytes = std::vector<char>(32U << 20U);
  std::size_t at = 0;
  void operator()() {
    at = (at + 2 * kPiece) % (bytes.size() - 2 * kPiece);
    std::memcpy(bytes.data() + at, bytes.data() + at + kPiece, kPiece);
  }
};

// Numbers that are sorted, 500 each.
struct Sorts {
  std::vector<std::uint32_t> numbers = std::vector<std::uint32_t>(500);
  std::uint32_t seed = 1;
  void operator()() {
    for (std::uint32_t& one : numbers) one = seed = seed * 1664525U + 1013904223U;
    std::sort(numbers.begin(), numbers.end());
  }
};

// A line of text that is written, and read again.
void line() {
  std::array<char, 64> text{};
  static std::atomic<int> number{0};
  const int i = ++number % 1000;
  const int size = std::snprintf(text.data(), text.size(), "%d,%.4f", i, i * 0.37);
  volatile double read = std::strtod(text.data() + (size > 0 ? 2 : 0), nullptr);
  static_cast<void>(read);
}

// The CPU with this number among those that the program may use; empty where there is nothing to choose.
cpu_set_t only(int number) {
  static const cpu_set_t allowed = [] {
    cpu_set_t found;
    sched_getaffinity(0, sizeof found, &found);
    return found;
  }();
  cpu_set_t one;
  CPU_ZERO(&one);
  if (CPU_COUNT(&allowed) < 2 || std::getenv("LATLAB_UNPINNED") != nullptr) return one;
  for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed) && seen++ == number) CPU_SET(cpu, &one);
  }
  return one;
}

void pin(pthread_t thread, int number) {
  const cpu_set_t one = only(number);
  if (CPU_COUNT(&one) == 1) pthread_setaffinity_np(thread, sizeof one, &one);
}

void together(const std::function<void()>& one, const std::function<void()>& other) {
  pin(pthread_self(), 0);
  std::thread thread(one);
  pin(thread.native_handle(), 1);  // from here: by itself it would first wait for our CPU
  other();
  thread.join();
}

void times(int count, const std::function<void()>& what) {
  for (int i = 0; i < count; ++i) what();
}

// A bounded queue of items between two threads.
class Queue {
 public:
  void put() {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [&] { return size_ < 8; });
    ++size_;
    some_.notify_one();
  }
  void take() {
    std::unique_lock lock(mutex_);
    some_.wait(lock, [&] { return size_ > 0; });
    --size_;
    room_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable room_;
  std::condition_variable some_;
  int size_ = 0;
};

void pipeline(int items, const std::function<void()>& first, const std::function<void()>& second) {
  Queue queue;
  together(
      [&] {
        times(items, [&] {
          queue.take();
          second();
        });
      },
      [&] {
        times(items, [&] {
          first();
          queue.put();
        });
      });
}

// Three threads on two CPUs: the first and the last stage share one.
void three_stages(int items, const std::function<void()>& first, const std::function<void()>& second,
                  const std::function<void()>& third) {
  Queue in;
  Queue out;
  std::thread last([&] {
    times(items, [&] {
      out.take();
      third();
    });
  });
  pin(last.native_handle(), 0);
  together(
      [&] {
        times(items, [&] {
          in.take();
          second();
          out.put();
        });
      },
      [&] {
        times(items, [&] {
          first();
          in.put();
        });
      });
  last.join();
}

// Both threads take their tasks from one counter.
void workers(int tasks, const std::function<void()>& task) {
  std::atomic<int> next{0};
  const auto thread = [&] {
    while (next++ < tasks) task();
  };
  together(thread, thread);
}

// One asks, the other answers; nothing of it overlaps.
void round_trips(int count, const std::function<void()>& ask, const std::function<void()>& answer) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) != 0) std::exit(1);
  const auto pass = [](int end, bool first) {
    char byte = 0;
    if ((first ? write(end, &byte, 1) : read(end, &byte, 1)) != 1) std::exit(1);
  };
  together(
      [&] {
        times(count, [&] {
          pass(ends[1], false);
          answer();
          pass(ends[1], true);
        });
      },
      [&] {
        times(count, [&] {
          ask();
          pass(ends[0], true);
          pass(ends[0], false);
        });
      });
}

// Tasks that are due at a rate; one that is late begins at once.
void due(int count, double every_us, const std::function<void()>& task) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < count; ++i) {
    const auto at = static_cast<std::int64_t>(1e3 * every_us * i);
    std::this_thread::sleep_until(begin + std::chrono::nanoseconds(at));
    task();
  }
}

void locked(int rounds, double inside, double outside, bool component_inside) {
  std::mutex mutex;
  const auto thread = [&] {
    times(rounds, [&] {
      {
        const std::lock_guard lock(mutex);
        component_inside ? cus(inside) : static_cast<void>(work(inside));
      }
      work(outside);
    });
  };
  together(thread, thread);
}

char** arguments = nullptr;

// Runs another system of this program as a process.
pid_t start(const char* name, int cpu = -1) {
  const pid_t child = fork();
  if (child > 0 && cpu >= 0) {
    const cpu_set_t one = only(cpu);
    if (CPU_COUNT(&one) == 1) sched_setaffinity(child, sizeof one, &one);
  }
  if (child == 0) {
    const std::string rate = arguments[2];
    execl("/proc/self/exe", arguments[0], name, rate.c_str(), nullptr);
    _exit(127);
  }
  return child;
}
void await(pid_t child) {
  int status = 0;
  if (waitpid(child, &status, 0) != child || status != 0) std::exit(1);
}

const std::map<std::string, std::function<void()>>& systems() {
  static const std::map<std::string, std::function<void()>> all{
      // parts of processes
      {"part-cus", [] { times(60, [] { cus(1000); }); }},
      {"part-other", [] { times(40, [] { work(1000); }); }},
      {"part-long", [] { times(90, [] { work(1000); }); }},
      // the systems
      {"serial", [] { times(50, [] { cus(1200), work(800); }); }},
      {"serial-small", [] { times(50, [] { cus(300), work(1700); }); }},
      {"serial-short", [] { times(15'000, [] { cus(4), work(3); }); }},
      {"fork-join", [] { times(40, [] { together([] { cus(2000); }, [] { work(1200); }); }); }},
      {"fork-join-none", [] { times(40, [] { together([] { cus(1000); }, [] { work(2000); }); }); }},
      {"fork-join-tail",
       [] { times(30, [] { together([] { cus(2000); }, [] { work(1000); }), work(1000); }); }},
      {"phases",
       [] {
         together([] { times(30, [] { cus(1500); }); }, [] { times(30, [] { work(900); }); });
         times(30, [] { cus(1000); });
       }},
      {"pipeline", [] { pipeline(80, [] { cus(1200); }, [] { work(600); }); }},
      {"pipeline-none", [] { pipeline(80, [] { cus(500); }, [] { work(1200); }); }},
      {"pipeline-second", [] { pipeline(80, [] { work(800); }, [] { cus(1200); }); }},
      {"pipeline-hidden", [] { pipeline(80, [] { cus(1300); }, [] { work(200), idle(700); }); }},
      {"lock", [] { locked(40, 1200, 480, true); }},
      {"lock-all", [] { locked(50, 1000, 50, true); }},
      {"lock-none",
       [] {
         together([] { times(40, [] { cus(800); }); }, [] { times(40, [] { work(1000), idle(800); }); });
       }},
      {"io", [] { times(50, [] { cus(1000), idle(1000); }); }},
      {"io-behind", [] { times(40, [] { together([] { idle(1200); }, [] { cus(2000); }); }); }},
      {"io-none", [] { times(40, [] { together([] { idle(2200); }, [] { cus(1000); }); }); }},
      {"io-inside",
       [] {
         times(40, [] {
           latlab::stub::component("cus", [] {
             work(1200 * (1 - faster));
             idle(800);
             return std::uint32_t{1};
           });
           work(400);
         });
       }},
      {"memory",
       [] {
         Walk walk;
         times(40, [&] { walk.component(12'000), work(800); });
       }},
      {"memory-beside",
       [] {
         Walk walk;
         together([&] { times(40, [&] { walk.component(20'000); }); }, [] { times(40, [] { work(600); }); });
       }},
      {"memory-stages",
       [] {
         Walk walk;
         pipeline(40, [&] { walk.component(20'000); }, [] { work(700); });
       }},
      {"copy",
       [] {
         Copies copies;
         times(40, [&] { pieces(150, std::ref(copies)), work(700); });
       }},
      {"copy-beside",
       [] {
         Copies copies;
         together([&] { times(40, [&] { pieces(160, std::ref(copies)); }); },
                  [] { times(40, [] { work(900); }); });
       }},
      {"sort",
       [] {
         Sorts sorts;
         times(50, [&] { pieces(80, std::ref(sorts)), work(600); });
       }},
      {"text", [] { times(50, [] { pieces(3000, line), work(700); }); }},
      {"text-beside",
       [] { together([] { times(40, [] { pieces(4000, line); }); }, [] { times(40, [] { work(800); }); }); }},
      {"barrier",
       [] {
         std::barrier both(2);
         together([&] { times(50, [&] { cus(1500), both.arrive_and_wait(); }); },
                  [&] { times(50, [&] { work(900), both.arrive_and_wait(); }); });
       }},
      {"pipeline-three", [] { three_stages(60, [] { work(500); }, [] { cus(1500); }, [] { work(300); }); }},
      {"workers", [] { workers(100, [] { cus(1000), work(600); }); }},
      {"round-trips", [] { round_trips(60, [] { work(500); }, [] { cus(1000); }); }},
      {"due", [] { due(60, 900, [] { cus(1500); }); }},
      {"due-none", [] { due(50, 2000, [] { cus(1000); }); }},
      {"processes",
       [] {
         const pid_t a = start("part-cus", 0);
         const pid_t b = start("part-other", 1);
         await(a), await(b);
       }},
      {"processes-serial", [] { times(2, [] { await(start("part-cus")), await(start("part-other")); }); }},
      {"processes-none",
       [] {
         const pid_t a = start("part-cus", 0);
         const pid_t b = start("part-long", 1);
         await(a), await(b);
       }},
  };
  return all;
}

double calibrated() {
  iterations_per_us = 1;
  double best = 1e18;
  for (int i = 0; i < 200; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    work(100'000);
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    best = std::min(best, took.count());
  }
  return 100'000 / best;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "calibrate") == 0) {
    std::cout << calibrated() << '\n';
    return 0;
  }
  const auto found = argc == 3 ? systems().find(argv[1]) : systems().end();
  if (found == systems().end()) {
    std::cerr << "systems NAME ITERATIONS_PER_US | systems calibrate\n";
    return 2;
  }
  arguments = argv;
  iterations_per_us = std::atof(argv[2]);
  const char* asked = std::getenv("LATLAB_FASTER");
  faster = asked != nullptr ? std::atof(asked) : 0.0;
  found->second();
  return 0;
}
