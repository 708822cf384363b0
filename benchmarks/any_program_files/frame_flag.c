// limit: thread | build_frame
// A sender spins (with a pause) on a flag until the builder's frame is there.
#include <stdatomic.h>
#include <stdio.h>
#include "now.h"
static atomic_int full, done;
static unsigned frame[4096];
static unsigned long sent;
static __attribute__((noinline)) void build_frame(unsigned seed) {
  for (int pass = 0; pass < 60; pass++)
    for (int i = 0; i < 4096; i++) frame[i] = seed = seed * 1103515245u + frame[(i * 7) & 4095];
}
static void* builder(void* arg) {
  for (unsigned i = 0; !over(); i++) {
    build_frame(i);
    while (atomic_load(&full)) __builtin_ia32_pause();
    atomic_store(&full, 1);
  }
  atomic_store(&done, 1);
  return arg;
}
static void* sender(void* arg) {
  while (!atomic_load(&done)) {
    while (!atomic_load(&full) && !atomic_load(&done)) __builtin_ia32_pause();
    for (int i = 0; i < 4096; i++) sent += frame[i];
    atomic_store(&full, 0);
  }
  return arg;
}
int main(int argc, char** argv) {
  begin(argc, argv);
  run_both(builder, sender);
  printf("%lu\n", sent);
}
