// limit: thread | digest
// A reader fills a ring of blocks over semaphores, a second thread digests them.
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include "now.h"
static sem_t room, ready;
static unsigned char ring[8][65536];
static volatile int last = -1;
static unsigned long sum;
static void* reader(void* arg) {
  for (int i = 0;; i++) {
    sem_wait(&room);
    memset(ring[i % 8], i, sizeof ring[0]);
    if (over()) last = i;
    sem_post(&ready);
    if (last >= 0) return arg;
  }
}
static __attribute__((noinline)) unsigned long digest(const unsigned char* block) {
  unsigned long h = 14695981039346656037ul;
  for (int i = 0; i < 65536; i++) h = (h ^ block[i]) * 1099511628211ul;
  return h;
}
static void* digester(void* arg) {
  for (int i = 0;; i++) {
    sem_wait(&ready);
    sum += digest(ring[i % 8]);
    sem_post(&room);
    if (i == last) return arg;
  }
}
int main(int argc, char** argv) {
  begin(argc, argv);
  sem_init(&room, 0, 8);
  sem_init(&ready, 0, 0);
  pthread_t a, b;
  pthread_create(&a, NULL, reader, NULL);
  pthread_create(&b, NULL, digester, NULL);
  pthread_join(a, NULL);
  pthread_join(b, NULL);
  printf("%lu\n", sum);
}
