// limit: process,thread | tax-oracle|oracle|assess
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

struct Question {
  unsigned household, income;
};
struct Reply {
  double tax;
};

[[gnu::noinline]] static double assess(const Question& q) {
  std::vector<double> brackets(6000);
  for (std::size_t i = 0; i < brackets.size(); ++i)
    brackets[i] = double((q.income * 31 + i * 7919u * q.household) % 100000);
  std::sort(brackets.begin(), brackets.end());
  double tax = 0;
  for (double b : brackets) tax = tax * 0.999 + b * 0.01;
  return tax;
}

static void oracle(const std::string& path, int ready) {
  prctl(PR_SET_NAME, "tax-oracle");
  const int s = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un a{AF_UNIX, {}};
  std::strcpy(a.sun_path, path.c_str());
  if (bind(s, reinterpret_cast<sockaddr*>(&a), sizeof a) || listen(s, 4)) _exit(1);
  if (write(ready, "r", 1) != 1) _exit(1);
  const int c = accept(s, nullptr, nullptr);
  Question q;
  while (read(c, &q, sizeof q) == sizeof q) {
    Reply r{assess(q)};
    if (write(c, &r, sizeof r) < 0) break;
  }
  _exit(0);
}

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[argc - 1]) : 6;
  const std::string path = "/tmp/oracle-" + std::to_string(getpid());
  int ready[2];
  if (pipe(ready)) return 1;
  if (!fork()) oracle(path, ready[1]);
  char r;
  if (read(ready[0], &r, 1) != 1) return 1;
  const int s = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un a{AF_UNIX, {}};
  std::strcpy(a.sun_path, path.c_str());
  if (connect(s, reinterpret_cast<sockaddr*>(&a), sizeof a)) return 1;
  unlink(path.c_str());
  std::vector<double> letters;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (unsigned n = 1; std::chrono::steady_clock::now() < end; ++n) {
    Question q{n % 5 + 1, n * 137 % 90000};
    Reply reply;
    if (write(s, &q, sizeof q) != sizeof q || read(s, &reply, sizeof reply) != sizeof reply) break;
    char letter[128];
    std::snprintf(letter, sizeof letter, "household %u owes %.2f", n, reply.tax);
    letters.push_back(reply.tax + double(std::strlen(letter)));
  }
  close(s);
  wait(nullptr);
  std::printf("%zu letters\n", letters.size());
}
