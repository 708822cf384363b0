// Threads: as the system's name says; every wait is a mutex, a condition variable, a pipe or a nap.
//
// Systems whose parts can really be made faster: systems NAME SEED PART SHARE. Part PART does only 1 - SHARE
// of its work (or of its nap), which is the truth that a forecast is held against.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "parts.hpp"

namespace {

using namespace systems;

void line(std::vector<double> costs, int items, std::size_t room) {
  static const char* names[] = {"first", "middle", "last"};
  std::deque<Queue> queues;
  for (std::size_t i = 0; i + 1 < costs.size(); ++i) queues.emplace_back(room);
  std::vector<std::thread> threads;
  for (std::size_t stage = 0; stage < costs.size(); ++stage)
    threads.push_back(run(names[stage], [&, stage] {
      for (int i = 0; i < many(items); ++i) {
        if (stage > 0) queues[stage - 1].pop();
        if (stage == 0) work("first", costs[0]);
        if (stage == 1) work("middle", costs[1]);
        if (stage == 2) work("last", costs[2]);
        if (stage + 1 < costs.size()) {
          queues[stage].push(i);
        } else {
          COZ_PROGRESS;
        }
      }
    }));
  for (auto& one : threads) one.join();
}

void serial() {
  const double first = between(500, 700), second = between(300, 500);
  for (int i = 0; i < many(700); ++i) {
    work("first", first);
    work("second", second);
    COZ_PROGRESS;
  }
}

void line_middle() {
  const double cost = between(800, 1200);
  line({cost * between(0.3, 0.4), cost, cost * between(0.2, 0.3)}, 600, 16);
}

void line_cpus() {
  line({between(450, 550), between(900, 1100), between(650, 750)}, 500, 16);
}

void line_last() {
  line({between(200, 300), between(300, 400), between(900, 1100)}, 600, 64);
}

void fork_join() {
  const double late = between(16000, 20000), early = between(8000, 10000);
  for (int round = 0; round < many(30); ++round) {
    auto a = run("early", [&] { work("early", early); });
    auto b = run("late", [&] { work("late", late); });
    a.join(), b.join();
    COZ_PROGRESS;
  }
}

void rounds() {
  Barrier meet(2);
  const double slow = between(1500, 2000), quick = between(700, 900);
  auto a = repeat("slow", 350, [&] {
    work("slow", slow);
    meet.arrive_and_wait();
    COZ_PROGRESS;
  });
  auto b = repeat("quick", 350, [&] { work("quick", quick), meet.arrive_and_wait(); });
  a.join(), b.join();
}

void locked() {
  std::mutex mutex;
  const double hold = between(350, 450), other = between(80, 120);
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.push_back(run("locker", [&] {
      for (int i = 0; i < many(800); ++i) {
        work("other", other);
        {
          const std::lock_guard guard(mutex);
          work("hold", hold);
        }
        COZ_PROGRESS;
      }
    }));
  for (auto& one : threads) one.join();
}

void pool() {
  Queue jobs(64);
  const double cost = between(1500, 2500), feed = between(300, 400);
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.push_back(run("worker", [&] {
      while (jobs.pop() >= 0) {
        work("worker", cost);
        COZ_PROGRESS;
      }
    }));
  auto feeder = run("feeder", [&] {
    for (int i = 0; i < many(500); ++i) work("feeder", feed), jobs.push(i);
    jobs.push(-1), jobs.push(-1);
  });
  feeder.join();
  for (auto& one : threads) one.join();
}

void paced() {
  Queue jobs(64);
  const double cost = between(1000, 2000);
  auto worker = run("worker", [&] {
    while (jobs.pop() >= 0) {
      work("worker", cost);
      COZ_PROGRESS;
    }
  });
  auto ticker = run("ticker", [&] {
    auto next = std::chrono::steady_clock::now();
    for (int i = 0; i < many(150); ++i) {
      next += std::chrono::milliseconds(5);
      std::this_thread::sleep_until(next);
      jobs.push(i);
    }
    jobs.push(-1);
  });
  ticker.join(), worker.join();
}

void napping() {
  Queue jobs(8);
  const double rest = between(1500, 2000), cost = between(500, 700);
  auto napper = run("napper", [&] {
    for (int i = 0; i < many(350); ++i) {
      nap("nap", rest);
      work("napper", 100);
      jobs.push(i);
    }
    jobs.push(-1);
  });
  auto worker = run("worker", [&] {
    while (jobs.pop() >= 0) {
      work("worker", cost);
      COZ_PROGRESS;
    }
  });
  napper.join(), worker.join();
}

void crowd() {
  const double big = between(500, 600), small = between(200, 300);
  auto a = run("big", [&] {
    for (int i = 0; i < 1000; ++i) work("big", big);
  });
  auto b = run("small", [&] {
    for (int i = 0; i < 1000; ++i) work("small", small);
  });
  auto c = run("other", [&] {
    for (int i = 0; i < 1000; ++i) work("other", small * 1.5);
  });
  a.join(), b.join(), c.join();
}

void asking() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) std::abort();
  const double cost = between(250, 350), own = between(120, 180);
  const pid_t server = fork();
  if (server == 0) {
    pthread_setname_np(pthread_self(), "server");
    close(ends[0]);
    char byte;
    while (read(ends[1], &byte, 1) == 1) {
      work("server", cost);
      if (write(ends[1], &byte, 1) != 1) break;
    }
    _exit(0);
  }
  close(ends[1]);
  pthread_setname_np(pthread_self(), "client");
  char byte = 0;
  for (int i = 0; i < 1500; ++i) {
    work("client", own);
    if (write(ends[0], &byte, 1) != 1 || read(ends[0], &byte, 1) != 1) std::abort();
  }
  close(ends[0]);
  waitpid(server, nullptr, 0);
}

