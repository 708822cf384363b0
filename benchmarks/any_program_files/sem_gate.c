// limit: lock,timer | turnstile|gate|sem|visitor|sleep|show
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
static sem_t gate;
static volatile int closing;
static long seen;
static void show(void) {
  usleep(3000);
  seen++;
}
static void* visitor(void* _) {
  while (!closing) {
    sem_wait(&gate);
    show();
    sem_post(&gate);
  }
  return _;
}
int main(int c, char** v) {
  pthread_t t[6];
  sem_init(&gate, 0, 1);
  for (int i = 0; i < 6; i++) pthread_create(&t[i], 0, visitor, 0);
  struct timespec s = {atoi(v[1]), 0};
  nanosleep(&s, 0);
  closing = 1;
  for (int i = 0; i < 6; i++) pthread_join(t[i], 0);
  printf("%ld\n", seen);
  (void)c;
}
