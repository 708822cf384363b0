// Threads: one owner. The programs run in the kernel, on the thread that is sampled.
//
// Filters for sampled events. Of all: no sample of a process that is none of ours, once it is known as such.
// Of the event "context switch", besides: at most one sample of a thread in `gap_ns` on the average, so that
// a thread that blocks once a second is sampled as surely as one that blocks ten thousand times. Without them
// (no rights for BPF) strangers fill the rings too, and the kernel samples every n-th switch of a CPU, which
// misses the rare ones.
#pragma once

#include <cstdint>

#include "not_copied.hpp"
#include "system/bpf_scheduler.hpp"

namespace latlab::system {

class SwitchGate : NotCopied {
 public:
  ~SwitchGate();

  // False where the kernel doesn't allow it; then nothing is held.
  bool open(std::uint64_t gap_ns);
  bool attach_to_clock(int perf_descriptor) const;
  bool attach_to_switches(int perf_descriptor) const;
  void set_gap(std::uint64_t gap_ns) const;
  // A call of bpf(2) that is preempted holds up every program on its CPU: rarely is often enough.
  void set_stranger(std::uint32_t process, bool stranger) const;
  bool is_open() const { return switches_ >= 0; }
  // For a program on the scheduler's own tracepoint, which the same gap and the same strangers then hold for;
  // `add_output` gives it the event of each CPU. Without descriptors where the kernel has no room for it.
  bpf::StackGate share(std::uint32_t cpus);
  bool add_output(std::uint32_t cpu, int perf_descriptor) const;

 private:
  void close();
  int load(bool with_gap) const;

  int strangers_ = -1;               // processes
  int spent_ = -1;                   // thread -> the time up to which its samples are spent
  int slots_ = -1, outputs_ = -1;    // of who shares the gate: see bpf::StackGate
  int gap_ = -1;                     // one value
  std::uint64_t* gap_ns_ = nullptr;  // the same, where the kernel maps it: written without a system call
  int clock_ = -1, switches_ = -1;   // the programs
};

}  // namespace latlab::system
