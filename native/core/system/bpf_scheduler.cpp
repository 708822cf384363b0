// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
#include "system/bpf_scheduler.hpp"

#include <cstddef>

#include "system/bpf_assembler.hpp"

namespace latlab::system::bpf {
namespace {

// How the kernel reports why a thread leaves (include/linux/sched.h: __task_state_index and its callers).
constexpr std::int32_t kReported = 0x7F;      // TASK_REPORT
constexpr std::int32_t kIdle = 0x402;         // TASK_IDLE
constexpr std::int32_t kReportIdle = 0x80;    // TASK_REPORT_IDLE
constexpr std::int32_t kPreempted = 0x100;    // TASK_REPORT_MAX
constexpr std::int32_t kLockWait = 0x1000;    // TASK_RTLOCK_WAIT
constexpr std::int32_t kFrozen = 0x8000;      // TASK_FROZEN
constexpr std::int32_t kUninterruptible = 2;  // TASK_UNINTERRUPTIBLE
// Not reported by the kernel: its control group is frozen. The second hierarchy's threads sleep meanwhile as
// they do for anything else, in a trap (include/linux/sched/jobctl.h).
constexpr std::int32_t kFreezes = 0x200;
constexpr std::int32_t kTrapFreeze = 1 << 23;  // JOBCTL_TRAP_FREEZE

constexpr std::size_t kMostBytes = sizeof(SwitchSlot) + 2 * sizeof(NameSlot);
constexpr std::uint64_t kTwice = 1ULL << 31U;  // in an entry of names: beside the thread, which is below it

// r6: the arguments; r7: this CPU's ring; r8: its head; r9: where the record is written, less kRingData.
// Leaves where there is no room.
void reserve(Assembler& a, const SchedulerProgram& wanted) {
  a.move(BPF_REG_6, BPF_REG_1);
  a.helper(kCpu);
  a.store32(BPF_REG_10, -4, BPF_REG_0);
  look_up(a, wanted.rings);
  const std::size_t known = a.unless_zero(BPF_REG_0);
  count_lost(a, wanted.counters, wanted.event);
  a.leave();
  a.land(known);
  a.move(BPF_REG_7, BPF_REG_0);
  a.load64(BPF_REG_1, BPF_REG_7, at(offsetof(RingHead, busy)));
  const std::size_t busy = a.unless_zero(BPF_REG_1);
  look_at_ring(a, BPF_REG_8, BPF_REG_9, BPF_REG_1);
  const std::size_t room = a.if_at_most(BPF_REG_1, static_cast<std::int32_t>(wanted.ring_bytes - kMostBytes));
  a.land(busy);
  a.set(BPF_REG_1, 1);
  a.add_atomic64(BPF_REG_7, BPF_REG_1, at(offsetof(RingHead, lost)));
  a.leave();
  a.land(room);
  a.store64_value(BPF_REG_7, at(offsetof(RingHead, busy)), 1);
  a.move(BPF_REG_1, BPF_REG_8);
  place_in_ring(a, BPF_REG_1, BPF_REG_9, wanted.ring_bytes);
}

void submit(Assembler& a, std::size_t bytes) {
  a.plus(BPF_REG_8, static_cast<std::int32_t>(bytes));
  a.publish64(BPF_REG_7, at(offsetof(RingHead, head)), BPF_REG_8);
  a.store64_value(BPF_REG_7, at(offsetof(RingHead, busy)), 0);
}

// When, and in which context.
void stamp(Assembler& a, const SchedulerProgram& wanted, std::size_t bytes) {
  a.helper(kKtime);
  a.store64(BPF_REG_9, in_slot(offsetof(Slot, time_ns)), BPF_REG_0);
  a.store32_value(BPF_REG_9, in_slot(offsetof(Slot, event)),
                  static_cast<std::int32_t>(wanted.event | (bytes << 16U)));
  if (wanted.reports == 0) {
    a.store64_value(BPF_REG_9, in_slot(offsetof(Slot, context)), 0);
    return;
  }
  find_context(a, wanted.contexts);
  a.set(BPF_REG_1, 0);
  const std::size_t unknown = a.if_zero(BPF_REG_0);
  a.load64(BPF_REG_1, BPF_REG_0, wanted.reports == 1 ? at(0) : kServedAt);
  a.land(unknown);
  a.store64(BPF_REG_9, in_slot(offsetof(Slot, context)), BPF_REG_1);
}

void copy32(Assembler& a, std::size_t to, std::uint8_t from, std::uint32_t offset) {
  a.load32(BPF_REG_2, from, at(offset));
  a.store32(BPF_REG_9, in_slot(to), BPF_REG_2);
}

void copy16(Assembler& a, std::size_t to, std::uint8_t from, std::uint32_t offset) {
  a.load32(BPF_REG_2, from, at(offset));
  a.store16(BPF_REG_9, in_slot(to), BPF_REG_2);
}

// r0 becomes the address of the entry of the thread whose number is in `thread`, or 0; the number stands at
// -8.
void find_name(Assembler& a, int names, std::uint8_t thread) {
  a.store32(BPF_REG_10, -8, thread);
  a.mask(thread, kNameEntries - 1);
  a.store32(BPF_REG_10, -4, thread);
  look_up(a, names);
}

// Before the record: another one with the name of the task that is this argument, unless it was told.
void tell_name(Assembler& a, const SchedulerProgram& wanted, const btf::Scheduler& task, int index) {
  a.load64(BPF_REG_1, BPF_REG_6, argument(index));
  a.load32(BPF_REG_2, BPF_REG_1, at(task.pid));
  find_name(a, wanted.names, BPF_REG_2);
  const std::size_t none = a.if_zero(BPF_REG_0);
  a.load32(BPF_REG_1, BPF_REG_0, 0);
  a.load32(BPF_REG_2, BPF_REG_10, -8);
  const std::size_t told = a.if_equal(BPF_REG_1, BPF_REG_2);
  a.shift_right(BPF_REG_1, 31);  // kTwice
  const std::size_t once = a.if_zero(BPF_REG_1);
  a.set(BPF_REG_2, 0);
  a.land(once);
  a.store32(BPF_REG_0, 0, BPF_REG_2);
  a.helper(kKtime);
  a.store64(BPF_REG_9, in_slot(offsetof(NameSlot, time_ns)), BPF_REG_0);
  a.store32_value(BPF_REG_9, in_slot(offsetof(NameSlot, event)),
                  static_cast<std::int32_t>(wanted.name_event | (sizeof(NameSlot) << 16U)));
  a.store32_value(BPF_REG_9, in_slot(offsetof(NameSlot, unused)), 0);
  a.load64(BPF_REG_1, BPF_REG_6, argument(index));
  copy32(a, offsetof(NameSlot, pid_tgid), BPF_REG_1, task.pid);
  copy32(a, offsetof(NameSlot, pid_tgid) + 4, BPF_REG_1, task.tgid);
  a.load64(BPF_REG_2, BPF_REG_1, at(task.comm));
  a.store64(BPF_REG_9, in_slot(offsetof(NameSlot, first)), BPF_REG_2);
  a.load64(BPF_REG_2, BPF_REG_1, at(task.comm + 8));
  a.store64(BPF_REG_9, in_slot(offsetof(NameSlot, second)), BPF_REG_2);
  a.plus(BPF_REG_8, sizeof(NameSlot));
  a.move(BPF_REG_1, BPF_REG_8);
  a.load64(BPF_REG_3, BPF_REG_7, at(offsetof(RingHead, base)));
  place_in_ring(a, BPF_REG_1, BPF_REG_3, wanted.ring_bytes);
  a.land(told);
  a.land(none);
}

// Into r5, of the task in r1 that leaves.
void report_state(Assembler& a, const btf::Scheduler& task) {
  a.set(BPF_REG_5, kPreempted);
  a.load64(BPF_REG_3, BPF_REG_6, argument(0));
  const std::size_t preempted = a.unless_zero(BPF_REG_3);
  a.load64(BPF_REG_3, BPF_REG_6, argument(3));
  a.load32(BPF_REG_5, BPF_REG_1, at(task.exit_state));
  a.both(BPF_REG_5, BPF_REG_3);
  a.mask(BPF_REG_5, kReported);
  a.move(BPF_REG_4, BPF_REG_3);
  a.mask(BPF_REG_4, kIdle);
  const std::size_t other = a.unless_is(BPF_REG_4, kIdle);
  a.set(BPF_REG_5, kReportIdle);
  a.land(other);
  a.mask(BPF_REG_3, kLockWait | kFrozen);
  const std::size_t neither = a.if_zero(BPF_REG_3);
  a.set(BPF_REG_5, kUninterruptible);
  a.land(neither);
  a.mask(BPF_REG_3, kFrozen);
  const std::size_t one_bit = a.if_at_most(BPF_REG_5, 2);
  for (const std::int32_t by : {1, 2, 4}) {  // the highest bit alone: all below it are set, then taken away
    a.move(BPF_REG_4, BPF_REG_5);
    a.shift_right(BPF_REG_4, by);
    a.both(BPF_REG_5, BPF_REG_4);
  }
  a.move(BPF_REG_4, BPF_REG_5);
  a.shift_right(BPF_REG_4, 1);
  a.minus(BPF_REG_5, BPF_REG_4);
  a.land(one_bit);
  const std::size_t runs = a.if_zero(BPF_REG_5);
  a.load64(BPF_REG_4, BPF_REG_1, at(task.jobctl));
  a.mask(BPF_REG_4, kTrapFreeze);
  a.both(BPF_REG_3, BPF_REG_4);
  const std::size_t free = a.if_zero(BPF_REG_3);
  a.set(BPF_REG_4, kFreezes);
  a.both(BPF_REG_5, BPF_REG_4);
  a.land(free);
  a.land(runs);
  a.land(preempted);
}

// The leaving thread's system call, from where it entered the kernel (struct pt_regs, which is part of the
// kernel's interface).
void copy_registers(Assembler& a) {
  constexpr auto kTo = offsetof(SwitchSlot, registers);
  a.load64(BPF_REG_1, BPF_REG_6, argument(1));
  a.helper(kTaskRegisters);
#if defined(__x86_64__)
  constexpr std::int16_t kFrom[] = {120, 112, 56};  // orig_ax, di, r10
#elif defined(__aarch64__)
  constexpr std::int16_t kFrom[] = {280, 272, 24};  // syscallno, orig_x0, x3
#else
  constexpr std::int16_t kFrom[] = {0, 0, 0};
#endif
  for (std::size_t i = 0; i < 3; ++i) {
#if defined(__aarch64__)
    if (i == 0) {  // an int
      a.load32(BPF_REG_1, BPF_REG_0, kFrom[i]);
      a.shift_left(BPF_REG_1, 32);
      a.shift_down(BPF_REG_1, 32);
      a.store64(BPF_REG_9, in_slot(kTo), BPF_REG_1);
      continue;
    }
#endif
    a.load64(BPF_REG_1, BPF_REG_0, kFrom[i]);
    a.store64(BPF_REG_9, in_slot(kTo + 8 * i), BPF_REG_1);
  }
}

void write_switch(Assembler& a, const SchedulerProgram& wanted, const btf::Scheduler& task) {
  a.load64(BPF_REG_1, BPF_REG_6, argument(1));
  copy32(a, offsetof(Slot, pid_tgid), BPF_REG_1, task.pid);
  copy32(a, offsetof(Slot, pid_tgid) + 4, BPF_REG_1, task.tgid);
  copy16(a, offsetof(Slot, prio), BPF_REG_1, task.prio);
  report_state(a, task);
  a.store32(BPF_REG_9, in_slot(offsetof(Slot, number)), BPF_REG_5);
  a.load64(BPF_REG_1, BPF_REG_6, argument(2));
  copy32(a, offsetof(Slot, pid), BPF_REG_1, task.pid);
  copy16(a, offsetof(Slot, other), BPF_REG_1, task.prio);
  if (wanted.registers) copy_registers(a);
}

void write_other(Assembler& a, const SchedulerProgram& wanted, const btf::Scheduler& task) {
  a.helper(kPidTgid);
  a.store64(BPF_REG_9, in_slot(offsetof(Slot, pid_tgid)), BPF_REG_0);
  a.load64(BPF_REG_1, BPF_REG_6, argument(0));
  copy32(a, offsetof(Slot, pid), BPF_REG_1, task.pid);
  copy16(a, offsetof(Slot, prio), BPF_REG_1, task.prio);
  copy32(a, offsetof(Slot, number), BPF_REG_1, task.cpu);
  a.set(BPF_REG_2, 0);
  if (wanted.what == Typed::kMove) a.load64(BPF_REG_2, BPF_REG_6, argument(1));
  a.store16(BPF_REG_9, in_slot(offsetof(Slot, other)), BPF_REG_2);
}

// Behind the record: takes the stack of who leaves, unless it is a stranger's, or its samples are spent for
// some time. That time may be ahead of now by a burst, so that a thread that begins, or blocks after a long
// time, is sampled at each of its next blocks.
void take_stack(Assembler& a, const StackGate& gate, const btf::Scheduler& task) {
  a.load64(BPF_REG_8, BPF_REG_9, in_slot(offsetof(Slot, time_ns)));
  a.load64(BPF_REG_1, BPF_REG_6, argument(1));
  a.load32(BPF_REG_7, BPF_REG_1, at(task.pid));
  const std::size_t idle = a.if_zero(BPF_REG_7);
  a.move(BPF_REG_1, BPF_REG_7);
  a.mask(BPF_REG_1, kSpentEntries - 1);
  a.store32(BPF_REG_10, -4, BPF_REG_1);
  look_up(a, gate.spent);
  const std::size_t none = a.if_zero(BPF_REG_0);
  a.map_value(BPF_REG_1, gate.gap);
  a.load64(BPF_REG_9, BPF_REG_1, 0);
  a.load64(BPF_REG_1, BPF_REG_0, 0);
  a.load64(BPF_REG_2, BPF_REG_0, 8);
  const std::size_t past = a.if_less(BPF_REG_1, BPF_REG_8);
  const std::size_t taken = a.unless_equal(BPF_REG_2, BPF_REG_7);  // by another thread of late
  a.move(BPF_REG_3, BPF_REG_9);
  a.shift_left(BPF_REG_3, kBurst);
  a.add_to(BPF_REG_3, BPF_REG_8);
  const std::size_t spent = a.if_less(BPF_REG_3, BPF_REG_1);
  const std::size_t ahead = a.always();
  a.land(past);
  a.move(BPF_REG_1, BPF_REG_8);
  a.store64(BPF_REG_0, 8, BPF_REG_7);
  a.land(ahead);
  a.add_to(BPF_REG_1, BPF_REG_9);
  a.store64(BPF_REG_0, 0, BPF_REG_1);
  a.load64(BPF_REG_1, BPF_REG_6, argument(1));
  a.load32(BPF_REG_2, BPF_REG_1, at(task.tgid));
  a.store32(BPF_REG_10, -4, BPF_REG_2);
  look_up(a, gate.strangers);
  const std::size_t stranger = a.unless_zero(BPF_REG_0);
  a.store64_value(BPF_REG_10, -16, 0);
  a.move(BPF_REG_1, BPF_REG_6);
  a.map(BPF_REG_2, gate.outputs);
  a.set64(BPF_REG_3, BPF_F_CURRENT_CPU);
  a.move(BPF_REG_4, BPF_REG_10);
  a.plus(BPF_REG_4, -16);
  a.set(BPF_REG_5, 8);
  a.helper(kPerfOutput);  // the event's own kind of sample: its registers and its stack
  for (const std::size_t one : {idle, none, taken, spent, stranger}) a.land(one);
}

}  // namespace

Typed typed(std::string_view tracepoint, std::string_view arguments) {
  if (tracepoint == "sched_switch" && arguments == "itti") return Typed::kSwitch;
  if (tracepoint == "sched_waking" && arguments == "t") return Typed::kWaking;
  if (tracepoint == "sched_migrate_task" && arguments == "ti") return Typed::kMove;
  for (const char* one : {"sock_send_length", "sock_recv_length"})
    if (tracepoint == one && arguments == "pii") return Typed::kTransfer;
  if (tracepoint == "sched_process_fork" && arguments == "tt") return Typed::kFork;
  if (tracepoint == "sk_data_ready" && arguments == "p") return Typed::kArrival;
  for (const char* one : {"page_fault_user", "page_fault_kernel"})
    if (tracepoint == one && arguments == "ipi") return Typed::kFault;
  const bool numbered = arguments.starts_with('i');
  for (const char* one : {"softirq_entry", "softirq_exit", "irq_handler_entry", "irq_handler_exit",
                          "local_timer_entry", "local_timer_exit"})
    if (tracepoint == one && numbered) return Typed::kInterrupt;
  return Typed::kNone;
}

std::vector<bpf_insn> scheduler_program(const SchedulerProgram& wanted, const btf::Scheduler& task) {
  const bool switches = wanted.what == Typed::kSwitch;
  const std::size_t bytes = switches && wanted.registers ? sizeof(SwitchSlot) : sizeof(Slot);
  Assembler a;
  reserve(a, wanted);
  for (const int one : {1, 2})
    if (switches && wanted.names >= 0) tell_name(a, wanted, task, one);
  stamp(a, wanted, bytes);
  if (wanted.what == Typed::kSwitch)
    write_switch(a, wanted, task);
  else
    write_other(a, wanted, task);
  submit(a, bytes);
  if (wanted.what == Typed::kSwitch && wanted.stacks.outputs >= 0) take_stack(a, wanted.stacks, task);
  a.leave();
  return a.code();
}

std::vector<bpf_insn> name_program(int names, bool renames, const btf::Scheduler& task) {
  Assembler a;
  a.load64(BPF_REG_1, BPF_REG_1, argument(renames ? 0 : 1));
  a.load32(BPF_REG_2, BPF_REG_1, at(task.pid));
  find_name(a, names, BPF_REG_2);
  const std::size_t none = a.if_zero(BPF_REG_0);
  a.set64(BPF_REG_1, 0);
  if (renames) {
    a.load32(BPF_REG_1, BPF_REG_10, -8);
    a.set64(BPF_REG_2, kTwice);
    a.both(BPF_REG_1, BPF_REG_2);
  }
  a.store32(BPF_REG_0, 0, BPF_REG_1);
  a.land(none);
  a.leave();
  return a.code();
}

}  // namespace latlab::system::bpf
