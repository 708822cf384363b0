// limit: thread | normalise|feed_handler|feed
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
  double bid, ask;
  long long stamp;
} tick;
static tick ring[1024];
static _Atomic unsigned in, out;
static _Atomic int done;

static long long clock_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static tick normalise(const char* msg) {
  tick t = {0, 0, 0};
  char copy[4096];
  strcpy(copy, msg);
  char *save, *field = strtok_r(copy, "|", &save);
  for (int k = 0; field; field = strtok_r(NULL, "|", &save), k++) {
    char* eq = strchr(field, '=');
    if (!eq) continue;
    double v = strtod(eq + 1, NULL);
    if (atoi(field) % 2)
      t.bid += v;
    else
      t.ask += v;
  }
  return t;
}

static void* feed_handler(void* unused) {
  char msg[4096];
  for (unsigned n = 0; !done; n++) {
    int len = 0;
    for (int k = 0; k < 380; k++)
      len += snprintf(msg + len, sizeof msg - len, "%d=%u.%02u|", 100 + k, n % 97, (n + k) % 100);
    tick t = normalise(msg);
    t.stamp = clock_ns();
    while (n - atomic_load(&out) >= 1024 && !done) {
    }
    ring[n % 1024] = t;
    atomic_store_explicit(&in, n + 1, memory_order_release);
  }
  return unused;
}

int main(int argc, char** argv) {
  double seconds = argc > 1 ? atof(argv[argc - 1]) : 6;
  long long until = clock_ns() + (long long)(seconds * 1e9), worst = 0;
  pthread_t feed;
  pthread_create(&feed, NULL, feed_handler, NULL);
  pthread_setname_np(feed, "feed");
  unsigned n = 0;
  double mid = 0;
  for (long long now = clock_ns(); now < until; now = clock_ns()) {
    if (atomic_load_explicit(&in, memory_order_acquire) == n) continue;
    tick t = ring[n % 1024];
    mid = mid * 0.99 + (t.bid + t.ask) * 0.005;
    if (now - t.stamp > worst) worst = now - t.stamp;
    atomic_store_explicit(&out, ++n, memory_order_release);
  }
  done = 1;
  pthread_join(feed, NULL);
  printf("%u ticks, mid %.2f, worst %lld us\n", n, mid, worst / 1000);
}
