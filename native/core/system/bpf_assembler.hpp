// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// No thread contract: plain functions on values.
//
// Instructions of BPF programs, one call each, and the kernel's helpers that they call. Which registers a
// call of a helper keeps (r6 to r9), and where it wants its arguments (r1 to r5), is the kernel's rule
// (Documentation/bpf/standardization/instruction-set.rst).
#pragma once

#include <linux/bpf.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "system/bpf_scheduler.hpp"

namespace latlab::system::bpf {

// The helpers' numbers, from the kernel's uapi (include/uapi/linux/bpf.h); older headers lack the last names.
enum : std::int32_t {
  kMapLookup = 1,
  kMapUpdate = 2,
  kKtime = 5,  // bpf_ktime_get_ns
  kCpu = 8,
  kPidTgid = 14,
  kPerfOutput = 25,  // bpf_perf_event_output
  kProbeReadUser = 112,
  kProbeReadKernel = 113,
  kRingReserve = 131,
  kRingSubmit = 132,
  kCurrentTask = 158,
  kTaskRegisters = 175,
};
inline constexpr std::int32_t kNoWakeup = 1;  // BPF_RB_NO_WAKEUP: the reader looks by itself
inline constexpr std::uint8_t kMapValue = 2;  // BPF_PSEUDO_MAP_VALUE

// The byte of a field of a ring's head, of one of the slot that is written, and of a tracepoint's argument.
constexpr std::int16_t at(std::size_t offset) {
  return static_cast<std::int16_t>(offset);
}
constexpr std::int16_t in_slot(std::size_t offset) {
  return static_cast<std::int16_t>(kRingData + offset);
}
constexpr std::int16_t argument(int index) {
  return static_cast<std::int16_t>(8 * index);
}

class Assembler {
 public:
  void move(std::uint8_t to, std::uint8_t from) { add(BPF_ALU64 | BPF_MOV | BPF_X, to, from, 0, 0); }
  // The lower half alone: also of a pointer, which the verifier lets no other arithmetic be done with.
  void move32(std::uint8_t to, std::uint8_t from) { add(BPF_ALU | BPF_MOV | BPF_X, to, from, 0, 0); }
  void set(std::uint8_t to, std::int32_t value) { add(BPF_ALU64 | BPF_MOV | BPF_K, to, 0, 0, value); }
  void plus(std::uint8_t to, std::int32_t value) { add(BPF_ALU64 | BPF_ADD | BPF_K, to, 0, 0, value); }
  void map(std::uint8_t to, int descriptor) {
    add(BPF_LD | BPF_DW | BPF_IMM, to, BPF_PSEUDO_MAP_FD, 0, descriptor);
    add(0, 0, 0, 0, 0);
  }
  // The address of the only value of an array.
  void map_value(std::uint8_t to, int descriptor) {
    add(BPF_LD | BPF_DW | BPF_IMM, to, kMapValue, 0, descriptor);
    add(0, 0, 0, 0, 0);
  }
  void set64(std::uint8_t to, std::uint64_t value) {
    add(BPF_LD | BPF_DW | BPF_IMM, to, 0, 0, static_cast<std::int32_t>(value & 0xFFFFFFFFU));
    add(0, 0, 0, 0, static_cast<std::int32_t>(value >> 32U));
  }
  void minus(std::uint8_t to, std::uint8_t what) { add(BPF_ALU64 | BPF_SUB | BPF_X, to, what, 0, 0); }
  void add_to(std::uint8_t to, std::uint8_t what) { add(BPF_ALU64 | BPF_ADD | BPF_X, to, what, 0, 0); }
  void multiply(std::uint8_t to, std::uint8_t by) { add(BPF_ALU64 | BPF_MUL | BPF_X, to, by, 0, 0); }
  void exclusive_or(std::uint8_t to, std::uint8_t with) { add(BPF_ALU64 | BPF_XOR | BPF_X, to, with, 0, 0); }
  void both(std::uint8_t to, std::uint8_t with) { add(BPF_ALU64 | BPF_OR | BPF_X, to, with, 0, 0); }
  void mask(std::uint8_t to, std::int32_t bits) { add(BPF_ALU64 | BPF_AND | BPF_K, to, 0, 0, bits); }
  void load32(std::uint8_t to, std::uint8_t base, std::int16_t offset) {
    add(BPF_LDX | BPF_MEM | BPF_W, to, base, offset, 0);
  }
  void load16(std::uint8_t to, std::uint8_t base, std::int16_t offset) {
    add(BPF_LDX | BPF_MEM | BPF_H, to, base, offset, 0);
  }
  void helper(std::int32_t number) { add(BPF_JMP | BPF_CALL, 0, 0, 0, number); }
  void store64(std::uint8_t base, std::int16_t offset, std::uint8_t from) {
    add(BPF_STX | BPF_MEM | BPF_DW, base, from, offset, 0);
  }
  void store32(std::uint8_t base, std::int16_t offset, std::uint8_t from) {
    add(BPF_STX | BPF_MEM | BPF_W, base, from, offset, 0);
  }
  void store16(std::uint8_t base, std::int16_t offset, std::uint8_t from) {
    add(BPF_STX | BPF_MEM | BPF_H, base, from, offset, 0);
  }
  void load64(std::uint8_t to, std::uint8_t base, std::int16_t offset) {
    add(BPF_LDX | BPF_MEM | BPF_DW, to, base, offset, 0);
  }
  void shift_left(std::uint8_t to, std::int32_t bits) { add(BPF_ALU64 | BPF_LSH | BPF_K, to, 0, 0, bits); }
  // With the sign.
  void shift_down(std::uint8_t to, std::int32_t bits) { add(BPF_ALU64 | BPF_ARSH | BPF_K, to, 0, 0, bits); }
  void shift_right(std::uint8_t to, std::int32_t bits) { add(BPF_ALU64 | BPF_RSH | BPF_K, to, 0, 0, bits); }
  void store32_value(std::uint8_t base, std::int16_t offset, std::int32_t value) {
    add(BPF_ST | BPF_MEM | BPF_W, base, 0, offset, value);
  }
  void store64_value(std::uint8_t base, std::int16_t offset, std::int32_t value) {
    add(BPF_ST | BPF_MEM | BPF_DW, base, 0, offset, value);
  }
  // Stores it, behind all that was stored before, for who reads it on another CPU; `from` is lost.
  void publish64(std::uint8_t base, std::int16_t offset, std::uint8_t from) {
#if defined(__x86_64__)
    store64(base, offset, from);  // its CPUs store in order
#else
    exchange64(base, from, offset);  // a full barrier
#endif
  }
  void add_atomic64(std::uint8_t base, std::uint8_t from, std::int16_t offset = 0) {
    add(BPF_STX | 0xC0 | BPF_DW, base, from, offset, BPF_ADD);  // 0xC0: BPF_ATOMIC
  }
  // `with` becomes what was there.
  void exchange64(std::uint8_t base, std::uint8_t with, std::int16_t offset) {
    add(BPF_STX | 0xC0 | BPF_DW, base, with, offset, 0xE1);  // BPF_XCHG
  }
  // Jumps over what is written until `land`.
  std::size_t unless_zero(std::uint8_t what) { return jump(BPF_JMP | BPF_JNE | BPF_K, what); }
  std::size_t if_zero(std::uint8_t what) { return jump(BPF_JMP | BPF_JEQ | BPF_K, what); }
  std::size_t if_is(std::uint8_t what, std::int32_t value) {
    return jump(BPF_JMP | BPF_JEQ | BPF_K, what, value);
  }
  std::size_t if_at_most(std::uint8_t what, std::int32_t value) {
    return jump(BPF_JMP | BPF_JLE | BPF_K, what, value);
  }
  std::size_t if_above(std::uint8_t what, std::int32_t value) {
    return jump(BPF_JMP | BPF_JGT | BPF_K, what, value);
  }
  std::size_t if_less(std::uint8_t what, std::uint8_t other) {
    add(BPF_JMP | BPF_JLT | BPF_X, what, other, 0, 0);
    return code_.size() - 1;
  }
  std::size_t if_equal(std::uint8_t what, std::uint8_t other) {
    add(BPF_JMP | BPF_JEQ | BPF_X, what, other, 0, 0);
    return code_.size() - 1;
  }
  std::size_t unless_equal(std::uint8_t what, std::uint8_t other) {
    add(BPF_JMP | BPF_JNE | BPF_X, what, other, 0, 0);
    return code_.size() - 1;
  }
  std::size_t unless_is(std::uint8_t what, std::int32_t value) {
    return jump(BPF_JMP | BPF_JNE | BPF_K, what, value);
  }
  std::size_t always() { return jump(BPF_JMP | BPF_JA, 0); }
  void land(std::size_t at) { code_[at].off = static_cast<std::int16_t>(code_.size() - at - 1); }
  // With 1: a 0 would keep the event from everybody else who traces it by perf.
  void leave() {
    set(BPF_REG_0, 1);
    add(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
  }
  const std::vector<bpf_insn>& code() const { return code_; }

 private:
  void add(unsigned code, std::uint8_t to, std::uint8_t from, std::int16_t offset, std::int32_t value) {
    bpf_insn one{};
    one.code = static_cast<std::uint8_t>(code);
    one.dst_reg = to & 0xFU;
    one.src_reg = from & 0xFU;
    one.off = offset;
    one.imm = value;
    code_.push_back(one);
  }
  std::size_t jump(unsigned code, std::uint8_t what, std::int32_t value = 0) {
    add(code, what, 0, 0, value);
    return code_.size() - 1;
  }
  std::vector<bpf_insn> code_;
};

// r0 becomes the address of the value in a map of the key that stands at -4 of the stack, or 0.
inline void look_up(Assembler& a, int map) {
  a.map(BPF_REG_1, map);
  a.move(BPF_REG_2, BPF_REG_10);
  a.plus(BPF_REG_2, -4);
  a.helper(kMapLookup);
}

// Counts an event that found no room.
inline void count_lost(Assembler& a, int counters, std::uint32_t event) {
  a.store32_value(BPF_REG_10, -4, static_cast<std::int32_t>(event));
  look_up(a, counters);
  const std::size_t none = a.if_zero(BPF_REG_0);
  a.set(BPF_REG_1, 1);
  a.add_atomic64(BPF_REG_0, BPF_REG_1);
  a.land(none);
}

inline constexpr std::int16_t kPairAt = -32;  // on the stack: two words that `follow` reads

// r8 becomes the word at the user's address r8 + offset; the stack holds it and the word behind it.
inline void follow(Assembler& a, std::int32_t offset) {
  a.move(BPF_REG_1, BPF_REG_10);
  a.plus(BPF_REG_1, kPairAt);
  a.set(BPF_REG_2, 16);
  a.move(BPF_REG_3, BPF_REG_8);
  a.plus(BPF_REG_3, offset);
  a.helper(kProbeReadUser);
  a.load64(BPF_REG_8, BPF_REG_10, kPairAt);
}

// The numbers of the system calls that move bytes of several buffers.
#if defined(__x86_64__)
inline constexpr std::int32_t kVectorCalls[] = {19, 20};   // readv, writev
inline constexpr std::int32_t kMessageCalls[] = {46, 47};  // sendmsg, recvmsg
#elif defined(__aarch64__)
inline constexpr std::int32_t kVectorCalls[] = {65, 66};
inline constexpr std::int32_t kMessageCalls[] = {211, 212};
#else
inline constexpr std::int32_t kVectorCalls[] = {-1, -1};
inline constexpr std::int32_t kMessageCalls[] = {-1, -1};
#endif
inline constexpr std::int32_t kVectorOfMessage = 16;  // struct msghdr: its buffers

// Of the system call whose number is in r1 and whose second argument in r8: r8 becomes where its first buffer
// is, and `moved`, how many bytes the call moved, not more than fit into that and than `most`. The verifier
// wants the pair that `follow` reads to be written before, on every way.
inline void first_buffer(Assembler& a, std::uint8_t moved, std::uint32_t most) {
  const std::size_t message[] = {a.if_is(BPF_REG_1, kMessageCalls[0]), a.if_is(BPF_REG_1, kMessageCalls[1])};
  const std::size_t vector[] = {a.if_is(BPF_REG_1, kVectorCalls[0]), a.if_is(BPF_REG_1, kVectorCalls[1])};
  const std::size_t plain = a.always();
  for (const std::size_t one : message) a.land(one);
  follow(a, kVectorOfMessage);
  for (const std::size_t one : vector) a.land(one);
  follow(a, 0);
  a.load64(BPF_REG_1, BPF_REG_10, kPairAt + 8);  // the first buffer's size
  const std::size_t fits = a.if_less(moved, BPF_REG_1);
  a.move(moved, BPF_REG_1);
  a.land(fits);
  a.land(plain);
  const std::size_t few = a.if_at_most(moved, static_cast<std::int32_t>(most));
  a.set(moved, static_cast<std::int32_t>(most));
  a.land(few);
}

// Of the ring in r7: its head, its base, which is moved to the head where all was read, and how many bytes
// were not. r2 is lost.
inline void look_at_ring(Assembler& a, std::uint8_t head, std::uint8_t base, std::uint8_t unread) {
  constexpr auto kHead = static_cast<std::int16_t>(offsetof(RingHead, head));
  constexpr auto kBase = static_cast<std::int16_t>(offsetof(RingHead, base));
  a.load64(head, BPF_REG_7, kHead);
  a.load64(BPF_REG_2, BPF_REG_7, static_cast<std::int16_t>(offsetof(RingHead, tail)));
  a.load64(base, BPF_REG_7, kBase);
  const std::size_t some = a.unless_equal(head, BPF_REG_2);
  a.move(base, head);
  a.store64(BPF_REG_7, kBase, base);
  a.land(some);
  a.move(unread, head);
  a.minus(unread, BPF_REG_2);
}

// r9 becomes where the ring in r7 is written behind its head, less kRingData; `head` is lost.
inline void place_in_ring(Assembler& a, std::uint8_t head, std::uint8_t base, std::uint32_t ring_bytes) {
  a.minus(head, base);
  a.mask(head, static_cast<std::int32_t>(ring_bytes - kWord));
  a.move(BPF_REG_9, BPF_REG_7);
  a.add_to(BPF_REG_9, head);
}

// Of a CPU's contexts: the word, how long it has served interrupts, and since when each of three.
inline constexpr std::int16_t kServedAt = 8;
inline constexpr std::int16_t kSinceAt = 16;
inline constexpr std::uint32_t kContextBytes = 40;

// r0 becomes the address of this CPU's word of contexts, or 0.
inline void find_context(Assembler& a, int contexts) {
  a.store32_value(BPF_REG_10, -4, 0);
  look_up(a, contexts);
}

}  // namespace latlab::system::bpf
