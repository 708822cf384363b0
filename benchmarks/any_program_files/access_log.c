// limit: lock | append_line|log_lock
// Four request threads; each formats its log line while it holds the log's mutex.
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "now.h"
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char line[1 << 14];
static unsigned long served;
static __attribute__((noinline)) unsigned handle(unsigned seed) {
  for (int i = 0; i < 20000; i++) seed = seed * 1103515245u + 12345u;
  return seed;
}
static __attribute__((noinline)) void append_line(unsigned id) {
  pthread_mutex_lock(&log_lock);
  size_t at = 0;
  for (int i = 0; i < 900; i++)
    at += (size_t)snprintf(line + at % 16000, 300, "%u %d GET /%x;", id, i, id * i);
  served++;
  pthread_mutex_unlock(&log_lock);
}
static void* request_loop(void* arg) {
  unsigned id = (unsigned)(size_t)arg;
  while (!over()) append_line(id = handle(id));
  return NULL;
}
int main(int argc, char** argv) {
  begin(argc, argv);
  run_each(4, request_loop);
  printf("%lu\n", served);
}
