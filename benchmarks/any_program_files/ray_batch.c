// limit: cpu | quota|CPU | quota=0.4
// Two threads trace rays as fast as they can in a control group that may use 40 % of a CPU.
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include "now.h"
static __attribute__((noinline)) double trace_ray(double x) {
  for (int i = 0; i < 3000; i++) x = sqrt(x * x + 1.0) - x * 0.5;
  return x;
}
static void* tracer(void* arg) {
  double* sum = arg;
  while (!over())
    for (int i = 0; i < 20; i++) *sum += trace_ray(i);
  return NULL;
}
int main(int argc, char** argv) {
  begin(argc, argv);
  pthread_t t[2];
  double sums[16] = {0};
  for (int i = 0; i < 2; i++) pthread_create(&t[i], NULL, tracer, &sums[i * 8]);
  for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
  printf("%g\n", sums[0] + sums[8]);
}
