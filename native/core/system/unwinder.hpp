// Threads: one at a time; it runs after a measurement, never beside it.
//
// Raw copies of stacks (`stack_sampler.hpp`) become stacks of places in the code: by DWARF (libdw) where it
// is installed, else along the frame pointers; function (demangled, inlined ones too), file and line from
// symbol tables and debug information, also separate ones (by build-id and below /usr/lib/debug).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "system/stack_sampler.hpp"

namespace latlab::system {

struct CodePlace {
  std::string function, file, module;  // "" where unknown
  int line = 0;
  std::uint64_t offset = 0;   // in the module's file
  std::uint64_t address = 0;  // in the process; of places outside of modules (compiled at run time)
  int pid = 0;                // whose address it is
  std::uint64_t behind = 0;   // the beginning of a symbol that tells no size: it may be of another function
};

struct Unwound {
  std::vector<std::int64_t> time_ns;
  std::vector<std::int32_t> pid, tid, stack;
  std::vector<std::uint8_t> running;
  std::vector<std::uint64_t> base;  // where the outermost return address of a stack stands; 0: unknown
  std::vector<std::vector<std::int32_t>> stacks;  // of places, innermost first
  std::vector<CodePlace> places;
  bool by_dwarf = false;
};

// At most `most` samples, evenly chosen, are unwound.
Unwound unwind(const std::vector<StackSample>& samples, const std::vector<ProcessEvent>& processes,
               std::size_t most);

// "feed::parse(int)" of "_ZN4feed5parseEi"; what isn't mangled stays.
std::string demangled(const char* name);

}  // namespace latlab::system
