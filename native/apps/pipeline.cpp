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

// Stops the pipeline when told to. At its end it is woken, not waited for: a forecast runs this program
// dozens of times.
class Listener {
 public:
  Listener(latlab::pipeline::Pipeline& pipeline, const sigset_t& signals)
      : thread_([&pipeline, signals](const std::stop_token& over) {
          while (!over.stop_requested()) {
            if (::sigwaitinfo(&signals, nullptr) > 0 && !over.stop_requested()) pipeline.stop();
          }
        }) {}
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  ~Listener() {
    thread_.request_stop();
    ::pthread_kill(thread_.native_handle(), SIGINT);  // one of those that it waits for
  }

 private:
  std::jthread thread_;
};

int run(const char* path, latlab::pipeline::Role role) {
  const sigset_t signals = block_signals();
  latlab::pipeline::Pipeline pipeline(latlab::pipeline::read_plan(path), role);
  const Listener listener(pipeline, signals);
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
