// limit: process,timer | plotter|plot_sheet|child|forked
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { POINTS = 512, SLOTS = 4 };

struct mailbox {
  atomic_uint sent, plotted;
  double sheets[SLOTS][POINTS];
  double ink;
};

static double clock_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

__attribute__((noinline)) static double plot_sheet(const double* points) {
  double ink = 0;
  for (int r = 0; r < 120; ++r)
    for (int i = 1; i < POINTS; ++i) ink += (points[i] - points[i - 1]) * (r & 3);
  nanosleep(&(struct timespec){0, 1300000}, NULL);
  return ink;
}

static void plotter(struct mailbox* box) {
  prctl(PR_SET_NAME, "plotter");
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (unsigned n = 0;; ++n) {
    while (atomic_load_explicit(&box->sent, memory_order_acquire) == n) usleep(100);
    box->ink += plot_sheet(box->sheets[n % SLOTS]);
    atomic_store_explicit(&box->plotted, n + 1, memory_order_release);
  }
}

__attribute__((noinline)) static void draft(double* points, unsigned n) {
  for (int i = 0; i < POINTS; ++i) points[i] = (double)((n * 31 + i * i) % 977) / 977;
}

__attribute__((noinline)) static void wait_for_room(struct mailbox* box, unsigned n) {
  while (n - atomic_load_explicit(&box->plotted, memory_order_acquire) >= SLOTS)
    for (int k = 0; k < 50; ++k) __builtin_ia32_pause();
}

int main(int argc, char** argv) {
  const double end = clock_s() + (argc > 1 ? atof(argv[1]) : 5);
  struct mailbox* box = mmap(NULL, sizeof *box, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  const pid_t child = fork();
  if (child == 0) plotter(box);
  for (unsigned n = 0; clock_s() < end; ++n) {
    wait_for_room(box, n);
    draft(box->sheets[n % SLOTS], n);
    atomic_store_explicit(&box->sent, n + 1, memory_order_release);
  }
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  printf("%u sheets %g\n", atomic_load(&box->plotted), box->ink);
}
