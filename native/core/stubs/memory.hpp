// Threads: a CacheStub is used by one thread at a time; run_memory_plan is re-entrant.
//
// Memory stubs: a working set walked in an order that the prefetcher can't guess (cache stub), and heap and
// stack that grow and shrink over time (main-memory stub).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace latlab::stubs {

struct CacheResult {
  std::int64_t accesses = 0;
  std::int64_t wall_ns = 0;
  std::int64_t misses = -1;  // of the last cache level, by the CPU's counter; -1 where there is none
};

// One cycle through all lines of the working set, `stride` bytes apart, in random order: every load depends
// on the one before it, so the time per access is the latency of the level that holds the set.
class CacheStub {
 public:
  // Throws std::invalid_argument where the set doesn't hold two strides or the stride is below 8 bytes.
  CacheStub(std::size_t working_set_bytes, std::size_t stride_bytes, double write_fraction,
            std::uint64_t seed);
  CacheResult run(std::int64_t accesses) noexcept;
  CacheResult run_for(std::int64_t ns) noexcept;
  // With its misses, where the CPU lets them be counted.
  CacheResult run_counted(std::int64_t accesses) noexcept;

 private:
  std::vector<std::uint64_t> cells_;  // each holds the index of the next one; the cell beside it is written
  std::size_t position_ = 0;
  std::uint32_t writes_per_256_;
  std::uint32_t phase_ = 0;
};

struct MemoryStep {
  std::int64_t at_ns = 0;       // after the start of the plan
  std::int64_t heap_bytes = 0;  // that are held from then on
  std::int64_t stack_bytes = 0;
};

struct MemoryResult {
  std::int64_t wall_ns = 0;
  std::int64_t peak_heap_bytes = 0;
  std::int64_t peak_stack_bytes = 0;
  std::int64_t page_faults = 0;
  std::int64_t worst_lateness_ns = 0;  // of a step against its time
};

// Grows and releases heap (mapped pages, touched) and stack (frames, touched) on a thread of its own with a
// stack that is large enough. Throws std::runtime_error where the memory or the thread can't be had.
MemoryResult run_memory_plan(const std::vector<MemoryStep>& steps);

}  // namespace latlab::stubs
