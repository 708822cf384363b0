// limit: thread | multiply|matrix_halves|helper
// Two threads multiply a half each between barriers; the main one is one of them.
#include <pthread.h>
#include <stdio.h>
#include "now.h"
#define N 160
static double a[N][N], b[N][N], c[2][N][N];
static __attribute__((noinline)) void multiply(int half) {
  for (int i = half * N / 2; i < (half + 1) * N / 2; i++)
    for (int j = 0; j < N; j++) {
      double s = 0;
      for (int k = 0; k < N; k++) s += a[i][k] * b[k][j];
      c[half][i][j] = s;
    }
}
static pthread_barrier_t go, done;
static volatile int stop;
static void* helper(void* arg) {
  for (;;) {
    pthread_barrier_wait(&go);
    if (stop) return arg;
    multiply(1);
    pthread_barrier_wait(&done);
  }
}
int main(int argc, char** argv) {
  begin(argc, argv);
  for (int i = 0; i < N * N; i++) a[i / N][i % N] = i, b[i / N][i % N] = 1.0 / (i + 1);
  pthread_barrier_init(&go, NULL, 2);
  pthread_barrier_init(&done, NULL, 2);
  pthread_t t;
  pthread_create(&t, NULL, helper, NULL);
  long rounds = 0;
  while (!over()) {
    pthread_barrier_wait(&go);
    multiply(0);
    pthread_barrier_wait(&done);
    rounds++;
  }
  stop = 1;
  pthread_barrier_wait(&go);
  pthread_join(t, NULL);
  printf("%ld %g\n", rounds, c[0][3][3]);
}
