// limit: timer | alarm_clock|pause|timer|signal|itimer|main
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static volatile sig_atomic_t rings;
static void ring(int s) {
  rings += s > 0;
}
int main(int c, char** v) {
  time_t end = time(0) + 1 + atoi(v[1]);
  signal(SIGALRM, ring);
  struct itimerval every = {{0, 5000}, {0, 5000}};
  setitimer(ITIMER_REAL, &every, 0);
  volatile double x = 0;
  while (time(0) < end) {
    pause();
    for (int i = 0; i < 20000; i++) x += i;
  }
  printf("%d rings\n", (int)rings);
  return c == 0;
}
