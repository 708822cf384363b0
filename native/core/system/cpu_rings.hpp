// Threads: one owner. Programs in the kernel write what it reads, see bpf_scheduler.hpp: RingHead.
//
// The reading side of the rings that the BPF programs on the kernel's own tracepoints write, one a CPU or
// more.
#pragma once

#include <cstddef>
#include <cstdint>

#include "not_copied.hpp"
#include "system/bpf_calls.hpp"
#include "system/bpf_scheduler.hpp"
#include "system/bpf_trace.hpp"
#include "system/thread_names.hpp"

namespace latlab::system {

class CpuRings : NotCopied {
 public:
  ~CpuRings();

  // About so many bytes for all of them together, so many rings each CPU; the second time does nothing.
  // Throws std::system_error.
  void open(std::size_t all_bytes, std::uint32_t each_cpu = 1);
  int map() const { return map_; }
  std::uint32_t cpus() const { return cpus_; }
  std::uint32_t bytes() const { return bytes_; }  // of one CPU's data

  // Calls `take(cpu, slot)` for what came since the last time, one ring after another.
  template <class Take>
  void drain(Take take);
  std::uint64_t lost() const;

 private:
  std::uint8_t* of(std::uint32_t ring) const { return mapped_ + ring * (bytes_ + bpf::kRingMore); }

  int map_ = -1;
  std::uint32_t cpus_ = 0, rings_ = 0;
  std::uint32_t bytes_ = 0;
  std::uint8_t* mapped_ = nullptr;
  std::uint64_t unread_ = 0;
};

template <class Take>
void CpuRings::drain(Take take) {
  for (std::uint32_t one = 0; one < rings_; ++one) {
    std::uint8_t* ring = of(one);
    auto* shared = reinterpret_cast<bpf::RingHead*>(ring);
    std::uint64_t at = shared->tail;
    // Acquire: what lies before the head was written before it, and the base too.
    const std::uint64_t end = __atomic_load_n(&shared->head, __ATOMIC_ACQUIRE);
    const std::uint64_t base = __atomic_load_n(&shared->base, __ATOMIC_RELAXED);
    while (at < end) {
      const auto* slot =
          reinterpret_cast<const bpf::Slot*>(ring + bpf::kRingData + ((at - base) & (bytes_ - 1)));
      if (slot->bytes < sizeof(bpf::Slot) || slot->bytes > bpf::kRingMore - bpf::kRingData ||
          slot->bytes % bpf::kWord != 0 || slot->bytes > end - at) {
        unread_ += (end - at) / sizeof(bpf::Slot);  // spoiled by who else has the memory: never wait for it
        at = end;
        break;
      }
      take(static_cast<std::int32_t>(one % cpus_), *slot);
      at += slot->bytes;
    }
    // Release: we have read it before a program may write there again.
    __atomic_store_n(&shared->tail, at, __ATOMIC_RELEASE);
  }
}

// Whether the event wants nothing else than such a tracepoint gives, and has places for that: a switch
// prev_comm, prev_pid, prev_prio, prev_state, next_comm, next_pid, next_prio; a wake-up comm, pid, prio,
// target_cpu; a move comm, pid, prio, orig_cpu, dest_cpu; a call on a socket sk, family, protocol, ret,
// flags; an arrival skaddr, family, protocol; a fault address, ip, error_code; a fork parent_comm,
// parent_pid, child_comm, child_pid. A place of 0: the record has
// this one elsewhere, and it is left out.
bool fits(bpf::Typed what, const BpfEvent& event);
inline constexpr std::size_t kSwitchPlaces = 7;
// Adds the slot as the row that perf's tracepoint would have given.
void append(bpf::Typed what, const bpf::Slot& slot, std::int32_t cpu, const BpfEvent& event,
            const ThreadNames& names, BpfSamples& to);
// The same of what goes in or out, arrives or is missing.
void append(bpf::Typed what, const bpf::CallSlot& slot, std::int32_t cpu, const BpfEvent& event,
            BpfSamples& to);

}  // namespace latlab::system
