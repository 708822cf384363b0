// limit: lock | counter|hand_over|guest
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
static pthread_mutex_t counter = PTHREAD_MUTEX_INITIALIZER;
static char hooks[4096][64];
static long served;
static time_t until;
static void hand_over(int ticket) {
  pthread_mutex_lock(&counter);
  for (int pass = 0; pass < 3; pass++)
    for (int i = 0; i < 4096; i++) hooks[i][(ticket + pass) % 63] ^= (char)(i * ticket);
  served++;
  pthread_mutex_unlock(&counter);
}
static void* guest(void* arg) {
  int me = (int)(long)arg;
  char own[512];
  struct timespec t;
  do {
    hand_over(me + (int)served);
    for (int i = 0; i < 3; i++) memset(own, i, sizeof own);
    clock_gettime(CLOCK_MONOTONIC, &t);
  } while (t.tv_sec < until);
  return (void*)(long)own[5];
}
int main(int argc, char** argv) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  until = t.tv_sec + (argc > 1 ? atoi(argv[1]) : 2);
  pthread_t g[4];
  for (long i = 0; i < 4; i++) pthread_create(&g[i], 0, guest, (void*)i);
  for (int i = 0; i < 4; i++) pthread_join(g[i], 0);
  printf("%ld coats\n", served);
}
