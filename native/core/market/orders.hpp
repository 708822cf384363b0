// Threads: one thread owns a table.
//
// Order-by-order state: reference -> price, quantity, side, symbol. Open addressing with linear probing and
// backward-shift deletion: no tombstones, so the cost of a message does not grow with the length of the day,
// and no allocation except when the number of *standing* orders doubles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "market/event.hpp"

namespace latlab::market {

struct Order {
  std::uint64_t ref = 0;
  std::uint32_t price = 0;  // 1/10,000
  std::uint32_t qty = 0;    // shares that still stand
  std::uint16_t locate = 0;
  Side side = Side::bid;
  bool used = false;  // a slot's state, not the order's: every reference, 0 too, may stand
};
static_assert(sizeof(Order) == 24);

class OrderTable {
 public:
  // capacity: how many slots to begin with, rounded up to a power of two.
  explicit OrderTable(std::size_t capacity = 1U << 12) {
    std::size_t slots = 16;
    while (slots < capacity) slots *= 2;
    slots_.resize(slots);
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  // Bring the reference's slot into the cache: worth 2 x on a whole market's book, where every look-up
  // misses.
  void prefetch(std::uint64_t ref) const noexcept { __builtin_prefetch(&slots_[home(ref)], 1); }

  [[nodiscard]] Order* find(std::uint64_t ref) noexcept {
    for (std::size_t i = home(ref);; i = (i + 1) & mask()) {
      if (!slots_[i].used) return nullptr;
      if (slots_[i].ref == ref) return &slots_[i];
    }
  }

  // Returns nullptr when the reference stands already. The pointer holds until the next insert or erase.
  Order* insert(const Order& order) {
    if ((size_ + 1) * 2 > slots_.size()) rebuild(slots_.size() * 2);
    std::size_t probes = 0;
    for (std::size_t i = home(order.ref);; i = (i + 1) & mask()) {
      if (!slots_[i].used) {
        slots_[i] = order;
        slots_[i].used = true;
        ++size_;
        return &slots_[i];
      }
      if (slots_[i].ref == order.ref) return nullptr;
      // References of a real day are given out in sequence, and their low bits spread perfectly; a stream
      // made to collide in them pays for one rebuild with a mixing hash.
      if (++probes > kLongProbe && !mixing_) {
        mixing_ = true;
        rebuild(slots_.size());
        return insert(order);
      }
    }
  }

  void erase(Order* order) noexcept {
    auto hole = static_cast<std::size_t>(order - slots_.data());
    for (std::size_t i = (hole + 1) & mask(); slots_[i].used; i = (i + 1) & mask()) {
      // An entry may fill the hole unless its home lies behind the hole (cyclically).
      if (((i - home(slots_[i].ref)) & mask()) >= ((i - hole) & mask())) {
        slots_[hole] = slots_[i];
        hole = i;
      }
    }
    slots_[hole].used = false;
    --size_;
  }

  void clear() noexcept {
    for (auto& slot : slots_) slot.used = false;
    size_ = 0;
  }

  template <class F>
  void for_each(F&& f) const {
    for (const auto& slot : slots_) {
      if (slot.used) f(slot);
    }
  }

 private:
  static constexpr std::size_t kLongProbe = 512;

  [[nodiscard]] std::size_t mask() const noexcept { return slots_.size() - 1; }

  [[nodiscard]] std::size_t home(std::uint64_t ref) const noexcept {
    // In sequence, neighbours share a cache line: orders that enter together mostly leave together.
    if (!mixing_) return (ref + (ref >> 32) * 0x9E3779B1U) & mask();
    ref = (ref ^ (ref >> 33)) * 0xff51afd7ed558ccdU;
    ref = (ref ^ (ref >> 33)) * 0xc4ceb9fe1a85ec53U;
    return (ref ^ (ref >> 33)) & mask();
  }

  void rebuild(std::size_t slots) {
    std::vector<Order> old(slots);
    old.swap(slots_);
    size_ = 0;
    for (const auto& order : old) {
      if (order.used) insert(order);
    }
  }

  std::vector<Order> slots_;
  std::size_t size_ = 0;
  bool mixing_ = false;
};

}  // namespace latlab::market
