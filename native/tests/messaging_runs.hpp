// What the tests of runs share: a plan, and a run that is waited for.
#pragma once

#include <cstdint>

#include "check.hpp"
#include "messaging/run.hpp"

namespace latlab::messaging::tests {

inline RunPlan plan(std::uint64_t messages) {
  RunPlan made;
  made.messages = messages;
  made.sample_every = 100;
  return made;
}

inline void finish(Run& run) {
  for (int i = 0; i < 600 && !run.wait(0.1); ++i) {
  }
  CHECK(run.wait(0));
}

}  // namespace latlab::messaging::tests
