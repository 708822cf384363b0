// Threads: as the system's name says; the kinds of waits that `systems` has not.
//
// Barriers with uneven rounds, queues without a bound, semaphores, tasks with futures, eventfds, read-write
// locks, servers with several clients, many pipes into one: waits NAME SEED PART SHARE.
#include <poll.h>
#include <semaphore.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <barrier>
#include <future>
#include <shared_mutex>
#include <vector>

#include "parts.hpp"

namespace {

using namespace systems;

// The sizes of so many jobs, which don't depend on who does them.
std::vector<double> sizes(int count, double low, double high) {
  std::vector<double> all;
  for (int i = 0; i < count; ++i) all.push_back(between(low, high));
  return all;
}

void uneven() {
  std::barrier meet(3);
  const auto a = sizes(250, 500, 1500), b = sizes(250, 500, 1500), c = sizes(250, 100, 300);
  auto one = run("left", [&] {
    for (double us : a) work("left", us), meet.arrive_and_wait();
  });
  auto two = run("right", [&] {
    for (double us : b) work("right", us), meet.arrive_and_wait();
  });
  auto three = run("light", [&] {
    for (double us : c) work("light", us), meet.arrive_and_wait();
  });
  one.join(), two.join(), three.join();
}

void backlog() {
  Queue jobs(100000);
  const double make = between(250, 350);
  const auto cost = sizes(500, 600, 1400);
  auto maker = run("maker", [&] {
    for (int i = 0; i < 500; ++i) work("maker", make), jobs.push(i);
    jobs.push(-1);
  });
  auto eater = run("eater", [&] {
    for (int i; (i = jobs.pop()) >= 0;) work("eater", cost[static_cast<std::size_t>(i)]);
  });
  maker.join(), eater.join();
}

void bursts() {
  Queue jobs(1000);
  const auto cost = sizes(400, 300, 500);
  auto eater = run("eater", [&] {
    for (int i; (i = jobs.pop()) >= 0;) work("eater", cost[static_cast<std::size_t>(i)]);
  });
  auto source = run("source", [&] {
    for (int burst = 0; burst < 20; ++burst) {
      nap("pause", 20000);
      for (int i = 0; i < 20; ++i) jobs.push(burst * 20 + i);
    }
    jobs.push(-1);
  });
  source.join(), eater.join();
}

void semaphores() {
  sem_t room, filled;
  sem_init(&room, 0, 4), sem_init(&filled, 0, 0);
  const auto a = sizes(500, 400, 800), b = sizes(500, 700, 1300);
  auto maker = run("maker", [&] {
    for (double us : a) work("maker", us), sem_wait(&room), sem_post(&filled);
  });
  auto eater = run("eater", [&] {
    for (double us : b) sem_wait(&filled), work("eater", us), sem_post(&room);
  });
  maker.join(), eater.join();
}

void tasks() {
  Queue jobs(64);
  std::vector<std::promise<void>> done(400);
  const auto cost = sizes(400, 500, 1500);
  const double merge = between(400, 600);
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.push_back(run("worker", [&] {
      for (int i; (i = jobs.pop()) >= 0;) {
        work("worker", cost[static_cast<std::size_t>(i)]);
        done[static_cast<std::size_t>(i)].set_value();
      }
    }));
  auto boss = run("boss", [&] {
    for (int batch = 0; batch < 100; ++batch) {
      for (int i = 0; i < 4; ++i) jobs.push(batch * 4 + i);
      for (int i = 0; i < 4; ++i) done[static_cast<std::size_t>(batch * 4 + i)].get_future().wait();
      work("boss", merge);
    }
    jobs.push(-1), jobs.push(-1);
  });
  boss.join();
  for (auto& one : threads) one.join();
}

void relay() {
  const int there = eventfd(0, EFD_SEMAPHORE), back = eventfd(0, EFD_SEMAPHORE);
  const double a = between(300, 500), b = between(500, 700);
  auto ask = run("ask", [&] {
    for (int i = 0; i < 700; ++i) {
      work("ask", a);
      eventfd_write(there, 1);
      eventfd_t got;
      eventfd_read(back, &got);
    }
  });
  auto answer = run("answer", [&] {
    for (int i = 0; i < 700; ++i) {
      eventfd_t got;
      eventfd_read(there, &got);
      work("answer", b);
      eventfd_write(back, 1);
    }
  });
  ask.join(), answer.join();
}

void shared() {
  std::shared_mutex mutex;
  const double write = between(400, 600), read = between(200, 300), other = between(300, 400);
  auto writer = run("writer", [&] {
    for (int i = 0; i < 500; ++i) {
      work("think", other);
      const std::unique_lock guard(mutex);
      work("write", write);
    }
  });
  auto reader = run("reader", [&] {
    for (int i = 0; i < 700; ++i) {
      work("other", other);
      const std::shared_lock guard(mutex);
      work("read", read);
    }
  });
  writer.join(), reader.join();
}

void server() {
  int ends[2][2];
  for (auto& pair : ends)
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) std::abort();
  const double cost = between(250, 350), own = between(350, 450);
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.push_back(run("client", [&, t] {
      char byte = 0;
      for (int i = 0; i < 900; ++i) {
        work("client", own);
        if (write(ends[t][0], &byte, 1) != 1 || read(ends[t][0], &byte, 1) != 1) std::abort();
      }
      close(ends[t][0]);
    }));
  threads.push_back(run("server", [&] {
    pollfd wait[2] = {{ends[0][1], POLLIN, 0}, {ends[1][1], POLLIN, 0}};
    for (int open = 2; open > 0;) {
      poll(wait, 2, -1);
      for (auto& one : wait) {
        if (one.revents == 0) continue;
        char byte;
        if (read(one.fd, &byte, 1) != 1) {
          one.fd = -1, --open;
          continue;
        }
        work("server", cost);
        if (write(one.fd, &byte, 1) != 1) std::abort();
      }
    }
  }));
  for (auto& one : threads) one.join();
}

