// Threads: one thread owns a table.
//
// Order-by-order state: reference -> price, quantity, side, symbol. Two tables with one interface:
//
//   OrderMap     open addressing with linear probing and backward-shift deletion: no tombstones, and no
//                allocation except when the number of *standing* orders doubles
//   OrderTable   references of a feed rise in sequence, so the latest millions of them index an array, and
//                what an old page of it still holds when the page is wanted for new references moves to an
//                OrderMap
//
//   Order* find(ref);      Order* insert(ref, order);      void erase(ref, order);      // order: find's
//   void prefetch(ref) const;      void for_each(f) const;      // f(ref, order)
//
// The cost of a message does not grow with the length of the day in either.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "market/event.hpp"
#include "market/memory.hpp"

namespace latlab::market {

struct Order {
  std::uint32_t price = 0;  // 1/10,000
  std::uint32_t qty = 0;    // shares that still stand
  std::uint16_t locate = 0;
  Side side = Side::bid;
  bool used = false;  // a slot's state, not the order's: every reference, 0 too, may stand
};
static_assert(sizeof(Order) == 12);

class OrderMap {
 public:
  // capacity: how many slots to begin with, rounded up to a power of two.
  explicit OrderMap(std::size_t capacity = 1U << 12) {
    std::size_t slots = 16;
    while (slots < capacity) slots *= 2;
    resize(slots);
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  // Bring the reference's slot into the cache.
  void prefetch(std::uint64_t ref) const noexcept { prefetch_line(place(ref)); }
  // Where the reference's slot is looked for first.
  [[nodiscard]] const void* place(std::uint64_t ref) const noexcept { return &slots_[home(ref)]; }

  [[nodiscard]] Order* find(std::uint64_t ref) noexcept {
    for (std::size_t i = home(ref);; i = (i + 1) & mask()) {
      if (!slots_[i].order.used) return nullptr;
      if (slots_[i].ref == ref) return &slots_[i].order;
    }
  }

  // Returns nullptr when the reference stands already. The pointer holds until the next insert or erase.
  Order* insert(std::uint64_t ref, const Order& order) {
    if ((size_ + 1) * 2 > slots_.size()) rebuild(slots_.size() * 2);
    std::size_t probes = 0;
    for (std::size_t i = home(ref);; i = (i + 1) & mask()) {
      Slot& slot = slots_[i];
      if (!slot.order.used) {
        slot = {.ref = ref, .order = order};
        slot.order.used = true;
        ++size_;
        return &slot.order;
      }
      if (slot.ref == ref) return nullptr;
      // The multiplication spreads references that rise in even steps, as all do; a stream made to collide in
      // spite of it pays for one rebuild with a mixing hash.
      if (++probes > kLongProbe && !mixing_) {
        mixing_ = true;
        rebuild(slots_.size());
        return insert(ref, order);
      }
    }
  }

  void erase(std::uint64_t ref, Order* order) noexcept {
    std::size_t hole = home(ref);
    while (&slots_[hole].order != order) hole = (hole + 1) & mask();
    for (std::size_t i = (hole + 1) & mask(); slots_[i].order.used; i = (i + 1) & mask()) {
      // An entry may fill the hole unless its home lies behind the hole (cyclically).
      if (((i - home(slots_[i].ref)) & mask()) >= ((i - hole) & mask())) {
        slots_[hole] = slots_[i];
        hole = i;
      }
    }
    slots_[hole].order.used = false;
    --size_;
  }

  void clear() noexcept {
    for (auto& slot : slots_) slot.order.used = false;
    size_ = 0;
  }

  template <class F>
  void for_each(F&& f) const {
    for (const auto& slot : slots_) {
      if (slot.order.used) f(slot.ref, slot.order);
    }
  }

 private:
  struct Slot {
    std::uint64_t ref = 0;
    Order order;
  };
  static_assert(sizeof(Slot) == 24);
  using Slots = std::vector<Slot, detail::HugePages<Slot>>;
  static constexpr std::size_t kLongProbe = 512;

  [[nodiscard]] std::size_t mask() const noexcept { return slots_.size() - 1; }

  [[nodiscard]] std::size_t home(std::uint64_t ref) const noexcept {
    if (!mixing_) return (ref * 0x9E3779B97F4A7C15U) >> shift_;  // Knuth, TAOCP 3, 6.4: Fibonacci hashing
    ref = (ref ^ (ref >> 33)) * 0xff51afd7ed558ccdU;
    ref = (ref ^ (ref >> 33)) * 0xc4ceb9fe1a85ec53U;
    return (ref ^ (ref >> 33)) & mask();
  }

  void resize(std::size_t slots) {
    slots_.resize(slots);
    shift_ = 64 - std::countr_zero(slots);
  }

  void rebuild(std::size_t slots) {
    Slots old;
    old.swap(slots_);
    resize(slots);
    size_ = 0;
    for (const auto& slot : old) {
      if (slot.order.used) insert(slot.ref, slot.order);
    }
  }

  Slots slots_;
  std::size_t size_ = 0;
  int shift_ = 0;
  bool mixing_ = false;
};

class OrderTable {
 public:
  // shares: into how many tables a feed's orders go. Each has its part of the memory: as much in all as one
  // alone, whose making takes a kernel a tenth of a second.
  explicit OrderTable(std::size_t shares = 1)
      : recent_mask_(kRecent / std::min(std::bit_ceil(shares), kPages / 2) - 1),
        block_((bytes() + kHuge) / 8) {
    // Touched by and by, in huge pages where there are any: every look-up is elsewhere.
    void* begin = block_.data();
    std::size_t room = bytes() + kHuge;
    slots_ = static_cast<Slot*>(std::align(kHuge, bytes(), begin, room));
    ::madvise(slots_, bytes(), MADV_HUGEPAGE);
    tags_.fill(kNone);
  }

