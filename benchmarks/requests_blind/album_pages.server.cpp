#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "loopback.hpp"

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
  send_at_once(c);
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
  const int s = listening(argc, argv, 7408, 16);
  for (int c; (c = accept(s, nullptr, nullptr)) >= 0;) std::thread(serve, c).detach();
}
