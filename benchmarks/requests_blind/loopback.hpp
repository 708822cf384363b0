// A socket that listens on the loopback, and connections that send at once.
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

// On the port that the command line names, or on this one; it ends the program where that can't be had.
static int listening(int argc, char** argv, int port, int waiting) {
  const int s = socket(AF_INET, SOCK_STREAM, 0);
  int one = 1;
  setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_port = htons(std::uint16_t(argc > 1 ? std::atoi(argv[1]) : port));
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(s, reinterpret_cast<sockaddr*>(&a), sizeof a) || listen(s, waiting)) {
    std::perror("bind");
    std::exit(1);
  }
  return s;
}

static void send_at_once(int c) {
  int one = 1;
  setsockopt(c, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

// Answers all that comes up to an end, request by request, until the client goes.
template <class Answer>
void answer_each(int c, const char* end, Answer answer) {
  std::string rest;
  char buf[2048];
  for (ssize_t n; (n = read(c, buf, sizeof buf)) > 0;) {
    rest.append(buf, std::size_t(n));
    for (std::size_t at; (at = rest.find(end)) != std::string::npos;) {
      const std::string reply = answer(rest.substr(0, at));
      rest.erase(0, at + std::char_traits<char>::length(end));
      if (write(c, reply.data(), reply.size()) < 0) break;
    }
  }
  close(c);
}
