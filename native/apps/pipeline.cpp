// The demonstration's trading pipeline: `latlab-pipeline PLAN [execution]`.
//
// It says "ready" on its output when everything stands, waits for a line (or the end) of its input, runs, and
// ends with one line of JSON. Told to terminate, it stops the feeds, drains its queues and ends in the same
// way.
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <thread>

#include "pipeline/pipeline.hpp"

namespace {

// Blocks the signals here, and so in every thread to come; one thread waits for them.
sigset_t block_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  return set;
}

int run(const char* path, latlab::pipeline::Role role) {
  const sigset_t signals = block_signals();
  latlab::pipeline::Pipeline pipeline(latlab::pipeline::read_plan(path), role);
  const std::jthread listener([&pipeline, signals](const std::stop_token& over) {
    const timespec look{.tv_sec = 0, .tv_nsec = 50'000'000};
    while (!over.stop_requested()) {
      if (::sigtimedwait(&signals, nullptr, &look) > 0) pipeline.stop();
    }
  });
  std::puts("ready");
  std::fflush(stdout);
  for (int c = std::getchar(); c != '\n' && c != EOF;) c = std::getchar();
  pipeline.run();
  std::puts(pipeline.summary().c_str());
  std::fflush(stdout);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3 || (argc == 3 && std::string(argv[2]) != "execution")) {
    std::fprintf(stderr, "usage: latlab-pipeline PLAN [execution]\n");
    return 2;
  }
  try {
    return run(argv[1], argc == 3 ? latlab::pipeline::Role::execution : latlab::pipeline::Role::trading);
  } catch (const latlab::pipeline::PlanError& error) {
    std::fprintf(stderr, "%s: %s\n", argv[1], error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "latlab-pipeline: %s\n", error.what());
    return 1;
  }
}
