#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

static std::vector<int> lanes(900);

static std::string best_lane(int want) {
  for (std::size_t i = 0; i < lanes.size(); ++i) lanes[i] = int((i * 7919u + unsigned(want) * 31u) % 10007u);
  std::sort(lanes.begin(), lanes.end());
  return "lane " + std::to_string(std::lower_bound(lanes.begin(), lanes.end(), want) - lanes.begin()) + "\n";
}

int main(int argc, char** argv) {
  cpu_set_t one_core;
  CPU_ZERO(&one_core);
  CPU_SET(1, &one_core);
  sched_setaffinity(0, sizeof one_core, &one_core);
  const int s = socket(AF_INET, SOCK_STREAM, 0);
  int one = 1;
  setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_port = htons(std::uint16_t(argc > 1 ? std::atoi(argv[1]) : 7403));
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(s, reinterpret_cast<sockaddr*>(&a), sizeof a) || listen(s, 16)) return perror("bind"), 1;
  std::vector<pollfd> fds{{s, POLLIN, 0}};
  char buf[256];
  while (poll(fds.data(), fds.size(), -1) > 0)
    for (std::size_t i = 0; i < fds.size(); ++i) {
      if (!fds[i].revents) continue;
      if (i == 0) {
        const int c = accept(s, nullptr, nullptr);
        setsockopt(c, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        fds.push_back({c, POLLIN, 0});
        break;
      }
      const auto n = read(fds[i].fd, buf, sizeof buf - 1);
      if (n <= 0) {
        close(fds[i].fd);
        fds.erase(fds.begin() + long(i));
        break;
      }
      buf[n] = 0;
      const auto reply = best_lane(std::atoi(buf));
      if (write(fds[i].fd, reply.data(), reply.size()) < 0) continue;
    }
}
