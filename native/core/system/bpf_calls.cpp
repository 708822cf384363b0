// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
#include "system/bpf_calls.hpp"

#include <cstddef>

#include "system/bpf_assembler.hpp"
#include "system/bpf_program.hpp"

namespace latlab::system::bpf {
namespace {

// Of struct pt_regs, which is part of the kernel's interface, the byte of each register.
#if defined(__x86_64__)
constexpr std::int16_t kNumberOf = 120, kFirstOf = 112, kSecondOf = 104, kFourthOf = 56;  // orig_ax di si r10
constexpr std::int16_t kInstructionOf = 128;                                              // ip
#elif defined(__aarch64__)
constexpr std::int16_t kNumberOf = 280, kFirstOf = 272, kSecondOf = 8, kFourthOf = 24;  // syscallno orig_x0 …
constexpr std::int16_t kInstructionOf = 256;                                            // pc
#else
constexpr std::int16_t kNumberOf = 0, kFirstOf = 0, kSecondOf = 0, kFourthOf = 0, kInstructionOf = 0;
#endif

// Leaves, unless the socket's hash is low enough.
void leave_unsampled(Assembler& a, int sampling) {
  a.load64(BPF_REG_1, BPF_REG_6, argument(0));
  a.move32(BPF_REG_1, BPF_REG_1);
  leave_unless_low(a, sampling);
}

// r8 becomes process << 32 | thread. Leaves, unless the process is wanted.
void leave_stranger(Assembler& a, const Processes& processes) {
  a.helper(kPidTgid);
  a.move(BPF_REG_8, BPF_REG_0);
  if (processes.all < 0) return;
  a.shift_right(BPF_REG_0, 32);
  a.move(BPF_REG_9, BPF_REG_0);
  a.mask(BPF_REG_0, kFewProcesses - 1);
  a.store32(BPF_REG_10, -4, BPF_REG_0);
  look_up(a, processes.few);
  const std::size_t none = a.if_zero(BPF_REG_0);
  a.load32(BPF_REG_1, BPF_REG_0, 0);
  const std::size_t stranger = a.if_zero(BPF_REG_1);
  const std::size_t known = a.if_equal(BPF_REG_1, BPF_REG_9);
  a.store32(BPF_REG_10, -4, BPF_REG_9);
  look_up(a, processes.all);
  const std::size_t found = a.unless_zero(BPF_REG_0);
  a.land(none);
  a.land(stranger);
  a.leave();
  a.land(known);
  a.land(found);
}

// r7 becomes a ring of this CPU that is ours from now on; leaves where none is free.
void take_ring(Assembler& a, const CallProgram& wanted) {
  a.helper(kCpu);
  a.move(BPF_REG_9, BPF_REG_0);
  std::vector<std::size_t> ours;
  for (std::uint32_t level = 0; level < kCallRings; ++level) {
    a.store32(BPF_REG_10, -4, BPF_REG_9);
    look_up(a, wanted.rings);
    const std::size_t none = a.if_zero(BPF_REG_0);
    a.move(BPF_REG_7, BPF_REG_0);
    a.set(BPF_REG_1, 1);
    a.exchange64(BPF_REG_7, BPF_REG_1, at(offsetof(RingHead, busy)));
    ours.push_back(a.if_zero(BPF_REG_1));
    a.land(none);
    a.plus(BPF_REG_9, static_cast<std::int32_t>(wanted.cpus));
  }
  count_lost(a, wanted.counters, wanted.event);
  a.leave();
  for (const std::size_t one : ours) a.land(one);
}

void give_back(Assembler& a) {
  a.store64_value(BPF_REG_7, at(offsetof(RingHead, busy)), 0);
}

// r9 becomes where the record is written in r7, less kRingData; leaves where there is no room.
void find_room(Assembler& a, const CallProgram& wanted) {
  look_at_ring(a, BPF_REG_1, BPF_REG_3, BPF_REG_4);
  const std::uint32_t most = sizeof(CallSlot) + (wanted.payload_bytes + kWord - 1) / kWord * kWord;
  const std::size_t room = a.if_at_most(BPF_REG_4, static_cast<std::int32_t>(wanted.ring_bytes - most));
  a.set(BPF_REG_1, 1);
  a.add_atomic64(BPF_REG_7, BPF_REG_1, at(offsetof(RingHead, lost)));
  give_back(a);
  a.leave();
  a.land(room);
  place_in_ring(a, BPF_REG_1, BPF_REG_3, wanted.ring_bytes);
}

void store_word(Assembler& a, std::size_t to, std::uint8_t from) {
  a.store64(BPF_REG_9, in_slot(to), from);
}

// Of the socket that is passed.
void write_socket(Assembler& a, const btf::Scheduler& types) {
  a.load64(BPF_REG_1, BPF_REG_6, argument(0));
  store_word(a, offsetof(CallSlot, subject), BPF_REG_1);
  a.load16(BPF_REG_2, BPF_REG_1, static_cast<std::int16_t>(types.family));
  a.store16(BPF_REG_9, in_slot(offsetof(CallSlot, family)), BPF_REG_2);
  a.load16(BPF_REG_2, BPF_REG_1, static_cast<std::int16_t>(types.protocol));
  a.store16(BPF_REG_9, in_slot(offsetof(CallSlot, protocol)), BPF_REG_2);
}

// The number and the arguments of the call that the current thread is in: r8 becomes the second one, r1 the
// number.
void write_call(Assembler& a) {
  a.helper(kCurrentTask);
  a.move(BPF_REG_1, BPF_REG_0);
  a.helper(kTaskRegisters);
  a.load64(BPF_REG_1, BPF_REG_0, kFirstOf);
  store_word(a, offsetof(CallSlot, first), BPF_REG_1);
  a.load64(BPF_REG_1, BPF_REG_0, kFourthOf);
  store_word(a, offsetof(CallSlot, fourth), BPF_REG_1);
  a.load64(BPF_REG_8, BPF_REG_0, kSecondOf);
#if defined(__aarch64__)
  a.load32(BPF_REG_1, BPF_REG_0, kNumberOf);
#else
  a.load64(BPF_REG_1, BPF_REG_0, kNumberOf);
#endif
  a.store32(BPF_REG_9, in_slot(offsetof(CallSlot, call)), BPF_REG_1);
}

// Copies the beginning of the buffer at r8 behind the slot; r6 is what the call's result was, and becomes how
// many bytes these are: not more than the call moved, than fit into the buffer, and than are asked for.
void write_payload(Assembler& a, std::uint32_t bytes) {
  const std::size_t failed = a.if_above(BPF_REG_6, INT32_MAX);
  const std::size_t nothing = a.if_zero(BPF_REG_6);
  // The verifier wants the stack that is read to be written on every way.
  a.store64_value(BPF_REG_10, kPairAt, 0);
  a.store64_value(BPF_REG_10, kPairAt + 8, 0);
  first_buffer(a, BPF_REG_6, bytes);
  a.move(BPF_REG_1, BPF_REG_9);
  a.plus(BPF_REG_1, in_slot(sizeof(CallSlot)));
  a.move(BPF_REG_2, BPF_REG_6);
  a.move(BPF_REG_3, BPF_REG_8);
  a.helper(kProbeReadUser);
  const std::size_t read = a.if_zero(BPF_REG_0);
  a.land(failed);
  a.land(nothing);
  a.set(BPF_REG_6, 0);
  a.land(read);
}

// The slot is so many bytes long, and r6 lie behind it.
void submit_call(Assembler& a, std::uint32_t event, std::size_t bytes = sizeof(CallSlot)) {
  if (bytes == sizeof(CallSlot)) a.store32(BPF_REG_9, in_slot(offsetof(CallSlot, captured)), BPF_REG_6);
  a.plus(BPF_REG_6, static_cast<std::int32_t>(bytes + kWord - 1));
  a.mask(BPF_REG_6, -static_cast<std::int32_t>(kWord));
  a.store16(BPF_REG_9, in_slot(offsetof(CallSlot, bytes)), BPF_REG_6);
  a.set(BPF_REG_1, static_cast<std::int32_t>(event));
  a.store16(BPF_REG_9, in_slot(offsetof(CallSlot, event)), BPF_REG_1);
  a.load64(BPF_REG_1, BPF_REG_7, at(offsetof(RingHead, head)));
  a.add_to(BPF_REG_6, BPF_REG_1);
  a.publish64(BPF_REG_7, at(offsetof(RingHead, head)), BPF_REG_6);
  give_back(a);
  a.leave();
}

}  // namespace

std::vector<bpf_insn> call_program(const CallProgram& wanted, const btf::Scheduler& types) {
  Assembler a;
  a.move(BPF_REG_6, BPF_REG_1);
  if (wanted.what == Typed::kFork && wanted.processes.all >= 0) {
    a.load64(BPF_REG_1, BPF_REG_6, argument(1));
    a.load32(BPF_REG_9, BPF_REG_1, static_cast<std::int16_t>(types.pid));
    adopt(a, wanted.processes);
  }
  if (wanted.sampling >= 0) leave_unsampled(a, wanted.sampling);
  leave_stranger(a, wanted.what == Typed::kFork ? Processes{} : wanted.processes);
  take_ring(a, wanted);
  find_room(a, wanted);
  a.helper(kKtime);
  store_word(a, offsetof(CallSlot, time_ns), BPF_REG_0);
  store_word(a, offsetof(CallSlot, pid_tgid), BPF_REG_8);
  if (wanted.what == Typed::kFork) {
    a.load64(BPF_REG_1, BPF_REG_6, argument(1));
    a.load32(BPF_REG_2, BPF_REG_1, static_cast<std::int16_t>(types.pid));
    store_word(a, offsetof(CallSlot, subject), BPF_REG_2);
    a.load64(BPF_REG_1, BPF_REG_6, argument(0));
    for (const std::size_t part : {offsetof(CallSlot, first), offsetof(CallSlot, fourth)}) {
      a.load64(BPF_REG_2, BPF_REG_1,
               static_cast<std::int16_t>(types.comm + part - offsetof(CallSlot, first)));
      store_word(a, part, BPF_REG_2);
    }
  } else if (wanted.what == Typed::kFault) {
    a.load64(BPF_REG_1, BPF_REG_6, argument(0));
    store_word(a, offsetof(CallSlot, subject), BPF_REG_1);
    a.load64(BPF_REG_1, BPF_REG_6, argument(1));
    a.load64(BPF_REG_1, BPF_REG_1, kInstructionOf);
    store_word(a, offsetof(CallSlot, first), BPF_REG_1);
    a.load64(BPF_REG_1, BPF_REG_6, argument(2));
    store_word(a, offsetof(CallSlot, fourth), BPF_REG_1);
  } else {
    write_socket(a, types);
  }
  if (wanted.what != Typed::kTransfer) {
    if (wanted.what == Typed::kArrival) {  // what one doesn't tell: what stood there is no part of it
      a.store32_value(BPF_REG_9, in_slot(offsetof(CallSlot, result)), 0);
      a.store32_value(BPF_REG_9, in_slot(offsetof(CallSlot, flags)), 0);
    }
    a.set(BPF_REG_6, 0);
    submit_call(a, wanted.event, wanted.what == Typed::kArrival ? kArrivalBytes : sizeof(CallSlot));
    return a.code();
  }
  a.load64(BPF_REG_1, BPF_REG_6, argument(2));
  a.store32(BPF_REG_9, in_slot(offsetof(CallSlot, flags)), BPF_REG_1);
  a.load64(BPF_REG_6, BPF_REG_6, argument(1));
  a.move32(BPF_REG_6, BPF_REG_6);
  a.store32(BPF_REG_9, in_slot(offsetof(CallSlot, result)), BPF_REG_6);
  write_call(a);
  if (wanted.payload_bytes > 0)
    write_payload(a, wanted.payload_bytes);
  else
    a.set(BPF_REG_6, 0);
  submit_call(a, wanted.event);
  return a.code();
}

}  // namespace latlab::system::bpf