  [[nodiscard]] std::size_t size() const noexcept { return recent_ + old_.size(); }
  [[nodiscard]] bool in_map(std::uint64_t ref) const noexcept { return !direct(ref); }

  void prefetch(std::uint64_t ref) const noexcept {
    // Without a branch: which of them it is can't be foretold where orders live long.
    const std::uintptr_t recent = reinterpret_cast<std::uintptr_t>(&slots_[ref & recent_mask_]);
    const std::uintptr_t old = reinterpret_cast<std::uintptr_t>(old_.place(ref));
    const std::uintptr_t chosen = std::uintptr_t{0} - std::uintptr_t{direct(ref)};
    // NOLINTNEXTLINE(performance-no-int-to-ptr): only prefetched from, and it is one of the two
    prefetch_line(reinterpret_cast<const void*>((recent & chosen) | (old & ~chosen)));
  }

  [[nodiscard, gnu::always_inline]] Order* find(std::uint64_t ref) noexcept {
    if (direct(ref)) [[likely]] {
      Order& order = slots_[ref & recent_mask_].order;
      return order.used ? &order : nullptr;
    }
    return old_.find(ref);
  }

  // Returns nullptr when the reference stands already. The pointer holds until the next insert or erase.
  Order* insert(std::uint64_t ref, const Order& order) {
    ++credit_;
    if (!direct(ref) && !open(ref)) return old_.insert(ref, order);
    Order& slot = slots_[ref & recent_mask_].order;
    if (slot.used) return nullptr;
    slot = order;
    slot.used = true;
    ++recent_;
    ++standing_[place(ref)];
    return &slot;
  }

  void erase(std::uint64_t ref, Order* order) noexcept {
    if (direct(ref)) [[likely]] {
      order->used = false;
      --recent_;
      --standing_[place(ref)];
    } else {
      old_.erase(ref, order);
    }
  }

  void clear() noexcept {
    old_.clear();
    for (std::size_t at = 0; at < pages(); ++at) {
      for (std::size_t i = 0; standing_[at] != 0; ++i) {
        Order& order = slots_[at * kPage + i].order;
        standing_[at] -= order.used;
        order.used = false;
      }
    }
    recent_ = 0;
    // Nothing stands, so any page may be opened: the next day's references begin anew.
    tags_.fill(kNone);
    newest_ = refused_ = kNone;
    credit_ = kCost;
  }

