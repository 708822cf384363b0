// A server of lines with a thread a connection, and one planted cause: server CAUSE [UPSTREAM PORT]
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "listener.hpp"

namespace {

std::mutex shared;
std::atomic<long> requests{0};
std::string cause;
int upstream_port = 0;
volatile unsigned sink = 0;

void work(int turns) {
  unsigned value = 1;
  for (int i = 0; i < turns * 100; ++i) value = value * 1664525U + 1013904223U;
  sink = sink + value;
}

void write_durably(int file) {
  static const std::vector<char> block(1 << 20, 'x');
  if (pwrite(file, block.data(), block.size(), 0) < 0) std::abort();
  fsync(file);
}

void touch_pages() {
  constexpr std::size_t kBytes = 96 << 20;
  auto* pages =
      static_cast<char*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  for (std::size_t at = 0; at < kBytes; at += 4096) pages[at] = 1;
  munmap(pages, kBytes);
}

int dial(int port) {
  const int made = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(made, reinterpret_cast<sockaddr*>(&to), sizeof(to)) != 0) std::abort();
  const int on = 1;
  setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return made;
}

void serve(int connection, int file) {
  const int behind = upstream_port > 0 ? dial(upstream_port) : -1;
  const std::string small(32, 'v');
  const std::string large(24 << 20, 'v');
  char buffer[4096];
  while (true) {
    const auto got = recv(connection, buffer, sizeof(buffer), 0);
    if (got <= 0) break;
    const long number = ++requests;
    work(cause == "busy" ? 500 : 200);
    {
      const std::scoped_lock held(shared);
      work(10);
      if (cause == "lock" && number % 500 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      if (cause == "lock-busy" && number % 500 == 0) work(200'000);
    }
    if (cause == "fsync" && number % 200 == 0) write_durably(file);
    if (cause == "fault" && number % 200 == 0) touch_pages();
    if (cause == "compute" && number % 200 == 0) work(200'000);
    if (cause == "sleep" && number % 200 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (behind >= 0) {
      const char* asked = number % 200 == 0 ? "slow\n" : "fast\n";
      if (send(behind, asked, 5, 0) != 5 || recv(behind, buffer, sizeof(buffer), 0) <= 0) break;
    }
    const std::string& body = cause == "large" && number % 200 == 0 ? large : small;
    std::string answer = body + "\n";
    for (std::size_t at = 0; at < answer.size();) {
      const auto sent = send(connection, answer.data() + at, answer.size() - at, MSG_NOSIGNAL);
      if (sent <= 0) return;
      at += static_cast<std::size_t>(sent);
    }
  }
  close(connection);
}

}  // namespace

int main(int count, char** arguments) {
  cause = count > 1 ? arguments[1] : "none";
  if (count > 2) upstream_port = std::atoi(arguments[2]);
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  std::printf("%d\n", listen_anywhere(listener));
  std::fflush(stdout);
  char name[] = "./latlab-planted-XXXXXX";
  const int file = mkstemp(name);
  unlink(name);
  while (true) {
    const int connection = accept(listener, nullptr, nullptr);
    if (connection < 0) return 1;
    const int on = 1;
    setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    std::thread(serve, connection, file).detach();
  }
}
