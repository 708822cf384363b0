// limit: process | postbox|sort_mail|serve
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static int cmp(const void* a, const void* b) {
  return *(const int*)a - *(const int*)b;
}
static int sort_mail(unsigned seed) {
  static int zip[4000];
  for (int i = 0; i < 4000; i++) {
    seed = seed * 1103515245u + 12345u;
    zip[i] = (int)(seed >> 8);
  }
  qsort(zip, 4000, sizeof *zip, cmp);
  return zip[2000];
}
static void serve(int l) {
  int c = accept(l, 0, 0);
  unsigned q;
  while (read(c, &q, sizeof q) == sizeof q) {
    int a = sort_mail(q);
    if (write(c, &a, sizeof a) < 0) break;
  }
  _exit(0);
}
int main(int argc, char** argv) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t n = sizeof at;
  int l = socket(AF_INET, SOCK_STREAM, 0);
  bind(l, (void*)&at, n);
  listen(l, 5);
  getsockname(l, (void*)&at, &n);
  pid_t child = fork();
  if (!child) serve(l);
  close(l);
  int s = socket(AF_INET, SOCK_STREAM, 0);
  connect(s, (void*)&at, n);
  int one = 1;
  setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  double end = t.tv_sec + t.tv_nsec / 1e9 + atof(argv[1]);
  unsigned q = 0;
  int a;
  long sum = 0;
  do {
    q++;
    if (write(s, &q, sizeof q) < 0 || read(s, &a, sizeof a) <= 0) break;
    sum += a;
    for (int i = 0; i < 2000; i++) sum ^= i;
    clock_gettime(CLOCK_MONOTONIC, &t);
  } while (t.tv_sec + t.tv_nsec / 1e9 < end);
  close(s);
  waitpid(child, 0, 0);
  printf("%u letters %ld\n", q, sum);
}
