// limit: lock | reserve|seats
// Five clerks reserve seats: each searches the whole hall while it holds the mutex.
#include <pthread.h>
#include <stdio.h>
#include "now.h"
static pthread_mutex_t seats_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned char seats[30000];
static long sold;
static __attribute__((noinline)) int reserve(unsigned wish) {
  int found = -1;
  pthread_mutex_lock(&seats_lock);
  for (int i = 0; i < 30000; i++) {
    unsigned s = (wish + (unsigned)i * 7919u) % 30000u;
    if (!seats[s] && (found < 0 || s % 100 < (unsigned)found % 100)) found = (int)s;
  }
  if (found >= 0 && ++sold % 20000 == 0)
    for (int i = 0; i < 30000; i++) seats[i] = 0;
  if (found >= 0) seats[found] = 1;
  pthread_mutex_unlock(&seats_lock);
  return found;
}
static void* clerk(void* arg) {
  unsigned wish = (unsigned)(size_t)arg;
  while (!over()) {
    wish += (unsigned)reserve(wish);
    for (int i = 0; i < 15000; i++) wish = wish * 1103515245u + 12345u;
  }
  return NULL;
}
int main(int argc, char** argv) {
  begin(argc, argv);
  run_each(5, clerk);
  printf("%ld\n", sold);
}
