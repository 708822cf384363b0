// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Threads: the programs run in the kernel, on any thread. What they and the reader of a ring share, and in
// which order each stores it, is said at RingHead.
//
// BPF programs on the scheduler's hottest tracepoints that get the kernel's arguments as they are: no record
// is made of them first, and no lock is taken. Each CPU has a ring of its own in memory that is mapped: a
// record is some stores to one line of the cache. A CPU's ring is begun anew whenever it was read to
// its end, so that the same few lines are written, which are in the cache yet.
#pragma once

#include <linux/bpf.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "system/btf.hpp"

namespace latlab::system::bpf {

// At the beginning of a CPU's value. Positions count bytes from the first record on; that at `position` lies
// at (position - base) modulo the ring's size. Programs move `head` when a record is complete, the reader
// `tail` when it has copied one. Programs alone move `base`, before they write the first record behind it,
// and only to where head and tail are the same: who has read `head` first therefore reads the base that it is
// valid for.
struct RingHead {
  std::uint64_t head;
  std::uint64_t base;
  std::uint64_t busy;  // a program writes: another one, of an interrupt, has no room
  std::uint64_t lost;
  std::uint64_t unused[4];
  std::uint64_t tail;  // by the reader, in a line of its own
};

// What each tracepoint tells, in words; and more of it by a switch, where registers are asked for. Each line
// of the cache that is written costs who is observed: the reader had it last, often on another CPU. So a name
// is no part of it: a thread's is told once, before the switch that it first has a part in (NameSlot).
struct Slot {
  std::uint64_t time_ns;   // CLOCK_MONOTONIC
  std::uint64_t pid_tgid;  // of the current task: process << 32 | thread
  std::uint64_t context;   // see Program::reports
  std::uint16_t event;     // index in the request
  std::uint16_t bytes;     // whole words
  std::int32_t number;     // a switch: prev_state; a wake-up: target_cpu; a move: orig_cpu
  std::int32_t pid;        // of who is woken or moved; a switch: next_pid
  std::int16_t prio;       // of who leaves, is woken, or is moved
  std::int16_t other;      // a switch: next_prio; a move: dest_cpu
};
struct SwitchSlot {
  Slot slot;
  std::int64_t registers[3];  // the leaving thread's call, first and fourth argument
};
// How a thread is called at a time; begins and ends as Slot does.
struct NameSlot {
  std::uint64_t time_ns;
  std::uint64_t pid_tgid;  // of who is called so
  std::uint64_t first;     // the name's bytes
  std::uint16_t event;
  std::uint16_t bytes;
  std::int32_t unused;
  std::uint64_t second;
};
inline constexpr std::size_t kLine = 64;
inline constexpr std::size_t kWord = 8;  // what records are whole numbers of
static_assert(sizeof(Slot) == 40 && sizeof(SwitchSlot) == kLine && sizeof(NameSlot) == sizeof(Slot));
static_assert(offsetof(NameSlot, event) == offsetof(Slot, event));

inline constexpr std::size_t kRingData = 2 * kLine;  // behind the head
// So many bytes are a CPU's value beside the data: its head, and room for a record that begins in the last
// word.
inline constexpr std::size_t kRingMore = 4096;

enum class Typed { kNone, kSwitch, kWaking, kMove, kInterrupt, kTransfer, kArrival, kFault, kFork, kName };
constexpr bool is_call(Typed what) {  // of bpf_calls.hpp
  return what == Typed::kTransfer || what == Typed::kArrival || what == Typed::kFault || what == Typed::kFork;
}
// How a tracepoint is read that passes these arguments (btf.hpp); kNone if it is another one, or if a kernel
// passes something else.
Typed typed(std::string_view tracepoint, std::string_view arguments);

// What lets a switch's program take the stack of the thread that leaves, as descriptors of maps: processes of
// which none is wanted; per thread the time up to which its samples are spent; one value, how long a sample
// spends, in ns; and of each CPU the perf event whose sample it becomes. -1: no stacks.
struct StackGate {
  int strangers = -1;
  int spent = -1;
  int gap = -1;
  int outputs = -1;
};
// Of `spent`: a thread's entry is at its number modulo this; the time and the number.
inline constexpr std::uint32_t kSpentEntries = 1U << 16U;
inline constexpr std::uint32_t kSpentBytes = 16;
// Samples of a thread that may follow each other at once, as a power of two.
inline constexpr int kBurst = 4;

struct SchedulerProgram {
  Typed what = Typed::kNone;
  int rings = -1;                // of make_rings
  std::uint32_t ring_bytes = 0;  // a power of two
  int counters = -1;             // where an event of a CPU without a ring is counted
  std::uint32_t event = 0;
  bool registers = false;
  int contexts = -1;
  std::uint32_t reports = 0;  // as of Program
  StackGate stacks;           // of a switch
  int names = -1;             // of make_names, of a switch; -1: no names are told
  std::uint32_t name_event = 0;
};
std::vector<bpf_insn> scheduler_program(const SchedulerProgram& wanted, const btf::Scheduler& task);

// The threads whose names were told stand at their numbers modulo this, in a map of make_names.
inline constexpr std::uint32_t kNameEntries = 1U << 16U;
// On who begins (`renames` false: the second argument of sched_process_fork) or is called otherwise from now
// on (the first of task_rename): the next switch tells its name again, and of a renamed one the second, too:
// it may be switched away before it is called so.
std::vector<bpf_insn> name_program(int names, bool renames, const btf::Scheduler& task);

}  // namespace latlab::system::bpf