void pipes() {
  static const char* names[] = {"first", "middle", "last"};
  const double costs[] = {between(200, 300), between(700, 900), between(150, 250)};
  int before = -1;
  std::vector<pid_t> children;
  for (int stage = 0; stage < 3; ++stage) {
    int ends[2] = {-1, -1};
    if (stage < 2 && pipe(ends) != 0) std::abort();
    const pid_t child = fork();
    if (child == 0) {
      pthread_setname_np(pthread_self(), names[stage]);
      if (ends[0] >= 0) close(ends[0]);
      static char block[4096];
      for (int i = 0; stage > 0 || i < 700; ++i) {
        if (stage > 0) {
          std::size_t have = 0;
          while (have < sizeof block) {
            const ssize_t got = read(before, block + have, sizeof block - have);
            if (got <= 0) _exit(0);
            have += static_cast<std::size_t>(got);
          }
        }
        work(names[stage], costs[stage]);
        if (stage < 2 && write(ends[1], block, sizeof block) < 0) _exit(1);
      }
      _exit(0);
    }
    children.push_back(child);
    if (before >= 0) close(before);
    if (ends[1] >= 0) close(ends[1]);
    before = ends[0];
  }
  for (const pid_t child : children) waitpid(child, nullptr, 0);
}

void disk() {
  Queue jobs(16);
  const double cost = between(3000, 4000);
  auto maker = run("maker", [&] {
    for (int i = 0; i < 150; ++i) work("maker", cost), jobs.push(i);
    jobs.push(-1);
  });
  auto writer = run("writer", [&] {
    char path[] = "/var/tmp/latlab-systems-XXXXXX";
    const int file = mkstemp(path);
    unlink(path);
    static char block[16384];
    while (jobs.pop() >= 0)
      if (write(file, block, sizeof block) < 0 || fdatasync(file) != 0) std::abort();
    close(file);
  });
  maker.join(), writer.join();
}

}  // namespace

const Systems systems::all{{"serial", serial},       {"line_middle", line_middle},
                           {"line_cpus", line_cpus}, {"line_last", line_last},
                           {"fork_join", fork_join}, {"rounds", rounds},
                           {"locked", locked},       {"pool", pool},
                           {"paced", paced},         {"napping", napping},
                           {"crowd", crowd},         {"asking", asking},
                           {"pipes", pipes},         {"disk", disk}};
