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
// A loop that a compiler cannot leave out.
static inline unsigned mixed(unsigned x, int rounds) {
  for (int i = 0; i < rounds; i++) x = x * 1664525u + 1013904223u;
  return x;
}
// As many threads of it as are said, with 1, 2, 3 and so on.
static inline void run_each(size_t threads, void* (*one)(void*)) {
  pthread_t t[16];
  for (size_t i = 0; i < threads; i++) pthread_create(&t[i], NULL, one, (void*)(i + 1));
  for (size_t i = 0; i < threads; i++) pthread_join(t[i], NULL);
}
static inline void run_both(void* (*one)(void*), void* (*other)(void*)) {
  pthread_t a, b;
  pthread_create(&a, NULL, one, NULL);
  pthread_create(&b, NULL, other, NULL);
  pthread_join(a, NULL);
  pthread_join(b, NULL);
}
