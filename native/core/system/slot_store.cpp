#include "system/slot_store.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <utility>

#include "system/bpf_program.hpp"

namespace latlab::system {
namespace {

constexpr std::size_t kPieceBytes = 1U << 20U;
constexpr std::size_t kHead = 6;     // row, lines, and which words differ
constexpr std::size_t kNumber = 10;  // bytes at most, of 64 bits
constexpr std::size_t kLineWords = bpf::kLine / 8;
constexpr std::size_t kFirstCopied = 13;  // a switch's words are numbers and names up to there

std::uint8_t* copy(std::uint8_t* to, const std::uint64_t* words, std::size_t count) {
  std::memcpy(to, words, 8 * count);
  return to + 8 * count;
}

std::uint8_t* put(std::uint8_t* to, std::uint64_t number) {
  for (; number >= 0x80; number >>= 7U) *to++ = static_cast<std::uint8_t>(number | 0x80U);
  *to++ = static_cast<std::uint8_t>(number);
  return to;
}

std::uint64_t get(const std::uint8_t*& from) {
  std::uint64_t number = 0;
  for (unsigned shift = 0;; shift += 7) {
    const std::uint64_t one = *from++;
    number |= (one & 0x7FU) << shift;
    if (one < 0x80U) return number;
  }
}

// Small differences of either sign become small numbers.
std::uint64_t folded(std::uint64_t difference) {
  return (difference << 1U) ^ (0 - (difference >> 63U));
}
std::uint64_t unfolded(std::uint64_t number) {
  return (number >> 1U) ^ (0 - (number & 1U));
}

// By the event, the thread, and who or what else the slot is of: a switch's next thread, a call's descriptor.
std::uint8_t row_of(const std::uint64_t* slot) {
  constexpr std::uint64_t kOther = 0xC2B2AE3D27D4EB4F;  // any odd number (xxHash's second prime)
  const std::uint64_t key = slot[1] * bpf::kSpread + (slot[3] & 0xFFFFU) * kOther + slot[6];
  return static_cast<std::uint8_t>((key * bpf::kSpread) >> 56U);
}

}  // namespace

bool SlotStore::begin_piece() {
  Piece piece;
  piece.memory.reset(new (std::nothrow) std::uint8_t[kPieceBytes]);
  if (last_ == nullptr) last_.reset(new (std::nothrow) Table());
  if (piece.memory == nullptr || last_ == nullptr) return false;
  pieces_.push_back(std::move(piece));
  return true;
}

bool SlotStore::add(std::int32_t cpu, const bpf::Slot& slot, std::size_t told) {
  constexpr std::size_t kMostTaken = kHead + kNumber * kMostWords;
  if (slot.bytes > kMostBytes || told > slot.bytes) return false;
  if ((pieces_.empty() || kPieceBytes - pieces_.back().used < kMostTaken) && !begin_piece()) return false;
  Piece& piece = pieces_.back();
  std::uint8_t* const begin = piece.memory.get() + piece.used;

  const std::size_t lines = slot.bytes / bpf::kLine;
  const std::size_t words = lines * kLineWords, compared = std::min(words, kCompared);
  std::uint64_t now[kMostWords];
  // Line by line, and without a branch a word: this runs some 200,000 times a second on a CPU that the
  // observed program wants.
  const auto* from = reinterpret_cast<const std::uint8_t*>(&slot);
  for (std::size_t line = 0; line < lines; ++line)
    std::memcpy(now + line * kLineWords, from + line * bpf::kLine, bpf::kLine);
  if (told % 8 != 0) now[told / 8] &= (1ULL << (told % 8 * 8)) - 1;
  for (std::size_t index = (told + 7) / 8; index < words; ++index) now[index] = 0;
  const std::uint8_t row = row_of(now);
  auto& before = last_->rows[row];
  std::uint8_t* to = put(begin + kHead, folded(slot.time_ns - last_->time_ns));
  last_->time_ns = slot.time_ns;
  std::uint32_t differ = 0;
  for (std::size_t line = 0; line < compared; line += kLineWords) {
    std::uint32_t of_line = 0;
    for (std::size_t index = 0; index < kLineWords; ++index)
      of_line |= static_cast<std::uint32_t>(now[line + index] != before[line + index]) << index;
    differ |= of_line << line;
  }
  differ &= ~1U;  // the time
  for (std::uint32_t left = differ; left != 0; left &= left - 1) {
    const auto index = static_cast<std::size_t>(std::countr_zero(left));
    if (index < kFirstCopied)
      to = put(to, folded(now[index] - before[index]));
    else
      to = copy(to, &now[index], 1);
    before[index] = now[index];
  }
  to = copy(to, now + compared, words - compared);
  begin[0] = row;
  begin[1] = static_cast<std::uint8_t>(lines);
  std::memcpy(begin + 2, &differ, sizeof(differ));
  const auto taken = static_cast<std::uint32_t>(to - begin);
  piece.used += taken;
  if (piece.runs.empty() || piece.runs.back().cpu != cpu) piece.runs.push_back({cpu, 0});
  piece.runs.back().bytes += taken;
  return true;
}

void SlotStore::read(const std::uint8_t*& at, Table& last, Words& slot) {
  auto& row = last.rows[at[0]];
  const std::size_t words = at[1] * kLineWords, compared = std::min(words, kCompared);
  std::uint32_t differ = 0;
  std::memcpy(&differ, at + 2, sizeof(differ));
  at += kHead;
  last.time_ns += unfolded(get(at));
  slot[0] = last.time_ns;
  for (std::size_t index = 1; index < compared; ++index) {
    if ((differ >> index & 1U) != 0) {
      if (index < kFirstCopied) {
        row[index] += unfolded(get(at));
      } else {
        std::memcpy(&row[index], at, sizeof(row[index]));
        at += sizeof(row[index]);
      }
    }
    slot[index] = row[index];
  }
  std::memcpy(slot.data() + compared, at, (words - compared) * 8);
  at += (words - compared) * 8;
}

std::size_t SlotStore::bytes() const {
  std::size_t sum = 0;
  for (const Piece& piece : pieces_) sum += piece.used;
  return sum;
}

}  // namespace latlab::system
