// limit: silent |
// Two processes over pipes do equal work on every record, one after the other, several records under way.
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
#include "now.h"
static __attribute__((noinline)) unsigned long fold_left(unsigned long v) {
  for (int i = 0; i < 250000; i++) v = v * 6364136223846793005ul + 11;
  return v;
}
static __attribute__((noinline)) unsigned long fold_right(unsigned long v) {
  for (int i = 0; i < 250000; i++) v = v * 6364136223846793005ul + 13;
  return v;
}
int main(int argc, char** argv) {
  begin(argc, argv);
  int ends[2];
  if (pipe(ends)) return 1;
  unsigned long v = 0, sum = 0;
  if (fork() == 0) {
    close(ends[1]);
    while (read(ends[0], &v, sizeof v) == sizeof v) sum += fold_right(v);
    printf("%lu\n", sum);
    return 0;
  }
  close(ends[0]);
  while (!over()) {
    v = fold_left(v);
    if (write(ends[1], &v, sizeof v) < 0) break;
  }
  close(ends[1]);
  wait(NULL);
}
