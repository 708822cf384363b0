// Threads: any function may be called from any thread.
//
// Work of a chosen size. A CPU that shares its core with a neighbour runs code that fills the core's width
// (an interpreter, say) at half to two thirds of its speed, and the guest sees nothing of it but longer
// times; a stub that spins until a deadline would not be slowed with the rest of its system. Included by
// latlab/stub_plan.hpp.
#pragma once

#include <cstdint>

namespace latlab::stub::detail {

// Four chains without dependencies on each other: about four instructions a cycle, where the core has them.
inline void work(std::uint64_t iterations) noexcept {
  std::uint64_t a = 1;
  std::uint64_t b = 2;
  std::uint64_t c = 3;
  std::uint64_t d = 4;
#if defined(__x86_64__)
  while (iterations != 0) {  // NOLINT(bugprone-infinite-loop): the assembly counts down
    asm volatile(
        "incq %0\n\tincq %1\n\tincq %2\n\tincq %3\n\t"
        "xorq $0x55, %0\n\txorq $0x55, %1\n\txorq $0x55, %2\n\txorq $0x55, %3\n\t"
        "decq %4\n\ttestq %4, %4"
        : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(iterations)
        :
        : "cc");
  }
#else
  for (; iterations != 0; --iterations) {
    a = (a + 1) ^ 0x55U;
    b = (b + 1) ^ 0x55U;
    c = (c + 1) ^ 0x55U;
    d = (d + 1) ^ 0x55U;
    asm volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d));  // keeps every iteration
  }
#endif
}

}  // namespace latlab::stub::detail
