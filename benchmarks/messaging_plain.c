/* Streams by themselves, without a harness: stamped messages a second from one process to another.
 *
 * What one would write by hand: a message a write, reads of up to 32 messages, a stamp in each message and
 * for each message received, both kept in arrays, and the sequence checked. Sender on CPU 0, receiver on
 * CPU 1.
 *
 *   messaging_plain pipe|unix|tcp SIZE COUNT         prints messages/s
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

static void fail(const char* what) {
  perror(what);
  exit(1);
}

static void pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set);
}

static void connected(const char* way, int ends[2]) {
  if (strcmp(way, "pipe") == 0) {
    if (pipe(ends) != 0) fail("pipe");
  } else if (strcmp(way, "unix") == 0) {
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) fail("socketpair");
  } else {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    const int one = 1;
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    ends[1] = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr*)&at, sizeof at) != 0 || listen(listener, 1) != 0) fail("listen");
    getsockname(listener, (struct sockaddr*)&at, &length);
    if (connect(ends[1], (struct sockaddr*)&at, sizeof at) != 0) fail("connect");
    ends[0] = accept(listener, NULL, NULL);
    if (ends[0] < 0) fail("accept");
    setsockopt(ends[1], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  }
}

static void send_all(int fd, size_t size, long count) {
  char* message = malloc(size);
  uint64_t* sent = malloc((size_t)count * sizeof *sent);
  if (message == NULL || sent == NULL) fail("malloc");
  memset(sent, 1, (size_t)count * sizeof *sent);
  memset(message, 'x', size);
  for (long i = 0; i < count; i++) {
    memcpy(message, &i, sizeof i);
    sent[i] = __rdtsc();
    for (size_t at = 0; at < size;) {
      const ssize_t n = write(fd, message + at, size - at);
      if (n < 0) fail("write");
      at += (size_t)n;
    }
  }
}

static double receive_all(int fd, size_t size, long count) {
  const size_t most = size >= 262144 ? 1 : 262144 / size < 32 ? 262144 / size : 32;
  char* buffer = malloc(size * most);
  uint64_t* received = malloc((size_t)count * sizeof *received);
  if (buffer == NULL || received == NULL) fail("malloc");
  memset(received, 1, (size_t)count * sizeof *received);
  struct timespec begin = {0}, end;
  size_t filled = 0;
  for (long i = 0; i < count;) {
    const ssize_t n = read(fd, buffer + filled, size * most - filled);
    if (n <= 0) fail("read");
    filled += (size_t)n;
    size_t at = 0;
    for (; filled - at >= size; at += size, i++) {
      received[i] = __rdtsc();
      long sequence;
      memcpy(&sequence, buffer + at, sizeof sequence);
      if (sequence != i) fail("sequence");
      if (i == 0) clock_gettime(CLOCK_MONOTONIC, &begin);
    }
    memmove(buffer, buffer + at, filled - at);
    filled -= at;
  }
  clock_gettime(CLOCK_MONOTONIC, &end);
  return (double)(count - 1) /
         ((double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9);
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const size_t size = strtoul(argv[2], NULL, 10);
  const long count = atol(argv[3]);
  int ends[2];
  connected(argv[1], ends);
  const pid_t child = fork();
  if (child < 0) fail("fork");
  if (child == 0) {
    pin(0);
    close(ends[0]);
    send_all(ends[1], size, count);
    return 0;
  }
  pin(1);
  close(ends[1]);
  printf("%.0f\n", receive_all(ends[0], size, count));
  waitpid(child, NULL, 0);
  return 0;
}
