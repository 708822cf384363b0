#include <unistd.h>

#include <stdexcept>
#include <string>
#include <system_error>

#include "check.hpp"
#include "system/stack_sampler.hpp"
#include "system/unwinder.hpp"

using namespace latlab::system;

TEST("a mangled name is told as its source spells it") {
  CHECK(demangled("_ZN4feed5parseEi") == "feed::parse(int)");
  CHECK(demangled("main") == "main");
  CHECK(demangled("_Zbroken") == "_Zbroken");
}

TEST("stacks of no process at all unwind to nothing") {
  const Unwound nothing = unwind({}, {}, 10);
  CHECK(nothing.time_ns.empty());
  CHECK(nothing.stacks.empty());
}

TEST("a sample of a process without mappings is an address") {
  StackSample sample{};
  sample.time_ns = 5;
  sample.pid = sample.tid = 7;
  sample.running = true;
  if constexpr (kStackRegisters > 0) sample.registers[kStackRegisters - 1] = 0x1234;
  ProcessEvent event{.kind = ProcessEvent::Kind::kExec, .time_ns = 1, .pid = 7, .parent = 0};
  const Unwound one = unwind({sample}, {event}, 10);
  CHECK(one.stacks.size() == 1);
  CHECK(one.places.size() == 1);
  CHECK(one.places[0].module.empty());
  CHECK(one.places[0].address == 0x1234);
}

TEST("no more samples are unwound than wanted") {
  std::vector<StackSample> samples(1000);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    samples[i].time_ns = i;
    samples[i].pid = samples[i].tid = 7;
  }
  const ProcessEvent event{.kind = ProcessEvent::Kind::kExec, .time_ns = 0, .pid = 7, .parent = 0};
  CHECK(unwind(samples, {event}, 100).time_ns.size() == 100);
}

TEST("a ring that is not a power of two is refused") {
  StackRequest request;
  request.cpus = {0};
  request.ring_bytes = 3U << 20U;
  bool refused = false;
  try {
    const StackSampler sampler(request);
  } catch (const std::invalid_argument&) {
    refused = true;
  } catch (const std::system_error&) {
    refused = true;  // a kind of CPU whose registers aren't known
  }
  CHECK(refused);
}
