// latlab-box A B key=value...: carries packets between two TUN descriptors, late, slowly and with losses.
//
// What netem and a token bucket do where a kernel has them. Packets of one direction keep their order: a
// jitter delays those behind it, too.
#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <exception>
#include <latlab/clock.hpp>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "settings.hpp"

namespace {

using latlab::monotonic_ns;
using latlab::apps::number;

volatile std::sig_atomic_t stop = 0;

struct Line {
  std::uint64_t delay_ns = 0;
  std::uint64_t jitter_ns = 0;
  std::uint64_t loss_ppm = 0;
  std::uint64_t rate_bits = 0;  // 0: as fast as it comes
  std::size_t limit = 10'000;   // packets waiting, as netem's default times ten
};

struct Packet {
  std::uint64_t due_ns;
  std::vector<char> bytes;
};

class Direction {
 public:
  Direction(int from, int to, const Line& line, std::uint64_t seed)
      : from_(from), to_(to), line_(line), random_(seed) {}
  int from() const { return from_; }
  std::uint64_t next_due() const { return waiting_.empty() ? ~0ULL : waiting_.front().due_ns; }

  void take() {
    std::array<char, 65536> buffer;  // NOLINT: read fills what is used
    for (;;) {
      const ssize_t n = read(from_, buffer.data(), buffer.size());
      if (n <= 0) return;
      if (waiting_.size() >= line_.limit || random_() % 1'000'000 < line_.loss_ppm) continue;
      const std::uint64_t now = monotonic_ns();
      std::uint64_t at = now;
      if (line_.rate_bits != 0) {  // the wire is busy until the packets before it are through
        if (wire_free_ < now) wire_free_ = now;
        wire_free_ += static_cast<std::uint64_t>(n) * 8U * 1'000'000'000U / line_.rate_bits;
        at = wire_free_;
      }
      at += line_.delay_ns;
      if (line_.jitter_ns != 0)
        at += random_() % (2 * line_.jitter_ns) - std::min(line_.jitter_ns, line_.delay_ns);
      if (at < last_) at = last_;
      last_ = at;
      waiting_.push_back({at, {buffer.begin(), buffer.begin() + n}});
    }
  }

  void give() {
    while (!waiting_.empty() && waiting_.front().due_ns <= monotonic_ns()) {
      const Packet& packet = waiting_.front();
      if (write(to_, packet.bytes.data(), packet.bytes.size()) < 0 && errno == EAGAIN) return;
      waiting_.pop_front();
    }
  }

 private:
  int from_, to_;
  Line line_;
  std::mt19937_64 random_;
  std::deque<Packet> waiting_;
  std::uint64_t wire_free_ = 0, last_ = 0;
};

int run(const std::vector<std::string_view>& arguments) {
  if (arguments.size() < 3) throw std::invalid_argument("usage: latlab-box A B key=value...");
  Line line;
  std::uint64_t seed = 0;
  for (std::size_t i = 3; i < arguments.size(); ++i) {
    const auto [key, text] = latlab::apps::setting(arguments[i]);
    const std::uint64_t value = number(text);
    if (key == "delay")
      line.delay_ns = value;
    else if (key == "jitter")
      line.jitter_ns = value;
    else if (key == "loss")
      line.loss_ppm = value;
    else if (key == "rate")
      line.rate_bits = value;
    else if (key == "seed")
      seed = value;
    else
      throw std::invalid_argument("there is no setting '" + std::string(key) + "'");
  }
  const int a = static_cast<int>(number(arguments[1]));
  const int b = static_cast<int>(number(arguments[2]));
  std::array<Direction, 2> both{Direction(a, b, line, seed), Direction(b, a, line, seed + 1)};
  if (std::puts("ready") < 0 || std::fflush(stdout) != 0) return 1;
  while (stop == 0) {
    const std::uint64_t due = std::min(both[0].next_due(), both[1].next_due());
    const std::uint64_t now = monotonic_ns();
    // Woken up a little early, and spinning from there: a sleeper is some 60 us late.
    std::uint64_t rest = due == ~0ULL ? 50'000'000U : (due > now ? due - now : 0);
    rest = rest > 100'000 ? rest - 100'000 : 0;
    std::array<pollfd, 2> ends{pollfd{a, POLLIN, 0}, pollfd{b, POLLIN, 0}};
    const timespec limit{0, static_cast<long>(std::min<std::uint64_t>(rest, 999'999'999U))};
    if (ppoll(ends.data(), ends.size(), &limit, nullptr) < 0 && errno != EINTR) return 1;
    for (std::size_t i = 0; i < 2; ++i) {
      if ((ends[i].revents & POLLIN) != 0) both[i].take();
      if ((ends[i].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) return 0;
      both[i].give();
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_TIMERSLACK, 1);
  std::signal(SIGTERM, [](int) { stop = 1; });
  try {
    return run({argv, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "latlab-box: %s\n", error.what());
    return 2;
  }
}
