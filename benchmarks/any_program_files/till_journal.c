// limit: disk | fsync|fdatasync|commit|journal|append|main
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct sale {
  unsigned id, cents;
  char item[56];
};

static unsigned crc(const void* p, size_t n) {
  unsigned c = ~0u;
  for (const unsigned char* b = p; n--; b++) {
    c ^= *b;
    for (int k = 0; k < 8; k++) c = c >> 1 ^ (c & 1 ? 0xEDB88320u : 0);
  }
  return ~c;
}

static void commit(int fd, const struct sale* basket, int n) {
  char line[4096];
  int len = 0;
  for (int i = 0; i < n; i++)
    len += snprintf(line + len, sizeof line - len, "%u,%u,%s,%08x\n", basket[i].id, basket[i].cents,
                    basket[i].item, crc(&basket[i], sizeof *basket));
  static char receipt[512 * 1024];
  static off_t at;
  memcpy(receipt, line, len);
  if (pwrite(fd, receipt, sizeof receipt, at) != (ssize_t)sizeof receipt) abort();
  at = (at + (off_t)sizeof receipt) % (64 << 20);
  fsync(fd);
}

int main(int argc, char** argv) {
  double seconds = argc > 1 ? atof(argv[argc - 1]) : 6;
  char path[] = "/var/tmp/journal-XXXXXX";
  int fd = mkstemp(path);
  struct timespec a, b;
  clock_gettime(CLOCK_MONOTONIC, &a);
  unsigned id = 0, commits = 0;
  do {
    struct sale basket[12];
    memset(basket, 0, sizeof basket);
    for (int i = 0; i < 12; i++) {
      basket[i].id = ++id;
      basket[i].cents = id * 7919 % 10000;
      snprintf(basket[i].item, sizeof basket[i].item, "article-%u", id % 913);
    }
    commit(fd, basket, 12);
    commits++;
    clock_gettime(CLOCK_MONOTONIC, &b);
  } while (b.tv_sec - a.tv_sec + (b.tv_nsec - a.tv_nsec) * 1e-9 < seconds);
  printf("%u commits\n", commits);
  close(fd);
  unlink(path);
}
