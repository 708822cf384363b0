// An application to be killed at any moment: it registers and gives up queues all the time, and all that it
// counts are multiples of its own number, so that a count that is taken for another's shows.
#include <unistd.h>
#include <latlab/counted.hpp>

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string>

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const auto number = static_cast<std::uint64_t>(std::atoll(argv[1]));
  latlab::CounterFile::process().set_application("victim");
  std::puts("ready");
  std::fflush(stdout);
  const std::string name = "v" + std::to_string(number);
  std::deque<std::unique_ptr<latlab::Counts<latlab::Writers::one>>> queues;
  for (;;) {
    queues.push_back(std::make_unique<latlab::Counts<latlab::Writers::one>>(
        latlab::QueueInfo{.name = name, .capacity = 1000 * number, .source = {"", "a"}, .drain = {"", "b"}}));
    for (int i = 0; i < 20; ++i) {
      queues.back()->count_in(number);
      queues.back()->count_out(number);
    }
    if (queues.size() > 8) queues.pop_front();
    ::usleep(500);
  }
}
