// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// No thread contract: plain functions on values and descriptors.
//
// The BPF program that copies a tracepoint's record into a ring, as instructions; and the bpf(2) calls that
// it needs. The kernel lets only programs of a licence compatible with the GPL call its tracing helpers, so
// this file and bpf_program.cpp alone are under either of the two licences above.
#pragma once

#include <linux/bpf.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace latlab::system::bpf {

// What a record in the ring begins with; then the registers, where asked for, then the tracepoint's own
// record.
struct RecordHead {
  std::uint64_t time_ns;   // CLOCK_MONOTONIC
  std::uint64_t pid_tgid;  // of the current task: process << 32 | thread
  std::uint32_t cpu;
  std::uint32_t event;    // index in the request
  std::uint64_t context;  // of the CPU, where asked for, see Program::reports
};
static_assert(sizeof(RecordHead) == 32);

// The part of struct pt_regs that is copied: a system call's number, first, second and fourth argument. Each
// byte costs the observed program time at every switch, and a second copy more than the bytes between.
#if defined(__x86_64__)
inline constexpr std::size_t kRegistersFrom = 56;
inline constexpr std::size_t kRegisterBytes = 72;  // r10 r9 r8 ax cx dx si di orig_ax
#elif defined(__aarch64__)
inline constexpr std::size_t kRegistersFrom = 8;
inline constexpr std::size_t kRegisterBytes = 288;  // x1 … x30 sp pc pstate orig_x0 syscallno
#else
inline constexpr std::size_t kRegistersFrom = 0;
inline constexpr std::size_t kRegisterBytes = 0;
#endif

// Each throws std::system_error, whose text names the step.
int make_ring(std::size_t bytes);
int make_counters(std::uint32_t count);
std::uint64_t read_counter(int counters, std::uint32_t index);
// A map of one value that this process maps too, of two words: below which hash keys are wanted, and the
// hashes' salt. A key's hash is the upper half of (key's lower half ^ salt) * kSpread.
int make_sampling();
inline constexpr std::uint64_t kSpread = 0x9E3779B97F4A7C15;  // 2^64 by the golden ratio (Knuth, 6.4)
// The processes whose events are wanted: a map of all of them; and one whose entry at a process's number
// modulo kFewProcesses is 0 where none with that remainder is wanted, or such a one: looking there takes a
// tenth of the time, and most calls of a machine are a stranger's.
struct Processes {
  int all = -1;
  int few = -1;
};
class Assembler;
// Leaves, unless the key whose lower half is in r1 is wanted.
void leave_unless_low(Assembler& a, int sampling);
// Of a fork by a wanted process: the child whose number is in r9 is wanted from its first call on.
void adopt(Assembler& a, const Processes& processes);
// A map of so many values of so many bytes, which this process maps too: see bpf_scheduler.hpp.
int make_rings(std::size_t bytes, std::uint32_t count);
// A map of one value a CPU, which no reader sees: a word of the interrupts that it is in, 16 bits each; how
// long it has served interrupts so far, in ns; and since when each of the first three, or 0.
int make_contexts();
// A map of the threads whose names were told, see bpf_scheduler.hpp.
int make_names();
inline constexpr std::uint32_t kFewProcesses = 1U << 16U;
int make_processes();
int make_few_processes();
void add_process(const Processes& processes, std::uint32_t pid);

struct Program {
  int ring = -1;
  int counters = -1;
  std::uint32_t event = 0;
  std::uint32_t raw_bytes = 0;  // a multiple of 8
  bool registers = false;
  // With registers: a word that says how many bytes follow, and at most so many bytes, a multiple of 8, of
  // what the system call that the current thread is in reads or writes (its second argument; of readv and
  // recvmsg and their kin the first buffer).
  std::uint32_t payload_bytes = 0;
  std::uint32_t length_at = 0;  // where the record has the call's result, an int: no more is copied
  int processes = -1;           // of these alone (Processes::all); -1: of all
  std::uint32_t key_at = 0;     // where the record has a word by which events are sampled; 0: all are wanted
  int sampling = -1;
  int contexts = -1;  // of make_contexts, for the two that follow
  // Makes no record, but says in which interrupt its CPU is: the 16 bits at this byte of the CPU's word
  // become the int at word_at of the record and 1; 1 where word_at is 0; 0 where it `clears`. -1: it makes a
  // record.
  int keeps_at = -1;
  std::uint32_t word_at = 0;
  bool clears = false;
  // Numbers of interrupts, a bit each below 64, whose time isn't counted.
  std::uint64_t untimed = 0;
  // Of a fork: where its record has the child's number, which becomes wanted if the parent's process is.
  std::uint32_t adopts_at = 0;
  Processes adopting;
  std::uint32_t reports = 0;  // 1: its record has the CPU's word; 2: how long it has served interrupts
  // What the kernel's types call the tracepoint (btf.hpp), for one that gets its arguments as they are, and
  // no record; such a one must keep a context. 0: by perf's tracepoint.
  std::uint32_t type = 0;
};

// Loads it, and returns its descriptor.
int load(const Program& wanted);
int load(const std::vector<bpf_insn>& code, std::uint32_t type);
// One that was loaded for a type: it runs from now on until the descriptor that is returned is closed.
int attach(int program);
// One that was loaded for no type, to perf's tracepoint of this number (tracefs events/<group>/<name>/id).
int attach(int program, std::uint64_t id);
// How often it would have run while it ran already on that CPU.
std::uint64_t misses(int program);

}  // namespace latlab::system::bpf
