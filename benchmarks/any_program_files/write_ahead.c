// limit: disk | wal|fdatasync|commit
// Every commit writes a record and waits until it is on the disk.
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "now.h"
static int wal;
static __attribute__((noinline)) void commit(const char* record, size_t size) {
  if (write(wal, record, size) < 0) return;
  fdatasync(wal);
}
int main(int argc, char** argv) {
  begin(argc, argv);
  char name[] = "walXXXXXX", record[4096];
  wal = mkstemp(name);
  unlink(name);
  int n = 0;
  for (; !over(); n++) {
    memset(record, n, sizeof record);
    commit(record, sizeof record);
  }
  printf("%d\n", n);
}
