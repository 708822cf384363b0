// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Threads: the programs run in the kernel, on any thread, also inside of each other. See RingHead
// (bpf_scheduler.hpp) for what they and the reader of a ring share.
//
// BPF programs on what goes in and out of sockets, on arrivals in their queues, on page faults and on forks,
// which get the kernel's arguments as they are. Unlike the scheduler's they run where interrupts come: a ring
// is taken by exchanging `busy`, and who finds it taken writes into the CPU's second one. So a call, an
// arrival that interrupts it, and nothing third, have room at once.
#pragma once

#include <linux/bpf.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "system/bpf_program.hpp"
#include "system/bpf_scheduler.hpp"
#include "system/btf.hpp"

namespace latlab::system::bpf {

// Begins as Slot does, so that the reader of a ring needs no more; `captured` bytes of what the call moved
// lie behind it, and it ends with a whole word. An arrival ends behind `flags`.
struct CallSlot {
  std::uint64_t time_ns;   // CLOCK_MONOTONIC
  std::uint64_t pid_tgid;  // of the current task: process << 32 | thread
  std::uint64_t subject;   // the socket, the address that was missing, or the child
  std::uint16_t event;     // index in the request
  std::uint16_t bytes;
  std::int32_t result;  // of a call
  std::uint16_t family, protocol;
  std::int32_t flags;  // of a call
  std::int32_t call;   // its number
  std::uint32_t captured;
  // Its arguments; of a fault the instruction, and the error code; of a fork the parent's name, which is the
  // child's, too.
  std::int64_t first, fourth;
};
static_assert(sizeof(CallSlot) == kLine && offsetof(CallSlot, event) == offsetof(Slot, event) &&
              offsetof(CallSlot, bytes) == offsetof(Slot, bytes));

inline constexpr std::size_t kArrivalBytes = offsetof(CallSlot, call);
inline constexpr std::uint32_t kCallRings = 2;  // a CPU's
inline constexpr std::uint32_t kMostCaptured = 1024;

struct CallProgram {
  Typed what = Typed::kNone;
  int rings = -1;  // of make_rings, kCallRings for each CPU: all first ones, then the second ones
  std::uint32_t ring_bytes = 0;
  std::uint32_t cpus = 0;
  int counters = -1;  // where an event is counted for which no ring was free
  std::uint32_t event = 0;
  std::uint32_t payload_bytes = 0;  // at most so many are captured, a multiple of 8, up to kMostCaptured
  Processes processes;  // of these alone; none: of all; of a fork those whose children become wanted
  int sampling = -1;    // by the socket; -1: all are wanted
};
std::vector<bpf_insn> call_program(const CallProgram& wanted, const btf::Scheduler& types);

}  // namespace latlab::system::bpf
