// limit: thread | mine
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static time_t end;
static void* mine(void* p) {
  uint64_t x = (uintptr_t)p, *best = calloc(1, 8);
  while (time(0) < end)
    for (int i = 0; i < 100000; i++) {
      x ^= x << 13;
      x ^= x >> 7;
      x ^= x << 17;
      if (x > *best) *best = x;
    }
  return best;
}
int main(int c, char** v) {
  end = time(0) + 1 + atoi(v[1]);
  pthread_t t;
  uint64_t* b;
  pthread_create(&t, 0, mine, (void*)77);
  uint64_t* a = mine((void*)99);
  pthread_join(t, (void**)&b);
  printf("%llx\n", (unsigned long long)(*a > *b ? *a : *b));
  (void)c;
}
