// limit: thread | beamform|transform
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define N 256
typedef struct {
  _Atomic unsigned seq;
  float out[N];
  char pad[64];
} frame;
static frame cell[4];
static _Atomic unsigned published, consumed;
static _Atomic int over;

static void transform(const float* in, float* out) {
  for (int k = 0; k < N; k++) {
    float re = 0, im = 0, c = 1, s = 0;
    const float dc = cosf(6.2831853f * k / N), ds = sinf(6.2831853f * k / N);
    for (int n = 0; n < N; n++) {
      re += in[n] * c;
      im -= in[n] * s;
      float t = c * dc - s * ds;
      s = c * ds + s * dc;
      c = t;
    }
    out[k] = sqrtf(re * re + im * im);
  }
}

static void* beamform(void* unused) {
  float in[N];
  unsigned seed = 3;
  while (!over) {
    for (int n = 0; n < N; n++) in[n] = (rand_r(&seed) & 1023) / 512.f - 1;
    unsigned p = atomic_load_explicit(&published, memory_order_relaxed);
    while (p - atomic_load_explicit(&consumed, memory_order_acquire) >= 4)
      if (over) return unused;
    transform(in, cell[p & 3].out);
    atomic_store_explicit(&published, p + 1, memory_order_release);
  }
  return unused;
}

static void* display(void* unused) {
  float peak = 0;
  unsigned c = 0;
  while (!over) {
    if (atomic_load_explicit(&published, memory_order_acquire) == c) {
      __builtin_ia32_pause();
      continue;
    }
    for (int k = 0; k < N; k++)
      if (cell[c & 3].out[k] > peak) peak = cell[c & 3].out[k];
    atomic_store_explicit(&consumed, ++c, memory_order_release);
  }
  printf("%u frames, peak %.1f\n", c, peak);
  return unused;
}

int main(int argc, char** argv) {
  double seconds = argc > 1 ? atof(argv[argc - 1]) : 6;
  pthread_t a, b;
  pthread_create(&a, 0, beamform, 0);
  pthread_create(&b, 0, display, 0);
  struct timespec d = {(time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9)};
  nanosleep(&d, 0);
  over = 1;
  pthread_join(a, 0);
  pthread_join(b, 0);
}
