// Until when a program runs: a deadline that is asked once an item, as programs with a --duration do.
#pragma once
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
static double until;
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
static void begin(int argc, char** argv) {
  until = now() + (argc > 1 ? atof(argv[1]) : 2.0);
}
static int over(void) {
  return now() > until;
}
static inline void run_both(void* (*one)(void*), void* (*other)(void*)) {
  pthread_t a, b;
  pthread_create(&a, NULL, one, NULL);
  pthread_create(&b, NULL, other, NULL);
  pthread_join(a, NULL);
  pthread_join(b, NULL);
}
