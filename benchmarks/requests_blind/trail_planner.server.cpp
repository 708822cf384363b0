#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <queue>
#include <string>
#include <thread>
#include <vector>

#include "loopback.hpp"

constexpr int kSide = 220;

static int height(int x, int y) {
  return (x * 73 + y * 151 + x * y * 7) % 97;
}

[[gnu::noinline]] static int plan_route(int from, int to) {
  std::vector<int> effort(kSide * kSide, 1 << 30);
  using Step = std::pair<int, int>;
  std::priority_queue<Step, std::vector<Step>, std::greater<>> open;
  open.emplace(effort[std::size_t(from)] = 0, from);
  while (!open.empty()) {
    const auto [e, at] = open.top();
    open.pop();
    if (at == to) return e;
    if (e > effort[std::size_t(at)]) continue;
    const int x = at % kSide, y = at / kSide;
    for (auto [nx, ny] : {std::pair{x + 1, y}, {x - 1, y}, {x, y + 1}, {x, y - 1}}) {
      if (nx < 0 || ny < 0 || nx >= kSide || ny >= kSide) continue;
      const int cost = e + 1 + std::abs(height(nx, ny) - height(x, y)), v = ny * kSide + nx;
      if (cost < effort[std::size_t(v)]) open.emplace(effort[std::size_t(v)] = cost, v);
    }
  }
  return -1;
}

static std::string answer(const std::string& path) {
  int a = 0, b = 0;
  if (std::sscanf(path.c_str(), "/route/%d/%d", &a, &b) == 2)
    return "effort " + std::to_string(plan_route(a % (kSide * kSide), b % (kSide * kSide)));
  if (std::sscanf(path.c_str(), "/height/%d/%d", &a, &b) == 2)
    return "height " + std::to_string(height(a, b));
  return "unknown";
}

static void serve(int c) {
  send_at_once(c);
  answer_each(c, "\r\n\r\n", [](const std::string& head) {
    const auto from = head.find(' ') + 1;
    const auto body = answer(head.substr(from, head.find(' ', from) - from));
    return "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  });
}

int main(int argc, char** argv) {
  const int s = listening(argc, argv, 7410, 16);
  for (int c; (c = accept(s, nullptr, nullptr)) >= 0;) std::thread(serve, c).detach();
}
