// limit: thread,process | encode|deck_reader|reader
#define _GNU_SOURCE
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BLOCK 8192
#define BLOCKS 16
struct tape {
  sem_t filled, empty;
  volatile int end;
  unsigned char block[BLOCKS][BLOCK];
};

static size_t encode(const unsigned char* in, unsigned char* out) {
  uint16_t last[4096];
  memset(last, 0, sizeof last);
  size_t n = 0;
  for (size_t i = 0; i + 4 < BLOCK;) {
    uint32_t w;
    memcpy(&w, in + i, 4);
    unsigned h = (w * 2654435761u) >> 20;
    size_t at = last[h], len = 0;
    last[h] = (uint16_t)i;
    while (at < i && i + len < BLOCK && in[at + len] == in[i + len] && len < 255) len++;
    if (len > 3) {
      out[n++] = 255;
      out[n++] = (unsigned char)len;
      i += len;
    } else
      out[n++] = in[i++];
  }
  return n;
}

static void deck_reader(struct tape* t) {
  unsigned char out[BLOCK * 2];
  unsigned long long bytes = 0;
  prctl(PR_SET_NAME, "deck-reader");
  for (unsigned r = 0;; r++) {
    sem_wait(&t->filled);
    if (t->end) break;
    for (int level = 0; level < 10; level++) bytes += encode(t->block[r % BLOCKS], out);
    sem_post(&t->empty);
  }
  printf("%llu bytes of tape\n", bytes);
  exit(0);
}

int main(int argc, char** argv) {
  double seconds = argc > 1 ? atof(argv[argc - 1]) : 6;
  struct tape* t = mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  sem_init(&t->filled, 1, 0);
  sem_init(&t->empty, 1, BLOCKS);
  if (!fork()) deck_reader(t);
  struct timespec a, b;
  clock_gettime(CLOCK_MONOTONIC, &a);
  uint64_t x = 88172645463325252ull;
  for (unsigned w = 0;; w++) {
    sem_wait(&t->empty);
    for (int i = 0; i < BLOCK; i += 8) {
      x ^= x << 13;
      x ^= x >> 7;
      x ^= x << 17;
      uint64_t v = (x & 3) ? 0x2020746865206f66ull : x;
      memcpy(t->block[w % BLOCKS] + i, &v, 8);
    }
    sem_post(&t->filled);
    clock_gettime(CLOCK_MONOTONIC, &b);
    if (b.tv_sec - a.tv_sec + (b.tv_nsec - a.tv_nsec) * 1e-9 > seconds) break;
  }
  t->end = 1;
  sem_post(&t->filled);
  wait(NULL);
}
