// limit: thread | read_address|sorter
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
/* One thread reads addresses and hands letters to a pool of three carriers, which have little to do. */
static int box[32], head, tail, closed;
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER, room = PTHREAD_COND_INITIALIZER;
static volatile unsigned sink;
__attribute__((noinline)) static int read_address(int n) {
  unsigned x = (unsigned)n;
  for (int i = 0; i < 90000; i++) x = (x ^ (x >> 3)) * 2654435761u;
  return (int)(x & 0xffff);
}
static void deliver(int street) {
  unsigned x = (unsigned)street;
  for (int i = 0; i < 8000; i++) x = x * 33 + 7;
  sink = x;
}
static void* carrier(void* _) {
  for (;;) {
    pthread_mutex_lock(&m);
    while (head == tail && !closed) pthread_cond_wait(&c, &m);
    if (head == tail) {
      pthread_mutex_unlock(&m);
      return _;
    }
    int l = box[head++ % 32];
    pthread_cond_signal(&room);
    pthread_mutex_unlock(&m);
    deliver(l);
  }
}
static void* sorter(void* p) {
  time_t end = time(0) + 1 + *(int*)p;
  for (int n = 0; time(0) < end; n++) {
    int a = read_address(n);
    pthread_mutex_lock(&m);
    while (tail - head == 32) pthread_cond_wait(&room, &m);
    box[tail++ % 32] = a;
    pthread_cond_signal(&c);
    pthread_mutex_unlock(&m);
  }
  pthread_mutex_lock(&m);
  closed = 1;
  pthread_cond_broadcast(&c);
  pthread_mutex_unlock(&m);
  return 0;
}
int main(int n, char** v) {
  int s = atoi(v[1]);
  pthread_t t[4];
  for (int i = 0; i < 3; i++) pthread_create(&t[i], 0, carrier, 0);
  pthread_create(&t[3], 0, sorter, &s);
  for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
  return n == 0;
}
