// limit: lock | atlas|reprice|rwlock|quote_customers|importer|quote
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ROWS 60000
static pthread_rwlock_t atlas = PTHREAD_RWLOCK_INITIALIZER;
static double price[ROWS];
static atomic_int stop;
static atomic_long quotes, imports;

static int upward(const void* a, const void* b) {
  double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

__attribute__((noinline)) static void reprice(unsigned* seed) {
  for (int i = 0; i < ROWS; i++) price[i] += (rand_r(seed) % 200 - 100) * 0.01;
  qsort(price, ROWS / 2, sizeof *price, upward);
}

static void* importer(void* arg) {
  unsigned seed = (unsigned)(size_t)arg + 99;
  while (!stop) {
    pthread_rwlock_wrlock(&atlas);
    reprice(&seed);
    pthread_rwlock_unlock(&atlas);
    imports++;
    usleep(300);
  }
  return NULL;
}

static double quote(unsigned want) {
  int lo = 0, hi = ROWS / 2;
  while (lo < hi) {
    int mid = (lo + hi) / 2;
    if (price[mid] < want * 0.01)
      lo = mid + 1;
    else
      hi = mid;
  }
  return price[lo];
}

static void* quote_customers(void* arg) {
  unsigned seed = (unsigned)(size_t)arg;
  double sum = 0;
  while (!stop) {
    pthread_rwlock_rdlock(&atlas);
    for (int i = 0; i < 200; i++) sum += quote(rand_r(&seed) % 5000);
    pthread_rwlock_unlock(&atlas);
    quotes++;
    usleep(200);
  }
  *(volatile double*)&sum;
  return NULL;
}

int main(int argc, char** argv) {
  double seconds = argc > 1 ? atof(argv[argc - 1]) : 6;
  pthread_rwlockattr_t fair;
  pthread_rwlockattr_init(&fair);
  pthread_rwlockattr_setkind_np(&fair, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
  pthread_rwlock_init(&atlas, &fair);
  pthread_t t[6];
  for (size_t i = 0; i < 3; i++) pthread_create(&t[i], 0, importer, (void*)i);
  for (size_t i = 3; i < 6; i++) pthread_create(&t[i], 0, quote_customers, (void*)i);
  usleep((useconds_t)(seconds * 1e6));
  stop = 1;
  for (int i = 0; i < 6; i++) pthread_join(t[i], 0);
  printf("%ld imports, %ld quote rounds\n", imports, quotes);
}
