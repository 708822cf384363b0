// Threads: one at a time; BpfTrace's lock serialises the drain thread against who takes.
//
// What was drained of the rings of BPF programs: rows, until they are taken, and, for who looks meanwhile,
// which descriptors, children and keys they name, so that nobody has to make columns of them many times a
// second.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "system/bpf_calls.hpp"
#include "system/bpf_trace.hpp"

namespace latlab::system {

class BpfKept {
 public:
  BpfKept() = default;
  BpfKept(std::vector<BpfEvent> events, std::size_t most_bytes,
          const std::vector<std::int32_t>& watched_calls);

  bool with_registers = true;

  // Of a program on perf's tracepoint: a RecordHead, and what follows it.
  void keep(const std::uint8_t* record, std::size_t bytes);
  // Of one on the kernel's own tracepoint, which is this for that event.
  void keep(std::int32_t cpu, const bpf::Slot& slot, bpf::Typed what);
  std::vector<BpfSamples> take();
  BpfNotes notes();
  std::vector<BpfCounts> counts();
  std::uint64_t dropped() const { return dropped_; }

 private:
  bool has_room(std::size_t bytes);
  void note(const BpfEvent& event, const BpfSamples& samples);
  void note_descriptor(std::int32_t pid, std::int64_t descriptor, std::uint64_t time_ns);
  bool is_watched(std::int64_t call) const;
  void clear();

  std::vector<BpfEvent> events_;
  std::vector<BpfSamples> kept_;
  std::size_t most_bytes_ = 0, kept_bytes_ = 0;
  std::uint64_t dropped_ = 0;
  std::vector<bool> watched_;  // by the call's number
  BpfNotes notes_;
  std::unordered_set<std::uint64_t> noted_;
  std::uint64_t noted_since_ns_ = 0, last_noted_ = 0;
  std::vector<std::unordered_map<std::uint64_t, std::uint32_t>> counts_;  // by event
};

}  // namespace latlab::system
