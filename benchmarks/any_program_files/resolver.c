// limit: thread | resolve
// An epoll loop hands names to a resolver thread by an eventfd, and gets them back by another.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "now.h"
static int asked, answered;
static volatile int stop;
static unsigned long checksum;
static __attribute__((noinline)) unsigned long resolve(unsigned long name) {
  for (int i = 0; i < 150000; i++) name = name * 6364136223846793005ul + (name >> 33);
  return name;
}
static void* resolver_thread(void* arg) {
  uint64_t n;
  while (read(asked, &n, sizeof n) == sizeof n && !stop) {
    for (uint64_t i = 0; i < n; i++) {
      checksum ^= resolve(i + n);
      uint64_t one = 1;
      if (write(answered, &one, sizeof one) < 0) return arg;
    }
  }
  return arg;
}
int main(int argc, char** argv) {
  begin(argc, argv);
  asked = eventfd(0, 0);
  answered = eventfd(0, EFD_NONBLOCK);
  int loop = epoll_create1(0);
  struct epoll_event ev = {.events = EPOLLIN, .data.fd = answered};
  epoll_ctl(loop, EPOLL_CTL_ADD, answered, &ev);
  pthread_t t;
  pthread_create(&t, NULL, resolver_thread, NULL);
  uint64_t n = 4, done = 0;
  if (write(asked, &n, sizeof n) < 0) return 1;
  while (!over()) {
    if (epoll_wait(loop, &ev, 1, 100) < 1) continue;
    if (read(answered, &n, sizeof n) < 0) continue;
    done += n;
    for (volatile int i = 0; i < 20000; i++) {
    }
    if (write(asked, &n, sizeof n) < 0) return 1;
  }
  stop = 1;
  n = 1;
  if (write(asked, &n, sizeof n) < 0) return 1;
  pthread_join(t, NULL);
  printf("%lu %lu\n", (unsigned long)done, checksum);
}
