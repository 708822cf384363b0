// limit: thread | transcode
// The writer polls the queue's head and reads the clock, to give up after a second; the other thread does the
// work.
#include <stdatomic.h>
#include <stdio.h>
#include "now.h"
static atomic_ulong head;
static atomic_int done;
static unsigned long slot[64], written;
static __attribute__((noinline)) unsigned long transcode(unsigned long x) {
  for (int i = 0; i < 300000; i++) x ^= x << 13, x ^= x >> 7, x ^= x << 17;
  return x;
}
static void* transcoder(void* arg) {
  for (unsigned long i = 1; !over(); i++) {
    slot[i % 64] = transcode(i);
    atomic_store(&head, i);
  }
  atomic_store(&done, 1);
  return arg;
}
static int next(unsigned long tail) {
  double give_up = now() + 1.0;
  while (atomic_load(&head) <= tail)
    if (now() > give_up || atomic_load(&done)) return 0;
  return 1;
}
static void* writer(void* arg) {
  for (unsigned long tail = 0; next(tail); tail++) written ^= slot[(tail + 1) % 64];
  return arg;
}
int main(int argc, char** argv) {
  begin(argc, argv);
  run_both(transcoder, writer);
  printf("%lu\n", written);
}
