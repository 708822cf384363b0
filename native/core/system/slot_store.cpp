#include "system/slot_store.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "system/bpf_program.hpp"

namespace latlab::system {
namespace {

constexpr std::size_t kPieceBytes = 2U << 20U;  // a huge page
constexpr std::size_t kHead = 3;                // row, words, and which eights differ
constexpr std::size_t kWordBytes = bpf::kWord;

// Small differences of either sign become small numbers.
std::uint64_t folded(std::uint64_t difference) {
  return (difference << 1U) ^ (0 - (difference >> 63U));
}
std::uint64_t unfolded(std::uint64_t number) {
  return (number >> 1U) ^ (0 - (number & 1U));
}

// By the event, the thread, and who or what else the slot is of.
std::uint8_t row_of(const std::uint64_t* slot, std::uint64_t like) {
  constexpr std::uint64_t kOther = 0xC2B2AE3D27D4EB4F;  // any odd number (xxHash's second prime)
  const std::uint64_t key = slot[1] * bpf::kSpread + (slot[3] & 0xFFFFU) * kOther + like;
  return static_cast<std::uint8_t>((key * bpf::kSpread) >> 56U);
}

}  // namespace

bool SlotStore::begin_piece() {
  Piece piece;
  piece.memory.reset(static_cast<std::uint8_t*>(std::aligned_alloc(kPieceBytes, kPieceBytes)));
  if (last_ == nullptr) last_.reset(new (std::nothrow) Table());
  if (piece.memory == nullptr || last_ == nullptr) return false;
  // One page fault instead of 512, where the kernel has such pages (a quarter of the reader's time at 20,000
  // requests a second); where it hasn't, nothing is lost.
  static_cast<void>(madvise(piece.memory.get(), kPieceBytes, MADV_HUGEPAGE));
  pieces_.push_back(std::move(piece));
  return true;
}

bool SlotStore::add(std::int32_t cpu, const bpf::Slot& slot, std::size_t told, std::uint64_t like) {
  // The last number may be stored as a whole word, whatever it takes.
  constexpr std::size_t kMostTaken = kHead + kCompared / 2 + kWordBytes * (kMostWords + kEight + 1);
  if (slot.bytes < sizeof(slot) || slot.bytes > kMostBytes || slot.bytes % kWordBytes != 0 ||
      told > slot.bytes)
    return false;
  if ((pieces_.empty() || kPieceBytes - pieces_.back().used < kMostTaken) && !begin_piece()) return false;
  Piece& piece = pieces_.back();
  std::uint8_t* const begin = piece.memory.get() + piece.used;

  const std::size_t words = slot.bytes / kWordBytes;
  std::uint64_t now[kMostWords + kEight];
  // A call of memcpy for as many bytes as there are takes longer than all else here: most slots have one of
  // two sizes.
  if (words == sizeof(bpf::Slot) / kWordBytes)
    std::memcpy(now, &slot, sizeof(bpf::Slot));
  else if (words == sizeof(bpf::SwitchSlot) / kWordBytes)
    std::memcpy(now, &slot, sizeof(bpf::SwitchSlot));
  else
    std::memcpy(now, &slot, slot.bytes);
  if (told < slot.bytes) {
    if (told % kWordBytes != 0) now[told / kWordBytes] &= (1ULL << (told % kWordBytes * 8)) - 1;
    for (std::size_t index = (told + kWordBytes - 1) / kWordBytes; index < words; ++index) now[index] = 0;
  }
  for (std::size_t index = words; index % kEight != 0; ++index) now[index] = 0;

  const std::uint8_t row = row_of(now, like);
  auto& before = last_->rows[row];
  before[0] = last_->time_ns;
  last_->time_ns = now[0];
  std::uint8_t* to = begin + kHead;
  std::uint8_t eights = 0;
  // Without a branch a word, and with one size of stores: this runs some 200,000 times a second on a CPU that
  // the observed program wants, and what differs is never the same for long.
  for (std::size_t eight = 0; eight < kCompared && eight < words; eight += kEight) {
    std::uint8_t* const head = to;
    std::uint32_t sizes = 0;
    to += sizeof(sizes);
    for (std::size_t index = 0; index < kEight; ++index) {
      const std::uint64_t number = folded(now[eight + index] - before[eight + index]);
      before[eight + index] = now[eight + index];
      const auto size = static_cast<std::uint32_t>(71 - std::countl_zero(number)) >> 3U;
      std::memcpy(to, &number, sizeof(number));
      to += size;
      sizes |= size << (4 * index);
    }
    std::memcpy(head, &sizes, sizeof(sizes));
    if (eight > 0 && sizes == 0)
      to = head;
    else
      eights |= static_cast<std::uint8_t>(1U << (eight / kEight));
  }
  if (words > kCompared) {
    std::memcpy(to, now + kCompared, kWordBytes * (words - kCompared));
    to += kWordBytes * (words - kCompared);
  }
  begin[0] = row;
  begin[1] = static_cast<std::uint8_t>(words);
  begin[2] = eights;
  const auto taken = static_cast<std::uint32_t>(to - begin);
  piece.used += taken;
  if (piece.runs.empty() || piece.runs.back().cpu != cpu) piece.runs.push_back({cpu, 0});
  piece.runs.back().bytes += taken;
  return true;
}

void SlotStore::read(const std::uint8_t*& at, Table& last, Words& slot) {
  auto& row = last.rows[at[0]];
  const std::size_t words = at[1];
  const std::uint32_t eights = at[2];
  at += kHead;
  row[0] = last.time_ns;
  for (std::size_t eight = 0; eight < kCompared && eight < words; eight += kEight) {
    if ((eights >> (eight / kEight) & 1U) != 0) {
      std::uint32_t sizes = 0;
      std::memcpy(&sizes, at, sizeof(sizes));
      at += sizeof(sizes);
      for (std::size_t index = 0; index < kEight; ++index) {
        const std::uint32_t size = sizes >> (4 * index) & 0xFU;
        std::uint64_t number = 0;
        std::memcpy(&number, at, sizeof(number));
        if (size < kWordBytes) number &= (1ULL << (8 * size)) - 1;
        at += size;
        row[eight + index] += unfolded(number);
      }
    }
    std::memcpy(slot.data() + eight, row.data() + eight, kEight * kWordBytes);
  }
  last.time_ns = row[0];
  if (words > kCompared) {
    std::memcpy(slot.data() + kCompared, at, kWordBytes * (words - kCompared));
    at += kWordBytes * (words - kCompared);
  }
}

std::size_t SlotStore::bytes() const {
  std::size_t sum = 0;
  for (const Piece& piece : pieces_) sum += piece.used;
  return sum;
}

}  // namespace latlab::system
