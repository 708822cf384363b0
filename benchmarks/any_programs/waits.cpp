// Programs whose limit is easily mistaken: spinning for a part of the time, one word of several roles, a lock
// of processes that lies elsewhere in each, a lock beside a thread that computes, a source that is asked for
// each item. Each with one planted limit; which one stands in benchmarks/any_program_waits.py.
//
//     waits MODE SECONDS [key=value ...]
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../textbook_queue.hpp"

using Clock = std::chrono::steady_clock;
namespace {
std::map<std::string, std::string> options;
Clock::time_point until;
volatile double kept;
long number(const std::string& key, long otherwise) {
  const auto found = options.find(key);
  return found == options.end() ? otherwise : std::atol(found->second.c_str());
}
bool over() {
  return Clock::now() > until;
}
long per_us = 0;
[[gnu::noinline]] double turns(long n) {
  double sum = 1;
  for (long i = 1; i < n; i++) sum += 1.0 / (sum + i);
  return sum;
}
// By a number of turns, not by the clock: who loses its CPU is later for it.
[[gnu::noinline]] void churn(long us) {
  kept = turns(us * per_us);
}
void calibrate() {
  long best = 0;
  for (int i = 0; i < 5; i++) {
    const auto begin = Clock::now();
    kept = turns(400000);
    const auto us = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin).count();
    best = std::max(best, 400000L * 1000 / us);
  }
  per_us = best;
}
void named(const char* name) {
  pthread_setname_np(pthread_self(), name);
}

int how;  // of spinning
inline void relax() {
  if (how == 1) __builtin_ia32_pause();
  if (how == 2) sched_yield();
}

// a barrier that spins: grind is late each time.
std::atomic<int> arrived{0}, generation{0};
std::atomic<bool> ended{false};
[[gnu::noinline]] void meet(int crew) {
  const int mine = generation.load();
  if (arrived.fetch_add(1) + 1 == crew) {
    if (over()) ended = true;
    arrived = 0;
    generation.fetch_add(1);
    return;
  }
  while (generation.load(std::memory_order_acquire) == mine) relax();
}
// What does nothing but work, and has the name that an answer is to tell.
#define WORK(name)                       \
  [[gnu::noinline]] void name(long us) { \
    churn(us);                           \
  }
WORK(grind)
WORK(sift)
void mill() {
  named("mill");
  while (!ended) {
    grind(number("slow", 3000));
    meet(2);
  }
}
void sieve() {
  named("sieve");
  while (!ended) {
    sift(number("fast", 1500));
    meet(2);
  }
}
void spin_barrier() {
  std::thread a(mill), b(sieve);
  a.join();
  b.join();
}

// one works 60 %, two spin meanwhile and work for the rest.
std::atomic<long> batch{0};
std::atomic<long> done{0};
WORK(compose)
WORK(stamp)
void composer() {
  named("composer");
  const long crew = number("stampers", 2);
  for (long n = 1; !over(); n++) {
    compose(number("slow", 3000));
    batch.store(n, std::memory_order_release);
    while (done.load(std::memory_order_acquire) < crew * n) relax();
  }
  ended = true;
  batch = -1;
}
void stamper() {
  named("stamper");
  for (long n = 1;; n++) {
    while (batch.load(std::memory_order_acquire) < n) {
      if (ended) return;
      relax();
    }
    if (ended) return;
    stamp(number("fast", 2000));
    done.fetch_add(1);
  }
}
void spin_three() {
  std::vector<std::thread> all;
  all.emplace_back(composer);
  for (int i = 0; i < number("stampers", 2); i++) all.emplace_back(stamper);
  for (auto& one : all) one.join();
}

