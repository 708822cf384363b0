#include "system/slot_store.hpp"

#include <cstring>
#include <new>
#include <utility>

namespace latlab::system {
namespace {

constexpr std::size_t kPieceBytes = 1U << 23U;

}  // namespace

bool SlotStore::begin_piece() {
  Piece piece;
  piece.memory.reset(new (std::nothrow) std::uint8_t[kPieceBytes]);
  if (piece.memory == nullptr) return false;
  pieces_.push_back(std::move(piece));
  return true;
}

bool SlotStore::add(std::int32_t cpu, const bpf::Slot& slot) {
  if ((pieces_.empty() || kPieceBytes - pieces_.back().used < slot.bytes) && !begin_piece()) return false;
  Piece& piece = pieces_.back();
  std::memcpy(piece.memory.get() + piece.used, &slot, slot.bytes);
  piece.used += slot.bytes;
  if (piece.runs.empty() || piece.runs.back().cpu != cpu) piece.runs.push_back({cpu, 0});
  piece.runs.back().bytes += slot.bytes;
  return true;
}

}  // namespace latlab::system
