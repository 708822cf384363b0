// A pipeline of C++ threads and the rings of latlab/queue.hpp. One line of standard text a queue and a stage:
//   queue NAME CAPACITY SOURCE DRAIN INITIAL
//   stage NAME SERVICE_US EVERY_US POLLS INPUTS… -> OUTPUTS…
// Arguments: the file, seconds, and how long an idle thread sleeps between two looks in us (20).
#include <time.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <latlab/queue.hpp>
#include <map>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

using Clock = std::chrono::steady_clock;
using Ring = latlab::SpscRing<int>;

struct Stage {
  std::string name;
  double service_us = 0, every_us = 0;
  bool polls = false;
  std::vector<Ring*> in, out;
};

static std::chrono::microseconds between_looks{20};

static void rest(bool polls) {
  if (!polls) std::this_thread::sleep_for(between_looks);
}

static void run(const Stage& stage, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> factor(0.7, 1.3);
  auto next = Clock::now();
  for (int count = 0;; ++count) {
    for (Ring* ring : stage.in) {
      while (ring->front() == nullptr) rest(stage.polls);
      ring->pop();
    }
    if (stage.in.empty() && stage.every_us > 0) {
      next += std::chrono::nanoseconds(static_cast<long>(1e3 * stage.every_us));
      std::this_thread::sleep_until(next);
    }
    if (stage.service_us > 0) {
      std::this_thread::sleep_for(
          std::chrono::nanoseconds(static_cast<long>(1e3 * stage.service_us * factor(random))));
    }
    for (Ring* ring : stage.out) {
      if (ring->try_push(count)) continue;
      ring->count_blocked();
      while (!ring->try_push(count)) rest(stage.polls);
    }
  }
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  if (argc > 3) between_looks = std::chrono::microseconds(std::atoi(argv[3]));
  std::ifstream file(argv[1]);
  std::map<std::string, std::unique_ptr<Ring>> rings;
  std::vector<std::unique_ptr<Stage>> stages;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string what, name;
    words >> what >> name;
    if (what == "queue") {
      std::size_t capacity = 0;
      int initial = 0;
      std::string source, drain;
      words >> capacity >> source >> drain >> initial;
      latlab::QueueInfo info;
      info.name = name;
      info.source = {"", source};
      info.drain = {"", drain};
      auto ring = std::make_unique<Ring>(capacity, info);
      for (int i = 0; i < initial; ++i) ring->try_push(i);
      rings[name] = std::move(ring);
    } else if (what == "stage") {
      auto stage = std::make_unique<Stage>();
      stage->name = name;
      words >> stage->service_us >> stage->every_us >> stage->polls;
      std::vector<Ring*>* into = &stage->in;
      for (std::string word; words >> word;) {
        if (word == "->") {
          into = &stage->out;
        } else {
          into->push_back(rings.at(word).get());
        }
      }
      stages.push_back(std::move(stage));
    }
  }
  unsigned seed = 1;
  for (const auto& stage : stages)
    std::thread([&stage = *stage, seed = ++seed] { run(stage, seed); }).detach();
  std::this_thread::sleep_for(std::chrono::duration<double>(std::atof(argv[2])));
  std::_Exit(0);
}
