#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <csignal>
#include <cstring>
#include <string>
__attribute__((noinline)) void lay_tables() {
  size_t n = 64u << 20;
  char* p = (char*)mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (size_t i = 0; i < n; i += 4096) p[i] = 1;
  munmap(p, n);
}
int main(int, char** argv) {
  signal(SIGPIPE, SIG_IGN);
  std::string base = argv[1];
  mkfifo((base + ".in").c_str(), 0600);
  mkfifo((base + ".out").c_str(), 0600);
  int in = open((base + ".in").c_str(), O_RDONLY), out = open((base + ".out").c_str(), O_WRONLY);
  char line[300];
  long n = 0;
  ssize_t g;
  while ((g = read(in, line, sizeof line)) > 0) {
    if (++n % 200 == 0) lay_tables();
    (void)!write(out, line, g);
  }
}