  // Touch the memory of these references, so that no order pays for it (a page of 2 MB may take
  // milliseconds).
  void expect(std::uint64_t first, std::uint64_t last) noexcept {
    constexpr std::uint64_t kOrders = kHuge / sizeof(Slot);  // in a huge page
    const std::uint64_t from = first / kOrders;
    const std::uint64_t count = std::min(last / kOrders - from + 1, (recent_mask_ + 1) / kOrders);
    // Advice: a kernel that doesn't know it leaves the pages to be touched by and by.
    for (std::uint64_t page = from; page < from + count; ++page)
      ::madvise(&slots_[page * kOrders & recent_mask_], kHuge, MADV_POPULATE_WRITE);
  }

  template <class F>
  void for_each(F&& f) const {
    for (std::size_t at = 0; at < pages(); ++at) {
      std::uint32_t left = standing_[at];
      for (std::size_t i = 0; left != 0; ++i) {
        const Order& order = slots_[at * kPage + i].order;
        if (!order.used) continue;
        f(tags_[at] * kPage + i, order);
        --left;
      }
    }
    old_.for_each(f);
  }

 private:
  struct alignas(16) Slot {  // so that none lies across two cache lines
    Order order;
  };
  static constexpr std::size_t kPage = 1U << 15;  // references
  static constexpr std::size_t kRecent = 1U
                                         << 23;  // references that the array of one table can hold: 128 MiB
  static constexpr std::size_t kPages = kRecent / kPage;
  static constexpr std::size_t kHuge = 1U << 21;
  static constexpr std::uint64_t kNone = UINT64_MAX;
  // A page is opened for as many orders as make its opening (which reads it through) cheap. References that
  // come thinner than one in 16, of one symbol's feed or of a hostile one, stand in the map.
  static constexpr std::uint64_t kCost = kPage / 16;
  static constexpr std::size_t kAhead = 64;
  static constexpr std::uint64_t kJump = 1U << 16;  // pages

  [[nodiscard]] std::size_t bytes() const noexcept { return (recent_mask_ + 1) * sizeof(Slot); }
  [[nodiscard]] std::size_t pages() const noexcept { return (recent_mask_ + 1) / kPage; }
  [[nodiscard]] std::size_t place(std::uint64_t ref) const noexcept { return (ref & recent_mask_) / kPage; }
  [[nodiscard]] bool direct(std::uint64_t ref) const noexcept { return tags_[place(ref)] == ref / kPage; }

  // Make room for a new page of references; what stands in the page whose place it takes moves to the map.
  bool open(std::uint64_t ref) {
    const std::uint64_t page = ref / kPage;
    const std::size_t at = place(ref);
    // Of a reference there must not be two homes: no page is opened of which an order may stand in the map.
    if (newest_ != kNone && (page <= newest_ || page >= refused_)) return false;
    if (newest_ != kNone && page - newest_ > kJump) {
      refused_ = page;  // a damaged reference must not end the use of the array for those that follow
      return false;
    }
    if (credit_ < kCost) {
      newest_ = page;
      return false;
    }
    credit_ = credit_ < 4 * kCost ? credit_ - kCost : 3 * kCost;
    for (std::size_t i = 0; standing_[at] != 0; ++i) {
      if (const std::size_t ahead = i + kAhead; ahead < kPage && slots_[at * kPage + ahead].order.used)
        old_.prefetch(tags_[at] * kPage + ahead);
      Order& order = slots_[at * kPage + i].order;
      if (!order.used) continue;
      old_.insert(tags_[at] * kPage + i, order);
      order.used = false;
      --standing_[at];
      --recent_;
    }
    tags_[at] = newest_ = page;
    return true;
  }

  std::uint64_t recent_mask_;
  detail::LazyZeros block_;
  Slot* slots_;
  OrderMap old_;
  std::array<std::uint64_t, kPages> tags_{};      // the number of the page that has the place
  std::array<std::uint32_t, kPages> standing_{};  // orders in it
  std::uint64_t newest_ = kNone;   // the last page that was opened, or that the map has instead
  std::uint64_t refused_ = kNone;  // the first page that was too far ahead
  std::uint64_t credit_ = kCost;
  std::size_t recent_ = 0;
};

}  // namespace latlab::market
