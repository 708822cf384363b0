// Threads: every function may be called from any thread; measuring ones want to run undisturbed for a
// millisecond.
//
// What the time-stamp counter can tell: in which steps it moves, and what reading it costs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace latlab::system {

// The step of a counter, from readings taken at uneven distances: the largest number that divides nine in ten
// of the distances between fresh readings. A reading that lies 0 or 1 above the one before is not fresh: a
// counter that has not moved on is often made to look as if it had (measured: a virtual TSC that steps by 26
// returns the previous value + 1 on a second read within a step, so the least distance ever seen, 1, is an
// artefact). 1 where the readings tell nothing.
std::uint64_t counter_quantum(std::span<const std::uint64_t> readings);

// Readings of the counter at uneven distances: a constant one would pass for a step.
std::vector<std::uint64_t> uneven_readings(std::size_t count);

enum class Read { plain, ordered, monotonic };

// Ticks that one reading takes, back to back: the median over `batches` runs of 256 readings each, since a
// run that was interrupted says nothing.
double read_cost_ticks(Read kind, std::size_t batches);

// The same for clock_gettime(clock), and with kUsage for getrusage(RUSAGE_SELF); 0 for a clock that this
// kernel has not.
inline constexpr int kUsage = -1;
double clock_cost_ticks(int clock, std::size_t batches);

// The largest backward step in `count` readings of alternating kind on this thread; 0 for a monotonic
// counter.
std::uint64_t largest_backward_step(std::size_t count);

}  // namespace latlab::system
