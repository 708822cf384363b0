// limit: lock,thread | rebuild_routes|routes|find_route
// Readers look routes up under a reader-writer lock that the updater holds while it sorts the table.
#include <pthread.h>
#include <stdio.h>
#include "now.h"
static pthread_rwlock_t routes_lock = PTHREAD_RWLOCK_INITIALIZER;
static unsigned routes[60000];
static unsigned long found;
static int by_prefix(const void* a, const void* b) {
  unsigned x = *(const unsigned*)a, y = *(const unsigned*)b;
  return x < y ? -1 : x > y;
}
static __attribute__((noinline)) void rebuild_routes(unsigned seed) {
  pthread_rwlock_wrlock(&routes_lock);
  for (int i = 0; i < 60000; i++) routes[i] = seed = seed * 1103515245u + 12345u;
  qsort(routes, 60000, sizeof(unsigned), by_prefix);
  pthread_rwlock_unlock(&routes_lock);
}
static __attribute__((noinline)) int find_route(unsigned key) {
  pthread_rwlock_rdlock(&routes_lock);
  int low = 0, high = 60000;
  for (int round = 0; round < 20; round++, low = 0, high = 60000, key += 77777)
    while (low < high) {
      int mid = (low + high) / 2;
      if (routes[mid] < key)
        low = mid + 1;
      else
        high = mid;
    }
  pthread_rwlock_unlock(&routes_lock);
  return low;
}
static void* updater(void* arg) {
  struct timespec pause = {0, 300000};
  for (unsigned i = 1; !over(); i++) rebuild_routes(i), nanosleep(&pause, NULL);
  return arg;
}
static void* forwarder(void* arg) {
  unsigned key = 1, *sum = arg;
  while (!over())
    *sum += (unsigned)find_route(key *= 1664525u), __atomic_add_fetch(&found, 1, __ATOMIC_RELAXED);
  return NULL;
}
int main(int argc, char** argv) {
  begin(argc, argv);
  pthread_t t[4];
  unsigned sums[3] = {0};
  pthread_create(&t[3], NULL, updater, NULL);
  for (int i = 0; i < 3; i++) pthread_create(&t[i], NULL, forwarder, &sums[i]);
  for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
  printf("%lu\n", found);
}
