// Threads: none of its own; who calls takes care.
//
// How threads are called, and since when: what the program of the switches told of each (NameSlot).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "system/bpf_scheduler.hpp"

namespace latlab::system {

using ThreadName = std::array<char, 16>;  // as the kernel has it: zeros behind its end

class ThreadNames {
 public:
  void add(const bpf::NameSlot& told);
  // At that time; of who was named only later what it was called first. Of a thread that was never named it
  // is empty, and of a CPU's idle task what the kernel calls it.
  ThreadName of(std::int32_t thread, std::uint64_t time_ns, std::int32_t cpu) const;

 private:
  struct Since {
    std::uint64_t time_ns;
    ThreadName name;
  };
  std::unordered_map<std::int32_t, std::vector<Since>> names_;  // each in the order of their times
};

}  // namespace latlab::system
