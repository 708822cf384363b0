// limit: lock | counters|count_word|bucket
// Threads count into buckets of which everybody wants the same one: a pthread spin lock held long.
#include <pthread.h>
#include <stdio.h>
#include "now.h"
static pthread_spinlock_t bucket;
static unsigned long counts[512];
static __attribute__((noinline)) void count_word(unsigned word) {
  pthread_spin_lock(&bucket);
  for (int i = 0; i < 512; i++) counts[i] = counts[i] * 3 + (counts[(i * 7) & 511] ^ word);
  pthread_spin_unlock(&bucket);
}
static void* counter(void* arg) {
  unsigned word = (unsigned)(size_t)arg;
  while (!over())
    for (int n = 0; n < 50; n++) {
      for (int i = 0; i < 200; i++) word = word * 1664525u + 1013904223u;
      count_word(word);
    }
  return NULL;
}
int main(int argc, char** argv) {
  begin(argc, argv);
  pthread_spin_init(&bucket, 0);
  pthread_t t[2];
  for (size_t i = 0; i < 2; i++) pthread_create(&t[i], NULL, counter, (void*)(i + 1));
  for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
  printf("%lu\n", counts[3]);
}
