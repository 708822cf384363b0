// limit: thread | censor|on_readable|main|chat_hub|Hub|event_loop
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <regex>
#include <string>
#include <vector>

class Hub {
 public:
  [[gnu::noinline]] std::string censor(std::string text) {
    for (const auto& word : rude_) text = std::regex_replace(text, word, "***");
    return text;
  }
  void on_readable(int fd) {
    char buf[512];
    const auto n = read(fd, buf, sizeof buf);
    if (n <= 0) return;
    const auto clean = censor({buf, std::size_t(n)});
    if (write(fd, clean.data(), clean.size()) < 0) return;
    ++lines;
  }
  long lines = 0;

 private:
  std::vector<std::regex> rude_ = [] {
    std::vector<std::regex> all;
    for (const char* w :
         {"dr?at\\w*", "bl[ao]st(ed)?", "rott(e|i)n", "b(o|u)gg?er", "he(ck|ll)", "ti?mes? bom"})
      all.emplace_back(w, std::regex::icase);
    return all;
  }();
};

static void guest(int fd, unsigned id) {
  char buf[600];
  for (unsigned n = 0;; ++n) {
    const int len = std::snprintf(buf, sizeof buf,
                                  "guest %u says for the %uth time: that rotten kettle is drat well broken, "
                                  "please have a look at it today",
                                  id, n);
    if (write(fd, buf, len) != len || read(fd, buf, sizeof buf) <= 0) _exit(0);
  }
}

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[argc - 1]) : 6;
  const int ep = epoll_create1(0);
  std::vector<int> fds;
  for (unsigned i = 0; i < 6; ++i) {
    int sv[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sv)) return 1;
    if (!fork()) {
      close(sv[0]);
      for (int f : fds) close(f);
      guest(sv[1], i);
    }
    close(sv[1]);
    epoll_event e{EPOLLIN, {.fd = sv[0]}};
    epoll_ctl(ep, EPOLL_CTL_ADD, sv[0], &e);
    fds.push_back(sv[0]);
  }
  Hub hub;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
    epoll_event ready[8];
    const int n = epoll_wait(ep, ready, 8, 100);
    for (int i = 0; i < n; ++i) hub.on_readable(ready[i].data.fd);
  }
  for (int f : fds) close(f);
  while (wait(nullptr) > 0) {
  }
  std::printf("%ld lines\n", hub.lines);
}
