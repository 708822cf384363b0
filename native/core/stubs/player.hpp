// Threads: play() makes its own threads and returns when all have ended; call it from one thread at a time.
//
// Re-executes the action lists of a multi-threaded program with real threads: runs of a given CPU time,
// sleeps, and the communication between them. All threads exist before the start, so that `create` costs a
// wake-up and not a clone, and CPU time is kept on a running account per thread: what an action costs is
// taken from the run after it.
//
// Scheduled, each thread also knows when it would be where it is if nothing were ever late: runs and sleeps
// add up, and who waits takes the schedule of the one who lets it go (the larger of both). Sleeps end by that
// schedule, so that the lateness of a wake-up is made good by the next sleep and doesn't add up. What is
// changed in one thread so still moves all that wait for it. Not scheduled, every sleep has its own length:
// right where threads contend for the CPUs, and a schedule without contention can't be met.
//
// Creates and joins that lie microseconds apart in threads that know nothing of each other would come in any
// order: an action with a turn waits for those before it, but never for long.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace latlab::stubs {

enum class Verb : std::uint8_t {
  kRun,     // amount: ns of CPU time
  kSleep,   // amount: ns of wall time
  kCreate,  // target: index of the thread
  kJoin,    // target: index of the thread
  kSignal,  // target: index of the semaphore
  kWait,    // target: index of the semaphore
  kRepeat,  // amount: how often; target: index of the matching kEnd
  kEnd,     // target: index of the matching kRepeat
  kMemory,  // amount: bytes of heap from now on
  kRead,    // amount: bytes; target: block
  kWrite,   // amount: bytes; target: block
  kFsync,
  kExit,   // those who join this thread go on; what follows is its teardown
  kReady,  // amount: ns without a CPU that it wanted
};

struct Action {
  Verb verb = Verb::kRun;
  std::int64_t amount = 0;
  std::int64_t target = 0;
  std::int64_t turn = -1;  // of a create, a join or an exit: its place in an order that is kept; -1: none
};

struct PlayedThread {
  std::int64_t run_ns = 0;      // thread CPU time from start to end
  std::int64_t blocked_ns = 0;  // wall time that is neither run nor ready
  std::int64_t ready_ns = 0;    // waited for a CPU (schedstat)
  std::int64_t start_ns = 0;    // after the start barrier
  std::int64_t end_ns = 0;
  std::int64_t budget_ns = 0;  // CPU time that its actions asked for
  std::int64_t late_ns = 0;    // its start or end after the schedule's, the worse of them; 0 without one
  std::int64_t switches = 0;
  std::int64_t faults = 0;
  bool started = false;
  bool finished = false;  // came to the end of its actions
  // Three numbers a slice: begin, end (ns after the barrier); 0 a run, 1 a wait or sleep, 2 ready.
  std::vector<std::int64_t> slices;
  // Three numbers each: when (ns after the barrier), 0 for a create and 1 for a join, index of the thread.
  std::vector<std::int64_t> events;
};

// High (nice -20) wins against what else runs. Real time (SCHED_FIFO) gives a woken thread the CPU at once,
// and a switch then costs some 10 us more CPU time, for which the kernel looks at every other CPU.
enum class Priority : std::uint8_t { kUsual, kHigh, kRealTime };

struct PlayPlan {
  std::vector<std::vector<Action>> threads;
  std::vector<bool> created;             // by another thread; the others start at the barrier
  std::vector<std::int64_t> semaphores;  // their first values: 0 for an event, 1 for a lock
  std::string io_path;                   // file of read and write actions
  std::int64_t timeout_ns = 60'000'000'000;
  bool scheduled = false;  // see above
  Priority priority = Priority::kUsual;
  std::size_t max_slices = 1U << 16U;  // a thread
};

struct PlayResult {
  std::int64_t total_ns = 0;
  bool timed_out = false;
  bool refused = false;  // the priority that was asked for isn't allowed
  bool awake = false;    // idle CPUs were kept polling
  std::vector<PlayedThread> threads;
};

// Throws std::runtime_error where the threads or the file can't be had.
PlayResult play(const PlayPlan& plan);

}  // namespace latlab::stubs
