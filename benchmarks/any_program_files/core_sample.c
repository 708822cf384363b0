// limit: disk | drill|samples|read
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
int main(int argc, char** argv) {
  char name[] = "/var/tmp/samplesXXXXXX";
  int fd = mkstemp(name);
  char* block;
  posix_memalign((void**)&block, 4096, 4096);
  for (int i = 0; i < 4096; i++)
    if (write(fd, block, 4096) < 0) return 1;
  fsync(fd);
  close(fd);
  fd = open(name, O_RDONLY | O_DIRECT);
  if (fd < 0) {
    perror(name);
    unlink(name);
    return 1;
  }
  unlink(name);
  time_t end = time(0) + 1 + atoi(argv[1]);
  long n = 0, sum = 0;
  unsigned seed = 3;
  while (time(0) < end) {
    seed = seed * 1103515245u + 12345u;
    if (pread(fd, block, 4096, (off_t)((seed >> 10) % 4096) * 4096) < 0) return 1;
    sum += block[7];
    n++;
  }
  printf("%ld reads %ld\n", n, sum);
  (void)argc;
}
