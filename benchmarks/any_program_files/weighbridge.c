// limit: thread | fingerprint|stamp_loads
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SLOTS 32
#define BYTES 4096

struct load {
  int truck;
  uint64_t print;
  unsigned char bill[BYTES];
};

struct belt {
  pthread_mutex_t mu;
  pthread_cond_t more, room;
  struct load* slot[SLOTS];
  unsigned head, tail;
};

static struct belt arrivals = {
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, {0}, 0, 0};
static struct belt stamped = {
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, {0}, 0, 0};

static void belt_push(struct belt* b, struct load* l) {
  pthread_mutex_lock(&b->mu);
  while (b->tail - b->head == SLOTS) pthread_cond_wait(&b->room, &b->mu);
  b->slot[b->tail++ % SLOTS] = l;
  pthread_cond_signal(&b->more);
  pthread_mutex_unlock(&b->mu);
}

static struct load* belt_pull(struct belt* b) {
  pthread_mutex_lock(&b->mu);
  while (b->tail == b->head) pthread_cond_wait(&b->more, &b->mu);
  struct load* l = b->slot[b->head++ % SLOTS];
  pthread_cond_signal(&b->room);
  pthread_mutex_unlock(&b->mu);
  return l;
}

static uint64_t fingerprint(const unsigned char* p, size_t n) {
  uint64_t h = 1469598103934665603ull;
  for (int round = 0; round < 60; round++)
    for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * 1099511628211ull;
  return h;
}

static void* stamp_loads(void* unused) {
  struct load* l;
  while ((l = belt_pull(&arrivals))) {
    l->print = fingerprint(l->bill, BYTES);
    belt_push(&stamped, l);
  }
  belt_push(&stamped, NULL);
  return unused;
}

static void* file_bills(void* unused) {
  static uint64_t seen[65536];
  struct load* l;
  long filed = 0;
  while ((l = belt_pull(&stamped))) {
    seen[l->print & 65535] += l->bill[l->print % BYTES];
    free(l);
    filed++;
  }
  printf("%ld bills filed\n", filed);
  return unused;
}

int main(int argc, char** argv) {
  double seconds = argc > 1 ? atof(argv[argc - 1]) : 6;
  pthread_t a, b;
  pthread_create(&a, NULL, stamp_loads, NULL);
  pthread_create(&b, NULL, file_bills, NULL);
  struct timespec t0, t;
  clock_gettime(CLOCK_MONOTONIC, &t0);
  for (int truck = 0;; truck++) {
    struct load* l = malloc(sizeof *l);
    l->truck = truck;
    for (int i = 0; i < BYTES; i += 32) snprintf((char*)l->bill + i, 32, "truck %d axle %d", truck, i);
    belt_push(&arrivals, l);
    clock_gettime(CLOCK_MONOTONIC, &t);
    if ((t.tv_sec - t0.tv_sec) + (t.tv_nsec - t0.tv_nsec) / 1e9 > seconds) break;
  }
  belt_push(&arrivals, NULL);
  pthread_join(a, NULL);
  pthread_join(b, NULL);
  return 0;
}
