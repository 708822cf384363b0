// limit: cpu | neighbour|CPU|python|another | pinned
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int main(int argc, char** argv) {
  time_t end = time(0) + 1 + atoi(argv[1]);
  double s = 0;
  long n = 0;
  while (time(0) < end) {
    for (int i = 1; i < 100000; i++) s += 1.0 / i;
    n++;
  }
  printf("%ld %g\n", n, s);
}
