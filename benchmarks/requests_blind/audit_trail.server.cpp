#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

static std::atomic<unsigned> entries{0};
static int trail;

static std::uint64_t seal(const std::string& entry) {
  std::uint64_t h = 14695981039346656037ull;
  for (int round = 0; round < 400; ++round)
    for (unsigned char c : entry) h = (h ^ c) * 1099511628211ull;
  return h;
}

static std::string record(const std::string& entry) {
  char line[256];
  const int n = std::snprintf(line, sizeof line, "%016lx %s\n", seal(entry), entry.c_str());
  if (write(trail, line, std::size_t(n)) != n) std::abort();
  if (++entries % 300 == 0) {
    static const std::string pad(1 << 20, '.');
    if (write(trail, pad.data(), pad.size()) < 0) std::abort();
    fsync(trail);
  }
  return "sealed " + std::string(line, 16) + "\n";
}

static void clerk(int c) {
  std::string rest;
  char buf[1024];
  for (ssize_t n; (n = read(c, buf, sizeof buf)) > 0;) {
    rest.append(buf, std::size_t(n));
    for (std::size_t at; (at = rest.find('\n')) != std::string::npos; rest.erase(0, at + 1)) {
      const auto reply = record(rest.substr(0, at));
      if (write(c, reply.data(), reply.size()) < 0) break;
    }
  }
  close(c);
}

int main(int argc, char** argv) {
  const char* path = argc > 1 ? argv[1] : "/tmp/audit_trail.sock";
  char file[] = "/var/tmp/trail-XXXXXX";
  trail = mkstemp(file);
  unlink(file);
  unlink(path);
  const int s = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un a{};
  a.sun_family = AF_UNIX;
  std::strncpy(a.sun_path, path, sizeof a.sun_path - 1);
  if (bind(s, reinterpret_cast<sockaddr*>(&a), sizeof a) || listen(s, 16)) return perror("bind"), 1;
  for (int c; (c = accept(s, nullptr, nullptr)) >= 0;) std::thread(clerk, c).detach();
}
