// limit: thread | impose|arrange|by_weight
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DEPTH = 8, WORDS = 4000 };
typedef struct {
  unsigned words[WORDS];
  unsigned n, sum;
  int last;
} sheet;
typedef struct {
  pthread_mutex_t m;
  pthread_cond_t c;
  sheet* s[DEPTH];
  int n;
} tray;
static tray trays[4];

static void lay(tray* t, sheet* s) {
  pthread_mutex_lock(&t->m);
  while (t->n == DEPTH) pthread_cond_wait(&t->c, &t->m);
  t->s[t->n++] = s;
  pthread_cond_broadcast(&t->c);
  pthread_mutex_unlock(&t->m);
}
static sheet* lift(tray* t) {
  pthread_mutex_lock(&t->m);
  while (!t->n) pthread_cond_wait(&t->c, &t->m);
  sheet* s = t->s[0];
  memmove(t->s, t->s + 1, --t->n * sizeof *t->s);
  pthread_cond_broadcast(&t->c);
  pthread_mutex_unlock(&t->m);
  return s;
}
static int by_weight(const void* a, const void* b) {
  unsigned x = *(const unsigned*)a, y = *(const unsigned*)b;
  return x < y ? -1 : x > y;
}
static void* typeset(void* p) {
  double seconds = *(double*)p;
  unsigned seed = 7;
  struct timespec from, now;
  clock_gettime(CLOCK_MONOTONIC, &from);
  for (int go = 1; go;) {
    sheet* s = malloc(sizeof *s);
    s->n = WORDS;
    for (unsigned i = 0; i < WORDS; i++) s->words[i] = seed = seed * 1664525u + 1013904223u;
    clock_gettime(CLOCK_MONOTONIC, &now);
    go = now.tv_sec - from.tv_sec + (now.tv_nsec - from.tv_nsec) * 1e-9 < seconds;
    s->last = !go;
    lay(&trays[0], s);
  }
  return NULL;
}
static void* hand_on(void* p, int from, void (*work)(sheet*)) {
  for (int last = 0; !last;) {
    sheet* s = lift(&trays[from]);
    work(s);
    last = s->last;
    lay(&trays[from + 1], s);
  }
  return p;
}
static void correct(sheet* s) {
  for (int pass = 0; pass < 8; pass++)
    for (unsigned i = 1; i < s->n; i++) s->words[i] ^= s->words[i - 1] >> 3;
}
static void engrave(sheet* s) {
  for (int pass = 0; pass < 5; pass++)
    for (unsigned i = 0; i < s->n; i++) s->words[i] = s->words[i] * 2654435761u + pass;
}
static void arrange(sheet* s) {
  qsort(s->words, s->n, sizeof *s->words, by_weight);
}
static void* proof(void* p) {
  return hand_on(p, 0, correct);
}
static void* plate(void* p) {
  return hand_on(p, 1, engrave);
}
static void* impose(void* p) {
  return hand_on(p, 2, arrange);
}
static void* bind(void* p) {
  long sheets = 0;
  for (int last = 0; !last; sheets++) {
    sheet* s = lift(&trays[3]);
    for (unsigned i = 0; i < s->n; i++) s->sum = s->sum * 31 + s->words[i];
    last = s->last;
    free(s);
  }
  printf("bound %ld sheets\n", sheets);
  return p;
}
int main(int argc, char** argv) {
  double seconds = argc > 1 ? atof(argv[argc - 1]) : 6;
  void* (*desk[5])(void*) = {typeset, proof, plate, impose, bind};
  const char* name[5] = {"typeset", "proof", "plate", "impose", "bind"};
  pthread_t t[5];
  for (int i = 0; i < 4; i++) pthread_mutex_init(&trays[i].m, 0), pthread_cond_init(&trays[i].c, 0);
  for (int i = 0; i < 5; i++) {
    pthread_create(&t[i], 0, desk[i], &seconds);
    pthread_setname_np(t[i], name[i]);
  }
  for (int i = 0; i < 5; i++) pthread_join(t[i], 0);
}
