// limit: disk | pread|scan|archive|read
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PAGE 65536
#define PAGES 1024
static int fd;
static volatile int stop;

static unsigned tally(const unsigned char* p) {
  unsigned s = 0;
  for (int i = 0; i < PAGE; i += 16) s = s * 31 + p[i];
  return s;
}

static void* scan(void* arg) {
  unsigned char* buf;
  unsigned seed = (unsigned)(uintptr_t)arg;
  if (posix_memalign((void**)&buf, 4096, PAGE)) return NULL;
  uintptr_t pages = 0, sum = 0;
  while (!stop) {
    off_t at = (off_t)(rand_r(&seed) % PAGES) * PAGE;
    if (pread(fd, buf, PAGE, at) != PAGE) abort();
    sum += tally(buf);
    pages++;
  }
  free(buf);
  return (void*)(pages + (sum & 0));
}

int main(int argc, char** argv) {
  double seconds = argc > 1 ? atof(argv[argc - 1]) : 6;
  char path[] = "/var/tmp/archive-XXXXXX";
  int w = mkstemp(path);
  static unsigned char page[PAGE];
  for (int i = 0; i < PAGES; i++) {
    memset(page, i, PAGE);
    if (write(w, page, PAGE) != PAGE) abort();
  }
  fsync(w);
  close(w);
  fd = open(path, O_RDONLY | O_DIRECT);
  unlink(path);
  pthread_t t[3];
  for (uintptr_t i = 0; i < 3; i++) pthread_create(&t[i], NULL, scan, (void*)(i + 1));
  usleep((useconds_t)(seconds * 1e6));
  stop = 1;
  uintptr_t total = 0;
  for (int i = 0; i < 3; i++) {
    void* r;
    pthread_join(t[i], &r);
    total += (uintptr_t)r;
  }
  printf("%lu pages\n", (unsigned long)total);
}
