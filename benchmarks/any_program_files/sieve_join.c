// limit: thread | sieve
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
struct range {
  long from, to, found;
};
static void* sieve(void* p) {
  struct range* r = p;
  r->found = 0;
  for (long n = r->from; n < r->to; n++) {
    int prime = n > 1;
    for (long d = 2; d * d <= n; d++)
      if (n % d == 0) {
        prime = 0;
        break;
      }
    r->found += prime;
  }
  return 0;
}
int main(int argc, char** argv) {
  /* the last range is far longer than the others */
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  double end = t.tv_sec + t.tv_nsec / 1e9 + atof(argv[1]);
  int rounds = 0;
  for (;;) {
    struct range r[3] = {{0, 6000, 0}, {6000, 12000, 0}, {12000, 90000, 0}};
    pthread_t th[3];
    for (int i = 0; i < 3; i++) pthread_create(&th[i], 0, sieve, &r[i]);
    for (int i = 0; i < 3; i++) pthread_join(th[i], 0);
    rounds++;
    clock_gettime(CLOCK_MONOTONIC, &t);
    if (t.tv_sec + t.tv_nsec / 1e9 > end) {
      printf("%d rounds %ld\n", rounds, r[2].found);
      return 0;
    }
  }
}