// one futex word that three roles make a lock of
std::atomic<int> gate{0};
long futex(std::atomic<int>* at, int op, int value) {
  return syscall(SYS_futex, at, op, value, nullptr, nullptr, 0);
}
[[gnu::noinline]] void take() {
  int c = 0;
  if (gate.compare_exchange_strong(c, 1)) return;
  if (c != 2) c = gate.exchange(2);
  while (c != 0) {
    futex(&gate, FUTEX_WAIT_PRIVATE, 2);
    c = gate.exchange(2);
  }
}
[[gnu::noinline]] void give() {
  if (gate.fetch_sub(1) != 1) {
    gate = 0;
    futex(&gate, FUTEX_WAKE_PRIVATE, 1);
  }
}
WORK(produce_part)
WORK(consume_part)
WORK(sweep_part)
void own_lock() {
  const auto by_turns = [](const char* name, void (*part)(long)) {
    named(name);
    while (!over()) {
      take();
      part(number("inside", 400));
      give();
      churn(50);
    }
  };
  std::thread a(by_turns, "producer", produce_part);
  std::thread b(by_turns, "consumer", consume_part);
  std::thread c(by_turns, "janitor", sweep_part);
  a.join();
  b.join();
  c.join();
}
// a lock held too long beside a hog nobody waits for
std::mutex book;
WORK(post)
[[gnu::noinline]] void mine_coins() {
  while (!over()) churn(1000);
}
void hog() {
  std::vector<std::thread> all;
  all.emplace_back([] {
    named("miner");
    mine_coins();
  });
  for (int i = 0; i < number("threads", 3); i++)
    all.emplace_back([] {
      named("teller");
      while (!over()) {
        {
          std::lock_guard lock(book);
          post(number("inside", 400));
        }
        churn(number("outside", 30));
      }
    });
  for (auto& one : all) one.join();
}
// a source that computes each item
WORK(next_quote)
WORK(price)
// Each consumer asks the generator for its next item, and works at it.
void pull() {
  TextbookQueue<int> asks(8);
  std::vector<TextbookQueue<int>*> answers;
  const int n = number("consumers", 2);
  for (int i = 0; i < n; i++) answers.push_back(new TextbookQueue<int>(1));
  std::thread g([&] {
    named("quotes");
    for (;;) {
      int who = asks.pop();
      if (who < 0) return;
      next_quote(number("make", 500));
      answers[who]->push(1);
    }
  });
  std::vector<std::thread> all;
  for (int i = 0; i < n; i++)
    all.emplace_back([&, i] {
      named("pricer");
      while (!over()) {
        asks.push(i);
        answers[i]->pop();
        price(number("use", 300));
      }
    });
  for (auto& one : all) one.join();
  asks.push(-1);
  g.join();
}
// fork and join, one worker late in most rounds, by chance another one
WORK(tile)
void rounds() {
  pthread_barrier_t barrier;
  const int n = number("workers", 2);
  pthread_barrier_init(&barrier, nullptr, n);
  std::vector<std::thread> all;
  std::atomic<bool> stop{false};
  for (int i = 0; i < n; i++)
    all.emplace_back([&, i] {
      named("tiler");
      std::mt19937 draw(1);
      while (!stop) {
        const int late = draw() % n;
        tile(late == i ? number("long", 3000) : number("short", 600));
        pthread_barrier_wait(&barrier);
        if (i == 0 && over()) stop = true;
        pthread_barrier_wait(&barrier);
      }
    });
  for (auto& one : all) one.join();
}
// a shared pthread mutex that lies elsewhere in each of two programs
void attach(const char* name, int skew, const char* role) {
  const int file = shm_open(name, O_RDWR, 0600);
  for (int i = 0; i < skew; i++) (void)mmap(nullptr, 1 << 21, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  auto* at = static_cast<char*>(mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  auto* lock = reinterpret_cast<pthread_mutex_t*>(at + 4096);
  named(role);
  while (!over()) {
    pthread_mutex_lock(lock);
    post(number("inside", 400));
    pthread_mutex_unlock(lock);
    churn(number("outside", 40));
  }
}
void elsewhere(char** argv) {
  const std::string name = "/rules-" + std::to_string(getpid());
  const int file = shm_open(name.c_str(), O_RDWR | O_CREAT, 0600);
  if (ftruncate(file, 8192)) return;
  auto* at = static_cast<char*>(mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  pthread_mutexattr_t a;
  pthread_mutexattr_init(&a);
  pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
  pthread_mutex_init(reinterpret_cast<pthread_mutex_t*>(at + 4096), &a);
  for (int i = 0; i < number("workers", 3); i++)
    if (!fork()) {
      const std::string skew = "skew=" + std::to_string(i), shm = "shm=" + name;
      const std::string in = "inside=" + std::to_string(number("inside", 400));
      execl("/proc/self/exe", argv[0], "attach", argv[2], skew.c_str(), shm.c_str(), in.c_str(), nullptr);
      _exit(1);
    }
  while (wait(nullptr) > 0) {
  }
  shm_unlink(name.c_str());
}
}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  for (int i = 3; i < argc; i++)
    if (const char* eq = std::strchr(argv[i], '=')) options[std::string(argv[i], eq - argv[i])] = eq + 1;
  calibrate();
  until = Clock::now() + std::chrono::milliseconds(static_cast<long>(1000 * std::atof(argv[2])));
  how = static_cast<int>(number("how", 0));
  const std::string mode = argv[1];
  const std::map<std::string, void (*)()> plain = {{"spin_barrier", spin_barrier},
                                                   {"spin_three", spin_three},
                                                   {"own_lock", own_lock},
                                                   {"hog", hog},
                                                   {"pull", pull},
                                                   {"rounds", rounds}};
  if (const auto found = plain.find(mode); found != plain.end())
    found->second();
  else if (mode == "elsewhere")
    elsewhere(argv);
  else if (mode == "attach")
    attach(options["shm"].c_str(), number("skew", 0), "worker");
  else
    return 2;
  return 0;
}