void gather() {
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  const double make = between(900, 1100), eat = between(250, 350);
  std::vector<pid_t> children;
  for (int t = 0; t < 2; ++t) {
    const pid_t child = fork();
    if (child == 0) {
      pthread_setname_np(pthread_self(), "maker");
      close(ends[0]);
      static char block[512];
      for (int i = 0; i < 400; ++i) {
        work("maker", make);
        if (write(ends[1], block, sizeof block) < 0) _exit(1);
      }
      _exit(0);
    }
    children.push_back(child);
  }
  close(ends[1]);
  pthread_setname_np(pthread_self(), "eater");
  static char block[512];
  while (read(ends[0], block, sizeof block) > 0) work("eater", eat);
  for (const pid_t child : children) waitpid(child, nullptr, 0);
}

void phases() {
  const double read = between(150000, 200000), write = between(100000, 150000);
  const auto cost = sizes(3, 200000, 400000);
  pthread_setname_np(pthread_self(), "main");
  work("read", read);
  std::vector<std::thread> threads;
  for (double us : cost) threads.push_back(run("worker", [us] { work("worker", us); }));
  for (auto& one : threads) one.join();
  work("write", write);
}

void rested() {
  std::vector<std::thread> threads;
  const double rest = between(900, 1100), cost = between(500, 600);
  for (int t = 0; t < 2; ++t)
    threads.push_back(run("rester", [&] {
      for (int i = 0; i < 450; ++i) nap("nap", rest), work("work", cost);
    }));
  for (auto& one : threads) one.join();
}

}  // namespace

const Systems systems::all{{"uneven", uneven},         {"backlog", backlog}, {"bursts", bursts},
                           {"semaphores", semaphores}, {"tasks", tasks},     {"relay", relay},
                           {"shared", shared},         {"server", server},   {"gather", gather},
                           {"phases", phases},         {"rested", rested}};
