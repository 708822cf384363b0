// Threads: one owner at a time.
//
// Slots as the BPF programs wrote them, one behind another in large pieces of memory, with the CPU of each.
// A piece's pages are the usual ones: large ones cost from a fifth of the time to one and a half times as
// much, as they are at hand or not, and the observed program waits for all of it at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "system/bpf_scheduler.hpp"

namespace latlab::system {

class SlotStore {
 public:
  // False where there is no memory.
  bool add(std::int32_t cpu, const bpf::Slot& slot);
  bool empty() const { return pieces_.empty(); }
  // Calls `take(cpu, slot)` for each, in the order in which they came; none is kept any longer.
  template <class Take>
  void drain(Take take);

 private:
  struct Run {  // slots of one CPU that follow each other
    std::int32_t cpu;
    std::uint32_t bytes;
  };
  struct Piece {
    std::unique_ptr<std::uint8_t[]> memory;
    std::size_t used = 0;
    std::vector<Run> runs;
  };
  bool begin_piece();

  std::vector<Piece> pieces_;
};

template <class Take>
void SlotStore::drain(Take take) {
  for (Piece& piece : pieces_) {
    const std::uint8_t* at = piece.memory.get();
    for (const Run& run : piece.runs)
      for (const std::uint8_t* end = at + run.bytes; at < end;) {
        const auto& slot = *reinterpret_cast<const bpf::Slot*>(at);
        take(run.cpu, slot);
        at += slot.bytes;
      }
    piece = {};  // a long observation's columns need the memory
  }
  pieces_.clear();
}

}  // namespace latlab::system
