// Asks and times: client PORT|PATH CONNECTIONS INTERVAL_US SECONDS FILE [EVERY FILE], a request a file.
//
// Each connection asks at its instants, or as soon as the answer before has come; EVERY nth request is the
// second file's. How long an answer is, is found at the beginning. Prints a line a request: begun, taken, and
// taken until the kernel had received the last of the answer (SO_TIMESTAMPNS; of TCP: without the client's
// own waking), in ns of CLOCK_MONOTONIC.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

namespace {

std::int64_t now() {
  timespec at{};
  clock_gettime(CLOCK_MONOTONIC, &at);
  return at.tv_sec * 1'000'000'000LL + at.tv_nsec;
}

// By how much the real time is ahead: by the tightest of a few tries.
std::int64_t real_ahead() {
  std::int64_t best = 0, width = 1'000'000'000;
  for (int i = 0; i < 50; ++i) {
    timespec at{};
    const auto before = now();
    clock_gettime(CLOCK_REALTIME, &at);
    const auto after = now();
    const auto real = at.tv_sec * 1'000'000'000LL + at.tv_nsec;
    if (after - before < width) width = after - before, best = real - (before + after) / 2;
  }
  return best;
}

// As recv; `received` becomes when the kernel had the last of it, where it says so.
ssize_t receive(int connection, std::vector<char>& buffer, std::int64_t ahead, std::int64_t& received) {
  alignas(cmsghdr) char control[256];
  iovec part{buffer.data(), buffer.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const auto got = recvmsg(connection, &message, 0);
  received = now();
  for (cmsghdr* one = CMSG_FIRSTHDR(&message); one != nullptr; one = CMSG_NXTHDR(&message, one)) {
    timespec at{};
    if (one->cmsg_level != SOL_SOCKET || one->cmsg_type != SCM_TIMESTAMPNS) continue;
    std::memcpy(&at, CMSG_DATA(one), sizeof(at));
    received = at.tv_sec * 1'000'000'000LL + at.tv_nsec - ahead;
  }
  return got;
}

std::string content(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

int dial(const char* where) {
  if (where[0] == '/') {
    const int made = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un there{};
    there.sun_family = AF_UNIX;
    std::strncpy(there.sun_path, where, sizeof(there.sun_path) - 1);
    if (connect(made, reinterpret_cast<sockaddr*>(&there), sizeof(there)) != 0) std::exit(1);
    return made;
  }
  const int made = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(std::atoi(where)));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(made, reinterpret_cast<sockaddr*>(&to), sizeof(to)) != 0) std::exit(1);
  const int on = 1;
  setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(made, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on));
  return made;
}

std::size_t length_of_answer(int connection, const std::string& request) {
  static char buffer[1 << 20];
  if (send(connection, request.data(), request.size(), 0) < 0) std::exit(1);
  const timeval patience{0, 300'000};
  setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  std::size_t length = 0;
  for (ssize_t got = 0; (got = recv(connection, buffer, sizeof(buffer), 0)) > 0;)
    length += static_cast<std::size_t>(got);
  const timeval none{0, 0};
  setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof(none));
  return length;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 6) return 2;
  const char* port = arguments[1];
  const int connections = std::atoi(arguments[2]);
  const std::int64_t interval = std::atoll(arguments[3]) * 1'000;
  const std::int64_t seconds = std::atoll(arguments[4]) * 1'000'000'000;
  const std::string usual = content(arguments[5]), other = count > 7 ? content(arguments[7]) : "";
  const long every = count > 7 ? std::atol(arguments[6]) : 0;
  const bool line = usual.back() == '\n' && usual.find('\r') == std::string::npos;
  const int first = dial(port);
  const std::size_t usual_bytes = line ? 0 : length_of_answer(first, usual);
  const std::size_t other_bytes = other.empty() || line ? 0 : length_of_answer(first, other);
  const std::int64_t begin = now() + 50'000'000;
  std::vector<std::vector<std::int64_t>> begun(static_cast<std::size_t>(connections)), taken = begun,
                                                                                       received = begun;
  const std::int64_t ahead = real_ahead();
  std::vector<std::thread> all;
  for (int i = 0; i < connections; ++i)
    all.emplace_back([&, i] {
      const int connection = dial(port);
      std::vector<char> buffer(1 << 20);
      std::int64_t next = begin + (every < 0 ? 0 : interval * i / connections);
      for (long number = 1; next < begin + seconds; ++number) {
        const timespec until{next / 1'000'000'000, next % 1'000'000'000};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
        const bool second = every > 0 && (number + i * 7) % every == 0;
        const std::string& request = second ? other : usual;
        std::size_t left = second ? other_bytes : usual_bytes;
        const std::int64_t from = now();
        if (send(connection, request.data(), request.size(), MSG_NOSIGNAL) < 0) return;
        std::int64_t until_kernel = 0;
        for (bool ended = false; !ended;) {
          const ssize_t got = receive(connection, buffer, ahead, until_kernel);
          if (got <= 0) return;
          left -= line ? 0 : static_cast<std::size_t>(got);
          ended = line ? buffer[static_cast<std::size_t>(got) - 1] == '\n' : left == 0;
        }
        begun[static_cast<std::size_t>(i)].push_back(from);
        taken[static_cast<std::size_t>(i)].push_back(now() - from);
        received[static_cast<std::size_t>(i)].push_back(until_kernel - from);
        next = std::max(next + interval, now());
        if (every < 0) next = begin + ((now() - begin) / interval + 1) * interval;  // all at once
      }
    });
  for (std::thread& one : all) one.join();
  for (std::size_t i = 0; i < begun.size(); ++i)
    for (std::size_t k = 0; k < begun[i].size(); ++k)
      std::printf("%lld %lld %lld\n", static_cast<long long>(begun[i][k]),
                  static_cast<long long>(taken[i][k]), static_cast<long long>(received[i][k]));
}
