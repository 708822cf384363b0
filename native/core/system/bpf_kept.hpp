// Threads: one at a time; BpfTrace's lock serialises the drain thread against who takes.
//
// What was drained of the rings of BPF programs, until it is taken, and, for who looks meanwhile, which
// descriptors, children and keys it names. What came by rings of CPUs is kept as it came, and becomes columns
// when it is taken: while a program is observed, it wants the CPU itself.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "system/bpf_calls.hpp"
#include "system/bpf_trace.hpp"
#include "system/slot_store.hpp"
#include "system/thread_names.hpp"

namespace latlab::system {

class BpfKept {
 public:
  BpfKept() = default;
  BpfKept(std::vector<BpfEvent> events, std::size_t most_bytes,
          const std::vector<std::int32_t>& watched_calls);

  bool with_registers = true;

  // Of a program on perf's tracepoint: a RecordHead, and what follows it.
  void keep(const std::uint8_t* record, std::size_t bytes);
  // Of one on the kernel's own tracepoint, which is this for that event; of a name, that of no event.
  void keep(std::int32_t cpu, const bpf::Slot& slot, bpf::Typed what);

  // What was kept so far, of each event, and nothing of it is kept any longer.
  struct Taken {
    std::vector<BpfSamples> columns;  // of those that came by perf's tracepoints
    SlotStore slots;
    std::vector<std::uint64_t> counts;  // of the slots, by event
    ThreadNames names;
  };
  Taken take();
  // Its columns; needs no lock. `kinds`: of each event.
  std::vector<BpfSamples> columns_of(Taken taken, const std::vector<bpf::Typed>& kinds) const;
  // How many of each event are kept.
  std::vector<std::uint64_t> waiting() const;
  BpfNotes notes();
  std::vector<BpfCounts> counts();
  std::uint64_t dropped() const { return dropped_; }

 private:
  bool has_room(std::size_t bytes);
  void note(const BpfEvent& event, const BpfSamples& samples);
  void note(const BpfEvent& event, const bpf::Slot& slot, bpf::Typed what);
  void count(const BpfEvent& event, std::uint64_t key);
  void note_descriptor(std::int32_t pid, std::int64_t descriptor);
  bool is_watched(std::int64_t call) const;
  void clear();

  std::vector<BpfEvent> events_;
  std::vector<BpfSamples> kept_;
  SlotStore slots_;
  std::vector<std::uint64_t> slot_counts_;
  ThreadNames names_;  // of all that was seen, also before it was taken
  std::size_t most_bytes_ = 0, kept_bytes_ = 0;
  std::uint64_t dropped_ = 0;
  std::vector<bool> watched_;  // by the call's number
  BpfNotes notes_;
  std::unordered_set<std::uint64_t> noted_;
  std::vector<std::unordered_map<std::uint64_t, std::uint32_t>> counts_;  // by event
  // In front of both, by the keys' hashes: calls go through few descriptors and sockets.
  static constexpr std::size_t kRecent = 256;
  std::array<std::uint64_t, kRecent> recent_{};
  struct Count {
    std::uint64_t key = 0;
    std::uint32_t event = 0, count = 0;
  };
  std::array<Count, kRecent> counting_{};
};

}  // namespace latlab::system
