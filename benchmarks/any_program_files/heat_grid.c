// limit: thread | relax
// Four threads relax rows between barriers; the rows were dealt out unevenly.
#include <pthread.h>
#include <stdio.h>
#include "now.h"
static pthread_barrier_t step;
static double grid[1 << 16];
static int from[5] = {0, 3000, 6000, 9000, 60000};
static volatile int done;
static __attribute__((noinline)) void relax(int a, int b) {
  for (int round = 0; round < 12; round++)
    for (int i = a + 1; i < b; i++) grid[i] = 0.25 * (grid[i - 1] + 2 * grid[i] + grid[i + 1]) + 1e-9;
}
static void* rows(void* arg) {
  int me = (int)(size_t)arg;
  for (;;) {
    relax(from[me], from[me + 1]);
    if (pthread_barrier_wait(&step) == PTHREAD_BARRIER_SERIAL_THREAD) done = over();
    pthread_barrier_wait(&step);
    if (done) return NULL;
  }
}
int main(int argc, char** argv) {
  begin(argc, argv);
  pthread_barrier_init(&step, NULL, 4);
  pthread_t t[4];
  for (size_t i = 0; i < 4; i++) pthread_create(&t[i], NULL, rows, (void*)i);
  for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
  printf("%g\n", grid[7]);
}
