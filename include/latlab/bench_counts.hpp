// Threads: belongs to the one thread that measures; reading it disturbs nobody.
//
// What calls cost beside time: instructions, branches and cache misses where the CPU counts them, context
// switches and page faults by getrusage(2), and allocations where something counts them:
// liblatlab-allocations (preloaded), or whoever measures. Read before and after some calls of a process that
// times nothing.
#pragma once

#include <latlab/hardware_count.hpp>

#include <dlfcn.h>
#include <sys/resource.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace latlab::bench {

// In this order, everywhere. Version 1: as below.
enum class Cost : std::uint8_t {
  instructions,
  branches,
  branch_misses,
  cache_misses,
  voluntary_switches,
  involuntary_switches,
  minor_faults,
  major_faults,
  allocations,
  allocated_bytes,
};
inline constexpr std::size_t costs = 10;
// -1: nothing counts it here.
using Costs = std::array<double, costs>;

// How liblatlab-allocations says what was allocated so far: how many times, how many bytes.
using AllocationsRead = void (*)(std::uint64_t* count_and_bytes);
inline constexpr const char* allocations_symbol = "latlab_allocations_so_far";

inline void put_usage(Costs& out, const rusage& usage) noexcept {
  const auto put = [&](Cost what, long value) {
    out[static_cast<std::size_t>(what)] = static_cast<double>(value);
  };
  put(Cost::voluntary_switches, usage.ru_nvcsw);
  put(Cost::involuntary_switches, usage.ru_nivcsw);
  put(Cost::minor_faults, usage.ru_minflt);
  put(Cost::major_faults, usage.ru_majflt);
}

class CostReader {
 public:
  CostReader() noexcept
      : allocations_(reinterpret_cast<AllocationsRead>(dlsym(RTLD_DEFAULT, allocations_symbol))) {}

  [[nodiscard]] Costs now() const noexcept {
    Costs out{};
    out.fill(-1.0);
    rusage usage{};
    if (getrusage(RUSAGE_SELF, &usage) == 0) put_usage(out, usage);
    if (allocations_ != nullptr) {
      std::array<std::uint64_t, 2> seen{};
      allocations_(seen.data());
      out[static_cast<std::size_t>(Cost::allocations)] = static_cast<double>(seen[0]);
      out[static_cast<std::size_t>(Cost::allocated_bytes)] = static_cast<double>(seen[1]);
    }
    const std::array<const HardwareCount*, 4> counted{&instructions_, &branches_, &branch_misses_,
                                                      &cache_misses_};
    for (std::size_t i = 0; i < counted.size(); ++i) out[i] = static_cast<double>(counted[i]->now());
    return out;
  }

 private:
  AllocationsRead allocations_;
  HardwareCount instructions_{Counted::instructions, 0, true};
  HardwareCount branches_{Counted::branches, 0, true};
  HardwareCount branch_misses_{Counted::branch_misses, 0, true};
  HardwareCount cache_misses_{Counted::cache_misses, 0, true};
};

// Adds what lies between two readings.
inline void add_difference(Costs& sum, const Costs& before, const Costs& after) noexcept {
  for (std::size_t i = 0; i < costs; ++i) {
    sum[i] = before[i] < 0 || after[i] < 0 ? -1.0 : sum[i] + after[i] - before[i];
  }
}

}  // namespace latlab::bench
