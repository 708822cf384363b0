// limit: timer | metronome|pause|sigsuspend|timer|play
// An interval timer's signal wakes the player, which plays a short note.
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <unistd.h>
#include "now.h"
static volatile sig_atomic_t beats;
static void tick(int sig) {
  (void)sig;
  beats++;
}
static __attribute__((noinline)) double play(int beat) {
  double wave = 0;
  for (int i = 0; i < 20000; i++) wave += sin(i * 0.01 * beat);
  return wave;
}
int main(int argc, char** argv) {
  begin(argc, argv);
  signal(SIGALRM, tick);
  struct itimerval every = {{0, 15000}, {0, 15000}};
  setitimer(ITIMER_REAL, &every, NULL);
  double sum = 0;
  while (!over()) {
    pause();
    sum += play(beats);
  }
  printf("%g\n", sum);
}
