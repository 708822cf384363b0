#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "loopback.hpp"

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
  const int s = listening(argc, argv, 7403, 16);
  std::vector<pollfd> fds{{s, POLLIN, 0}};
  char buf[256];
  while (poll(fds.data(), fds.size(), -1) > 0)
    for (std::size_t i = 0; i < fds.size(); ++i) {
      if (!fds[i].revents) continue;
      if (i == 0) {
        const int c = accept(s, nullptr, nullptr);
        send_at_once(c);
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
