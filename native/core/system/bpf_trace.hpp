// SPDX-License-Identifier: Apache-2.0
// Threads: open, start, stop and take belong to one owner at a time (a lock inside serialises them against
// the drain thread, which this class starts and joins). Nothing here runs on a measured thread: a BPF program
// of some twenty instructions copies each tracepoint's record into one ring of the kernel's, and the drain
// thread, which sleeps in between, copies it out.
//
// The same records as PerfTrace gives, by BPF programs on the same tracepoints. Some kernels deliver no
// switch out of the idle task of a CPU to perf and tracefs, and count nothing as lost; a BPF program sees
// every one. It also reads, at a switch, the system call that the leaving thread is in, so that system calls
// which don't block cost nothing. No compiler, no library and no BTF of ours is needed: see bpf_program.cpp.
//
// The scheduler's events, which are as frequent as switches, and what goes in and out of sockets are read
// from the kernel's own tracepoints where the kernel describes its types (btf.hpp): perf's make a record
// first, and one lock serves all CPUs' rings of BPF. See bpf_scheduler.hpp and bpf_calls.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "system/bpf_scheduler.hpp"
#include "system/perf_trace.hpp"

namespace latlab::system {

struct BpfEvent {
  std::uint64_t id = 0;         // tracefs events/<group>/<name>/id
  std::uint32_t raw_bytes = 0;  // of its record; what lies behind is not copied
  bool registers = false;       // the current thread's user registers too
  // With registers: at most so many bytes of what its system call reads or writes, rounded up to 8; the
  // record has the call's result, an int, at length_at.
  std::uint32_t payload_bytes = 0;
  std::uint32_t length_at = 0;
  bool chosen = false;       // of the processes alone that `add_process` names
  std::uint32_t key_at = 0;  // where the record has the word by which `sample` chooses; 0: all are wanted
  // An interrupt that begins (keeps: its byte in the CPU's word, and where its record has its number, or 0)
  // or ends (clears): no sample comes of it. Events that report have the CPU's word of when they came (1), or
  // for how long it had served interrupts until then, in ns (2), without those of untimed numbers, a bit
  // each.
  int keeps_at = -1;
  std::uint32_t word_at = 0;
  bool clears = false;
  std::uint64_t untimed = 0;
  // Of a fork: where the record has the child's process, whose chosen events come from its first one on if
  // its parent's do.
  std::uint32_t adopts_at = 0;
  std::uint32_t reports = 0;
  // Of one that may be read from the kernel's own tracepoint: what that is called, and where the record has
  // each of its fields, in the order of the slots' reader (cpu_rings.hpp). "": by perf's tracepoint.
  std::string typed;
  std::vector<std::uint32_t> places;
  bool counted = false;  // how many have which key, for `counts`
};

struct BpfRequest {
  std::vector<BpfEvent> events;
  bpf::StackGate stacks;  // what the program of the switches takes stacks by, where it is a typed one
  std::size_t ring_bytes = 1U << 25U;  // a power of two, for all CPUs together
  std::size_t most_bytes =
      1ULL << 30U;  // that are kept until they are taken; what comes then is counted as lost
  // Calls whose first argument is a descriptor that `notes` tells, where a thread leaves its CPU in one.
  std::vector<std::int32_t> watched_calls;
};

// What came since the last time: process and descriptor of each call, in turn, where its event has registers,
// each pair once; parent and child of each fork.
struct BpfNotes {
  std::vector<std::int32_t> descriptors, children;
};
struct BpfCounts {
  std::vector<std::uint64_t> keys;
  std::vector<std::uint32_t> counts;
};

// Of the thread that was current, where its event asks for them: its system call (-1: none, as in a page
// fault), its first and its fourth argument. One row of kBpfRegisters a sample.
enum : std::size_t { kBpfCall, kBpfFirst, kBpfFourth, kBpfRegisters };

struct BpfSamples : TraceSamples {
  std::vector<std::int64_t> registers;  // time_ns.size() rows of kBpfRegisters, or none
  std::vector<std::int64_t> context;    // of events that report, else none: the word has 16 bits an interrupt
  std::size_t payload_stride = 0;
  std::vector<std::uint8_t> payload;  // as many rows of payload_stride: a word, how many bytes, and these
};

class BpfTrace {
 public:
  explicit BpfTrace(const BpfRequest& request);  // throws std::system_error; its text says which step failed
  ~BpfTrace();
  BpfTrace(const BpfTrace&) = delete;
  BpfTrace& operator=(const BpfTrace&) = delete;

  // From now on events that are `chosen` come from this process, too.
  void add_process(std::uint32_t pid);
  // From now on only about below / 2^32 of the keys, always the same ones: those whose hash, the upper half
  // of (the key's lower half ^ salt) * 2^64 by the golden ratio, is less. A store to memory that the programs
  // read, and no system call.
  void sample(std::uint64_t below);
  std::uint64_t salt() const;

  void start();
  void stop();  // what the ring still holds is drained
  // Everything that was drained so far, one entry an event of the request; works while tracing too.
  std::vector<BpfSamples> take();
  // How many of each event `take` would give.
  std::vector<std::uint64_t> waiting();
  BpfNotes notes();
  // Of each event that is `counted`, how many came with which key since the last time.
  std::vector<BpfCounts> counts();
  // Samples that found no room, in the ring or behind it.
  std::uint64_t lost();
  // Whether the kernel lets the programs read the registers.
  bool registers() const;
  // Whether the stacks are taken.
  bool stacks() const;
  // The events, by their index, that are read from the kernel's own tracepoints.
  std::vector<std::size_t> typed() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace latlab::system
