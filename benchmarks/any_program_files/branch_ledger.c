// limit: lock | book|post_entries|settle|teller
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ACCOUNTS 4096
static pthread_mutex_t book = PTHREAD_MUTEX_INITIALIZER;
static long balance[ACCOUNTS];
static volatile int closing;

__attribute__((noinline)) static long settle(unsigned* seed, int moves) {
  long total = 0;
  for (int i = 0; i < moves; i++) {
    unsigned a = rand_r(seed) % ACCOUNTS, b = rand_r(seed) % ACCOUNTS;
    long amount = (long)(rand_r(seed) % 1000) - 500;
    balance[a] -= amount;
    balance[b] += amount;
    total += balance[a] ^ balance[b];
  }
  return total;
}

struct slip {
  char text[256];
  unsigned long check;
};

static void fill_slip(struct slip* s, unsigned* seed) {
  for (int k = 0; k < 8; k++) snprintf(s->text + k * 30, 30, "%u;%u;", rand_r(seed), rand_r(seed));
  for (const char* c = s->text; *c; c++) s->check = s->check * 33 + (unsigned char)*c;
}

static void* teller(void* arg) {
  unsigned seed = (unsigned)(size_t)arg * 7919 + 1;
  long* posted = calloc(1, sizeof(long));
  while (!closing) {
    struct slip s = {{0}, 5381};
    for (int n = 0; n < 20; n++) fill_slip(&s, &seed);
    pthread_mutex_lock(&book);
    settle(&seed, 40000);
    pthread_mutex_unlock(&book);
    ++*posted;
  }
  return posted;
}

int main(int argc, char** argv) {
  double seconds = argc > 1 ? atof(argv[argc - 1]) : 6;
  pthread_t t[5];
  long sum = 0;
  for (size_t i = 0; i < 5; i++) pthread_create(&t[i], NULL, teller, (void*)i);
  struct timespec d = {(time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9)};
  nanosleep(&d, NULL);
  closing = 1;
  for (int i = 0; i < 5; i++) {
    void* r;
    pthread_join(t[i], &r);
    sum += *(long*)r;
    free(r);
  }
  printf("%ld postings\n", sum);
}
