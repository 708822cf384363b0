#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>
std::atomic<long> count{0};
int ledger;
bool all(int fd, char* to, size_t n) {
  while (n) {
    ssize_t g = read(fd, to, n);
    if (g <= 0) return false;
    to += g;
    n -= g;
  }
  return true;
}
long every = 0;  // the request that writes the ledger to the disk
__attribute__((noinline)) void seal_ledger() {
  static const std::string page(12 << 20, 'x');
  (void)!pwrite(ledger, page.data(), page.size(), 0);
  fsync(ledger);
}
void serve(int fd) {
  for (;;) {
    uint32_t n;
    if (!all(fd, (char*)&n, 4)) break;
    n = __builtin_bswap32(n);
    std::vector<char> body(n);
    if (!all(fd, body.data(), n)) break;
    if (every && ++count % every == 0) seal_ledger();
    std::vector<char> out(4 + n);
    uint32_t m = __builtin_bswap32(n);
    memcpy(out.data(), &m, 4);
    memcpy(out.data() + 4, body.data(), n);
    (void)!write(fd, out.data(), out.size());
  }
  close(fd);
}
int main(int argc, char** argv) {
  every = argc > 2 ? atol(argv[2]) : 250;
  ledger = open("ledger", O_CREAT | O_WRONLY, 0600);
  int s = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un a{};
  a.sun_family = AF_UNIX;
  strcpy(a.sun_path, argv[1]);
  unlink(argv[1]);
  bind(s, (sockaddr*)&a, sizeof a);
  listen(s, 50);
  for (;;) {
    int c = accept(s, nullptr, nullptr);
    std::thread(serve, c).detach();
  }
}
