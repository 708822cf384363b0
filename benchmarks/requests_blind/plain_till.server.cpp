#include <sys/epoll.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <unordered_map>

#include "loopback.hpp"

static std::uint64_t price(std::uint64_t basket) {
  std::uint64_t h = basket * 0x9E3779B97F4A7C15ull + 1;
  for (int item = 0; item < 300000; ++item) h = (h ^ (h >> 29)) * 0xBF58476D1CE4E5B9ull;
  return h % 100000;
}

int main(int argc, char** argv) {
  const int s = listening(argc, argv, 7412, 16);
  const int ep = epoll_create1(0);
  epoll_event e{EPOLLIN, {.fd = s}};
  epoll_ctl(ep, EPOLL_CTL_ADD, s, &e);
  std::unordered_map<int, std::string> rest;
  char buf[512];
  for (epoll_event ready; epoll_wait(ep, &ready, 1, -1) > 0;) {
    const int fd = ready.data.fd;
    if (fd == s) {
      epoll_event in{EPOLLIN, {.fd = accept(s, nullptr, nullptr)}};
      send_at_once(in.data.fd);
      epoll_ctl(ep, EPOLL_CTL_ADD, in.data.fd, &in);
      continue;
    }
    const auto n = read(fd, buf, sizeof buf);
    if (n <= 0) {
      close(fd);
      rest.erase(fd);
      continue;
    }
    auto& text = rest[fd];
    text.append(buf, std::size_t(n));
    for (std::size_t at; (at = text.find('\n')) != std::string::npos; text.erase(0, at + 1)) {
      const auto reply = std::to_string(price(std::strtoull(text.c_str(), nullptr, 10))) + "\n";
      if (write(fd, reply.data(), reply.size()) < 0) break;
    }
  }
}
