// Threads: plain values, no shared state.
//
// What every feed decoder (ITCH, PITCH) makes of a message, and all that books and statistics need to know of
// it. One struct for all feeds is what lets an ITCH and a PITCH feed go through the same pipeline.
#pragma once

#include <array>
#include <cstdint>

namespace latlab::market {

enum class Kind : std::uint8_t {
  none,          // state, administration, or of an unknown type: never touches a book
  add,           // a new order rests
  execute,       // E: a resting order trades at its own price
  execute_at,    // C: a resting order trades at another price; it still leaves the book at its own
  execute_left,  // PITCH: as execute_at, and new_ref is the quantity that is left (it needn't be the
                 // difference)
  reduce,        // X: a resting order loses quantity
  remove,        // D: a resting order leaves the book
  replace,       // U: a resting order leaves, another with the same side and symbol enters, in one message
  modify,        // PITCH: a resting order changes quantity and price and keeps its reference
  trade,         // P: a trade against a hidden order; never touches the book
  cross,         // Q: an auction's trade; never touches the book. Its shares are in ref
  broken,        // B: a trade is taken back, new_ref is its match; never touches the book
  clear,         // PITCH: the symbol's book is emptied
  clear_all,     // PITCH: every book is emptied
  new_day,       // a file's next day begins: what stood the day before is no longer there
};

enum class Side : std::uint8_t { bid, offer };

// The wire's meaning in host byte order; prices in 1/10,000, as ITCH has them.
struct Event {
  std::uint64_t ts_ns = 0;    // ns since midnight
  std::uint64_t ref = 0;      // the order's reference; of a cross its shares, which may not fit qty
  std::uint64_t new_ref = 0;  // replace: the entering order's reference; a trade's match number
  std::uint64_t offset = 0;   // of the message's frame in its stream, for reports of errors
  std::uint32_t qty = 0;      // shares; of a trading action (H) the letter of its state
  std::uint32_t price = 0;    // 1/10,000
  std::uint16_t locate = 0;   // the symbol's number in its day
  char type = 0;              // as on the wire
  Kind kind = Kind::none;
  Side side = Side::bid;
  bool printable = true;  // C that is not printable is not a volume
};
static_assert(sizeof(Event) == 48, "events are copied in batches: keep them within three quarters of a line");

// Whether times go back: of a feed, or of each unit of one, since nothing orders its units among themselves.
// PITCH as text does not say which unit a message is of: units that were merged may be so far apart.
class TimeOrder {
 public:
  explicit TimeOrder(char dialect) : apart_ns_(dialect == 'I' || dialect == 'P' ? 0 : 100'000'000) {}

  // begins: a day does, and its times anew.
  [[nodiscard]] bool back(std::uint8_t unit, std::uint64_t ts_ns, bool begins) noexcept {
    const bool earlier = (ts_ns + apart_ns_ < last_[unit]) & !begins;
    last_[unit] = ts_ns;
    return earlier;
  }

 private:
  std::uint64_t apart_ns_;
  std::array<std::uint64_t, 256> last_{};
};

}  // namespace latlab::market
