// What the servers have in common: a port of the loopback that nobody else has.
#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>

// Listens at a free port, and returns it.
inline int listen_anywhere(int listener) {
  sockaddr_in here{};
  here.sin_family = AF_INET;
  here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(here);
  bind(listener, reinterpret_cast<sockaddr*>(&here), size);
  listen(listener, 256);
  getsockname(listener, reinterpret_cast<sockaddr*>(&here), &size);
  return ntohs(here.sin_port);
}
