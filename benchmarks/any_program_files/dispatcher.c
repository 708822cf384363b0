// limit: thread | parse_request|dispatcher
// One dispatcher parses every request before one of three workers gets it from the list.
#include <pthread.h>
#include <stdio.h>
#include "now.h"
struct job {
  struct job* next;
  unsigned value;
};
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static struct job* list;
static int closing;
static unsigned total;
static __attribute__((noinline)) unsigned parse_request(unsigned raw) {
  for (int i = 0; i < 250000; i++) raw = (raw << 5) - raw + (raw >> 9) + 17;
  return raw;
}
static void* worker(void* arg) {
  for (;;) {
    pthread_mutex_lock(&list_lock);
    while (!list && !closing) pthread_cond_wait(&more, &list_lock);
    struct job* job = list;
    if (job) list = job->next;
    pthread_mutex_unlock(&list_lock);
    if (!job) return arg;
    unsigned v = job->value;
    free(job);
    for (int i = 0; i < 60000; i++) v = v * 69069u + 1;
    __atomic_add_fetch(&total, v, __ATOMIC_RELAXED);
  }
}
int main(int argc, char** argv) {
  begin(argc, argv);
  pthread_t t[3];
  for (int i = 0; i < 3; i++) pthread_create(&t[i], NULL, worker, NULL);
  for (unsigned i = 0; !over(); i++) {
    struct job* job = malloc(sizeof *job);
    job->value = parse_request(i);
    pthread_mutex_lock(&list_lock);
    job->next = list;
    list = job;
    pthread_cond_signal(&more);
    pthread_mutex_unlock(&list_lock);
  }
  pthread_mutex_lock(&list_lock);
  closing = 1;
  pthread_cond_broadcast(&more);
  pthread_mutex_unlock(&list_lock);
  for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
  printf("%u\n", total);
}
