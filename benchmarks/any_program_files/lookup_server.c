// limit: process,thread | lookup_server: |answer|search
// A forked server on a unix socket answers slowly; two client threads ask it over one connection each.
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include "now.h"
static struct sockaddr_un door = {.sun_family = AF_UNIX};
static __attribute__((noinline)) unsigned search(unsigned key) {
  for (int i = 0; i < 200000; i++) key = key * 2654435761u + (key >> 11);
  return key;
}
static void serve(int listener) {
  struct pollfd fds[3] = {{.fd = listener, .events = POLLIN}};
  int n = 1;
  while (poll(fds, (nfds_t)n, -1) > 0) {
    if (fds[0].revents && n < 3) fds[n].fd = accept(listener, NULL, NULL), fds[n++].events = POLLIN;
    for (int i = 1; i < n; i++) {
      unsigned key;
      if (!fds[i].revents) continue;
      if (read(fds[i].fd, &key, sizeof key) != sizeof key) _exit(0);
      key = search(key);
      if (write(fds[i].fd, &key, sizeof key) < 0) _exit(0);
    }
  }
}
static void* client(void* arg) {
  int s = socket(AF_UNIX, SOCK_STREAM, 0);
  if (connect(s, (struct sockaddr*)&door, sizeof door)) return NULL;
  unsigned key = 7;
  while (!over()) {
    if (write(s, &key, sizeof key) < 0 || read(s, &key, sizeof key) != sizeof key) break;
    for (volatile int i = 0; i < 20000; i++) {
    }
  }
  return arg;
}
int main(int argc, char** argv) {
  begin(argc, argv);
  snprintf(door.sun_path, sizeof door.sun_path, "/tmp/lookup-%d", getpid());
  int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  if (bind(listener, (struct sockaddr*)&door, sizeof door) || listen(listener, 4)) return 1;
  pid_t child = fork();
  if (!child) serve(listener), _exit(0);
  pthread_t t[2];
  for (int i = 0; i < 2; i++) pthread_create(&t[i], NULL, client, NULL);
  for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
  kill(child, SIGTERM);
  waitpid(child, NULL, 0);
  unlink(door.sun_path);
}
