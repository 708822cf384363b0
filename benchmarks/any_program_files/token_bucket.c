// limit: timer | shape|token_bucket|usleep|sender
// A sender keeps to its rate by a token bucket: it sleeps until the next token, a printer takes the packets
// from a pipe.
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
#include "now.h"
static int ends[2];
static __attribute__((noinline)) void shape(double* tokens, double* last) {
  for (;;) {
    double t = now();
    *tokens += (t - *last) * 400;
    *last = t;
    if (*tokens >= 1) break;
    usleep((useconds_t)((1 - *tokens) / 400 * 1e6));
  }
  *tokens -= 1;
}
static void* printer(void* arg) {
  char packet[1400];
  unsigned sum = 0;
  while (read(ends[0], packet, sizeof packet) > 0)
    for (int i = 0; i < 1400; i++) sum = sum * 33 + (unsigned char)packet[i];
  printf("%u\n", sum);
  return arg;
}
int main(int argc, char** argv) {
  begin(argc, argv);
  if (pipe(ends)) return 1;
  pthread_t t;
  pthread_create(&t, NULL, printer, NULL);
  double tokens = 0, last = now();
  char packet[1400] = "x";
  while (!over()) {
    shape(&tokens, &last);
    if (write(ends[1], packet, sizeof packet) < 0) break;
  }
  close(ends[1]);
  pthread_join(t, NULL);
}
