// Threads: no state, any thread.
//
// The perf events whose samples are copies of user stacks: with the registers that DWARF numbers, and the top
// of the stack.
#pragma once

#include <linux/perf_event.h>

#include <cstdint>
#include <string>

#include "system/stack_sampler.hpp"

namespace latlab::system {

perf_event_attr attributes_of(const StackRequest& request, std::uint64_t config);
int open_event(perf_event_attr& attributes, int cpu);  // of a CPU, whoever runs there; -1 and errno
std::uint64_t id_of(int descriptor);                   // throws std::system_error
unsigned place_of(unsigned dwarf_register);            // among the registers of a sample

[[noreturn]] void fail(int error, const std::string& what);  // throws std::system_error

}  // namespace latlab::system
