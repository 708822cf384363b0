// limit: process,thread | score_child|evaluate
// The parent sends positions over a socket pair to a child that it forked, and waits for each score.
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "now.h"
static __attribute__((noinline)) long evaluate(long position) {
  for (int i = 0; i < 400000; i++) position = position * 31 + (position >> 7);
  return position;
}
int main(int argc, char** argv) {
  begin(argc, argv);
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return 1;
  long x = 1, n = 0;
  if (fork() == 0) {
    close(pair[0]);
    while (read(pair[1], &x, sizeof x) == sizeof x) {
      x = evaluate(x);
      if (write(pair[1], &x, sizeof x) < 0) break;
    }
    _exit(0);
  }
  close(pair[1]);
  for (; !over(); n++) {
    for (volatile int i = 0; i < 30000; i++) {
    }
    if (write(pair[0], &x, sizeof x) < 0 || read(pair[0], &x, sizeof x) != sizeof x) break;
  }
  close(pair[0]);
  wait(NULL);
  printf("%ld %ld\n", n, x);
}
