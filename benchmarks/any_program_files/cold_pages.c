// limit: disk | cold_pages|lookup|store|page
// Lookups at random places of a mapped file whose pages were dropped from memory.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "now.h"
#define SIZE (256l << 20)
static __attribute__((noinline)) int lookup(const char* store, unsigned long key) {
  return store[key % SIZE];
}
int main(int argc, char** argv) {
  char name[] = "storeXXXXXX";
  int fd = mkstemp(name);
  unlink(name);
  static char chunk[1 << 20];
  for (int i = 0; i < 256; i++) {
    memset(chunk, i, sizeof chunk);
    if (write(fd, chunk, sizeof chunk) < 0) return 1;
  }
  fsync(fd);
  begin(argc, argv);
  char* store = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0);
  madvise(store, SIZE, MADV_RANDOM);
  unsigned long key = 12345, sum = 0, n = 0;
  for (; !over(); n++) {
    if (n % 3000 == 0) {
      madvise(store, SIZE, MADV_DONTNEED);
      posix_fadvise(fd, 0, SIZE, POSIX_FADV_DONTNEED);
    }
    key = key * 6364136223846793005ul + 1442695040888963407ul;
    sum += (unsigned long)lookup(store, key >> 20);
  }
  printf("%lu %lu\n", n, sum);
}
