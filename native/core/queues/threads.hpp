// Threads: free functions without state; call from anywhere.
//
// What the kernel says about a process's threads: time on the CPU, time ready but waiting for one, switches.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace latlab::queues {

struct ThreadTimes {
  std::uint32_t tid = 0;
  std::uint64_t at_ns = 0;        // CLOCK_MONOTONIC
  std::uint64_t cpu_ns = 0;       // on a CPU
  std::uint64_t wait_ns = 0;      // ready, in the run queue
  std::uint64_t voluntary = 0;    // switches: it slept or blocked
  std::uint64_t involuntary = 0;  // switches: the CPU was taken away
  std::string name;
};

// All threads of a process, at most `most`; empty when there is no such process. A thread that ends meanwhile
// is left out.
std::vector<ThreadTimes> read_threads(std::uint32_t pid, std::size_t most);

}  // namespace latlab::queues
