// limit: lock,process | flock|two_tills|ring_up|till
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static void ring_up(int fd) {
  flock(fd, LOCK_EX);
  volatile unsigned x = 1;
  for (int i = 0; i < 1500000; i++) x = x * 69069u + 5;
  flock(fd, LOCK_UN);
}
int main(int c, char** v) {
  time_t end = time(0) + 1 + atoi(v[1]);
  char name[] = "/tmp/tillXXXXXX";
  close(mkstemp(name));
  for (int k = 0; k < 3; k++)
    if (!fork()) {
      int fd = open(name, O_RDWR);
      int n = 0;
      while (time(0) < end) {
        ring_up(fd);
        n++;
      }
      printf("%d sales\n", n);
      exit(0);
    }
  for (int k = 0; k < 3; k++) wait(0);
  unlink(name);
  return c == 0;
}
