#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

static std::atomic<unsigned> served{0};

[[gnu::noinline]] static unsigned lay_out(unsigned page, std::size_t bytes) {
  auto* sheet = static_cast<unsigned char*>(
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (sheet == MAP_FAILED) std::abort();
  madvise(sheet, bytes, MADV_NOHUGEPAGE);
  unsigned sum = page;
  for (std::size_t at = 0; at < bytes; at += 4096) sum += sheet[at] = static_cast<unsigned char>(page + at);
  munmap(sheet, bytes);
  return sum;
}

static void serve(int c) {
  int one = 1;
  setsockopt(c, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  char buf[128];
  for (ssize_t n; (n = read(c, buf, sizeof buf - 1)) > 0;) {
    buf[n] = 0;
    const bool poster = ++served % 300 == 0;
    const unsigned sum = lay_out(unsigned(std::atoi(buf + 5)), poster ? 48u << 20 : 128u << 10);
    const std::string reply = "page " + std::to_string(sum) + "\n";
    if (write(c, reply.data(), reply.size()) < 0) break;
  }
  close(c);
}

int main(int argc, char** argv) {
  const int s = socket(AF_INET, SOCK_STREAM, 0);
  int one = 1;
  setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_port = htons(std::uint16_t(argc > 1 ? std::atoi(argv[1]) : 7408));
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(s, reinterpret_cast<sockaddr*>(&a), sizeof a) || listen(s, 16)) return perror("bind"), 1;
  for (int c; (c = accept(s, nullptr, nullptr)) >= 0;) std::thread(serve, c).detach();
}
