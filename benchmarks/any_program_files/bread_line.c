// limit: thread | bake
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
struct tray {
  int items[8];
  int n;
  int closed;
  pthread_mutex_t m;
  pthread_cond_t not_empty, not_full;
};
static struct tray doughs = {.m = PTHREAD_MUTEX_INITIALIZER,
                             .not_empty = PTHREAD_COND_INITIALIZER,
                             .not_full = PTHREAD_COND_INITIALIZER};
static struct tray loaves = {.m = PTHREAD_MUTEX_INITIALIZER,
                             .not_empty = PTHREAD_COND_INITIALIZER,
                             .not_full = PTHREAD_COND_INITIALIZER};
static double seconds;
static volatile unsigned long crumbs;
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec / 1e9;
}
static void put(struct tray* t, int v) {
  pthread_mutex_lock(&t->m);
  while (t->n == 8) pthread_cond_wait(&t->not_full, &t->m);
  t->items[t->n++] = v;
  pthread_cond_signal(&t->not_empty);
  pthread_mutex_unlock(&t->m);
}
static int take(struct tray* t) {
  pthread_mutex_lock(&t->m);
  while (t->n == 0 && !t->closed) pthread_cond_wait(&t->not_empty, &t->m);
  int v = t->n ? t->items[--t->n] : -1;
  pthread_cond_signal(&t->not_full);
  pthread_mutex_unlock(&t->m);
  return v;
}
static void close_tray(struct tray* t) {
  pthread_mutex_lock(&t->m);
  t->closed = 1;
  pthread_cond_broadcast(&t->not_empty);
  pthread_mutex_unlock(&t->m);
}
static unsigned knead(int rounds) {
  unsigned x = 7;
  for (int i = 0; i < rounds; i++) x = x * 1664525u + 1013904223u;
  crumbs += x;
  return x;
}
static void* mix(void* _) {
  double end = now() + seconds;
  int i = 0;
  while (now() < end) {
    knead(20000);
    put(&doughs, i++);
  }
  close_tray(&doughs);
  return _;
}
static void* bake(void* _) {
  int d;
  while ((d = take(&doughs)) >= 0) {
    knead(160000);
    put(&loaves, d);
  }
  close_tray(&loaves);
  return _;
}
static void* pack(void* _) {
  long n = 0;
  while (take(&loaves) >= 0) {
    knead(30000);
    n++;
  }
  printf("%ld loaves\n", n);
  return _;
}
int main(int c, char** v) {
  seconds = c > 1 ? atof(v[1]) : 2;
  pthread_t a, b, d;
  pthread_create(&a, 0, mix, 0);
  pthread_create(&b, 0, bake, 0);
  pthread_create(&d, 0, pack, 0);
  pthread_join(a, 0);
  pthread_join(b, 0);
  pthread_join(d, 0);
}
