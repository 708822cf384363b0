// Threads: none of its own; one call simulates on the caller's, and calls do not share anything.
//
// A discrete-event simulation of threads that compete for CPUs. A thread is a row of steps: so much work on a
// CPU, and a deed behind it. Waits are for deeds of other threads, for a time, or for a lock; never for a
// CPU: who has one is the simulated scheduler's choice.
//
// The scheduler is a fair one (after CFS and EEVDF: Stoica and Abdel-Wahab, "Earliest Eligible Virtual
// Deadline First", 1995): of those that are ready the one with the least virtual run time runs, for a slice;
// who wakes up far behind the running one takes its place; a thread that slept is not owed for it. All CPUs
// share one queue, or each has its own: then a woken thread goes back to the CPU that it had, or to an idle
// one, and a CPU without work takes over who waits for another.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace latlab::schedule {

// What a thread does behind the work of a step.
enum class Deed : std::uint8_t {
  post = 0,    // one post of event `argument`
  wait = 1,    // take a post of event `argument`, or block until there is one
  sleep = 2,   // for `argument` ns
  until = 3,   // until the time `argument`; nothing where it is over
  start = 4,   // thread `argument` begins
  join = 5,    // block until thread `argument` has exited
  lock = 6,    // take lock `argument`; first come, first served
  unlock = 7,  // give it back
  halt = 8,    // thread `argument` is told to end: it works, sleeps and waits no more
  exit = 9,    // let go those that join; what follows is the teardown
  none = 10,   // only the work
};

// The steps of all threads, one thread behind another; thread t has those from first[t] to first[t + 1].
struct Steps {
  std::span<const std::int64_t> first;
  std::span<const std::int64_t> work_ns;
  std::span<const std::uint8_t> deed;
  std::span<const std::int64_t> argument;
  std::span<const std::int64_t> recorded_ns;  // when it was done in truth; decides who goes on where all wait
  std::span<const std::int64_t> born_ns;      // by thread: when it begins; -1: by another's `start`
  std::span<const std::uint64_t> allowed;     // by thread: a bit for each of the first 64 CPUs; 0: all
  std::span<const std::int64_t> cost;         // by thread: virtual ns a ns of run time; empty: 1
  // By step: from its wake-up to running on an idle CPU; -1 or empty: as the machine's `wake_ns`. Of a
  // `start`, from the new thread's beginning to its running; -1 or empty: none.
  std::span<const std::int64_t> delay_ns;
};

struct Machine {
  int cpus = 1;
  std::int64_t wake_ns = 0;  // from a wake-up until the thread runs on an idle CPU
  std::int64_t slice_ns = 3'000'000;
  std::int64_t behind_ns = 1'000'000;  // by how much a woken thread must be behind to take a CPU at once
  bool own_queues = false;             // a queue for each CPU
  std::int64_t stay_ns = 0;            // who waits for a CPU so long may be taken over by an idle one
  bool turns = false;                  // keep every thread's turns
};

// A thread's time on a CPU, from being put there to leaving it.
struct Turn {
  std::int64_t thread;
  std::int64_t begin_ns;
  std::int64_t end_ns;
};

struct Outcome {
  std::vector<std::int64_t> ended_ns;  // by thread; -1: it never began
  std::vector<std::int64_t> ready_ns;  // by thread: without a CPU
  std::vector<std::int64_t> blocked_ns;
  std::vector<std::int64_t> at_ns;          // by step: when its work was done
  std::vector<std::int64_t> step_ready_ns;  // by step: without a CPU before its work was done
  std::vector<Turn> turns;                  // in order of their ends; where they are asked for
  std::int64_t forced = 0;                  // waits that were let go because everybody waited
};

// Throws std::invalid_argument for steps that do not fit together.
Outcome simulate(const Steps& steps, const Machine& machine);

}  // namespace latlab::schedule
