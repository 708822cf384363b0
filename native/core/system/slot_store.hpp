// Threads: one owner at a time.
//
// Slots as the BPF programs wrote them, one behind another in large pieces of memory, with the CPU of each.
// A piece is of the kernel's large pages where it has some: small ones would cost a fault each few dozen
// slots, while the observed program wants the CPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
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
  struct Freed {
    void operator()(std::uint8_t* memory) const { std::free(memory); }
  };
  struct Run {  // slots of one CPU that follow each other
    std::int32_t cpu;
    std::uint32_t bytes;
  };
  struct Piece {
    std::unique_ptr<std::uint8_t, Freed> memory;
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
