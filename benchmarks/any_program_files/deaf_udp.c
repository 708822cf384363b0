// limit: load |
#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
int main(int c, char** v) {
  int s = socket(AF_INET, SOCK_DGRAM, 0);
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  bind(s, (void*)&at, sizeof at);
  struct pollfd p = {s, POLLIN, 0};
  char b[100];
  int n = poll(&p, 1, (int)(1000 * atof(v[1])));
  if (n > 0) n = (int)recv(s, b, sizeof b, 0);
  printf("%d\n", n);
  return c == 0;
}
