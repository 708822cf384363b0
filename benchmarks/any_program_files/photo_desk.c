// limit: thread | resize
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>
static int job, done;
static volatile int over;
static float pixels[65536];
static void resize(void) {
  for (int pass = 0; pass < 8; pass++)
    for (int i = 1; i < 65535; i++) pixels[i] = (pixels[i - 1] + pixels[i] + pixels[i + 1]) / 3 + 1;
}
static void* darkroom(void* _) {
  uint64_t n;
  while (!over) {
    if (read(job, &n, 8) != 8) break;
    resize();
    n = 1;
    if (write(done, &n, 8) != 8) break;
  }
  return _;
}
int main(int c, char** v) {
  time_t end = time(0) + 1 + atoi(v[1]);
  job = eventfd(0, 0);
  done = eventfd(0, 0);
  int ep = epoll_create1(0);
  struct epoll_event e = {.events = EPOLLIN, .data.fd = done};
  epoll_ctl(ep, EPOLL_CTL_ADD, done, &e);
  pthread_t t;
  pthread_create(&t, 0, darkroom, 0);
  uint64_t one = 1;
  long n = 0;
  if (write(job, &one, 8) != 8) return 1;
  while (time(0) < end) {
    if (epoll_wait(ep, &e, 1, 100) == 1) {
      uint64_t k;
      if (read(done, &k, 8) != 8) return 1;
      n++;
      if (write(job, &one, 8) != 8) return 1;
    }
  }
  over = 1;
  if (write(job, &one, 8) != 8) return 1;
  pthread_join(t, 0);
  printf("%ld photos\n", n);
  return c == 0;
}
