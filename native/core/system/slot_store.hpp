// Threads: one owner at a time.
//
// Slots as the BPF programs wrote them, in their order, with the CPU of each, in about a tenth of their
// bytes. Memory that was never touched costs the observed program's machine more than all else that is done
// with a slot: of 1.4 % of two CPUs at 17,000 requests a second 1.1 % were page faults, in a guest whose host
// gives each page at its first touch. So of each slot only what differs from the last one of its kind is
// kept: the same thread does the same with the same subject again and again, and its names, its state and its
// bytes are the same.
//
// An entry: the row of the table of last slots (a byte), the slot's size in words (a byte), which eights of
// its first words differ at all (a byte, a bit each, of which the first is always set); of each of these, in
// how many bytes each of the eight differs (half a byte each), and these bytes of the differences; words of
// what a call moved as they are. The time differs from that of the slot before. The reader keeps the same
// table.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "system/bpf_calls.hpp"
#include "system/bpf_scheduler.hpp"

namespace latlab::system {

class SlotStore {
 public:
  // Of the slot only so many bytes are told, the others are 0 when it comes out. False where there is no
  // memory, or the slot is longer than a program makes one.
  // `like` is what the last slot that it may be like has, too, beside the thread and the event.
  bool add(std::int32_t cpu, const bpf::Slot& slot, std::size_t told, std::uint64_t like);
  bool empty() const { return pieces_.empty(); }
  std::size_t bytes() const;  // that they take
  // Calls `take(cpu, slot)` for each, in the order in which they came; none is kept any longer.
  template <class Take>
  void drain(Take take);

 private:
  static constexpr std::size_t kMostBytes = sizeof(bpf::CallSlot) + bpf::kMostCaptured;
  static constexpr std::size_t kMostWords = kMostBytes / 8;
  static constexpr std::size_t kEight = 8;
  static constexpr std::size_t kCompared = 24;  // words: the slot, and 128 bytes of what a call moved
  static constexpr std::size_t kRows = 256;
  using Words = std::array<std::uint64_t, kMostWords>;
  // The last slots, by a hash of their event, thread and subject: one that takes another's row costs bytes.
  struct Table {
    std::array<std::array<std::uint64_t, kCompared>, kRows> rows{};
    std::uint64_t time_ns = 0;  // of the last one
  };
  struct Run {  // slots of one CPU that follow each other
    std::int32_t cpu;
    std::uint32_t bytes;
  };
  struct Free {
    void operator()(std::uint8_t* memory) const { std::free(memory); }
  };
  struct Piece {
    std::unique_ptr<std::uint8_t[], Free> memory;
    std::size_t used = 0;
    std::vector<Run> runs;
  };
  bool begin_piece();
  // The next slot from `at`, which moves behind it.
  static void read(const std::uint8_t*& at, Table& last, Words& slot);

  std::vector<Piece> pieces_;
  std::unique_ptr<Table> last_;
};

template <class Take>
void SlotStore::drain(Take take) {
  if (pieces_.empty()) return;
  *last_ = {};
  Words slot{};
  for (Piece& piece : pieces_) {
    const std::uint8_t* at = piece.memory.get();
    for (const Run& run : piece.runs)
      for (const std::uint8_t* end = at + run.bytes; at < end;) {
        read(at, *last_, slot);
        take(run.cpu, *reinterpret_cast<const bpf::Slot*>(slot.data()));
      }
    piece = {};  // a long observation's columns need the memory
  }
  pieces_.clear();
  last_.reset();
}

}  // namespace latlab::system
