// Threads: one thread owns a sink.
//
// What research makes of a feed besides the inside: the best levels of books with their orders, at every
// change or at even times, and an order's messages beside them as LOBSTER has them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "market/sinks.hpp"

namespace latlab::market {

// How many orders stand at each price. Only who asks for it pays: books themselves keep shares alone.
class OrderCounts {
 public:
  void apply(const Event& event, const Effect& effect) {
    if (event.kind >= Kind::clear) {
      if (event.kind == Kind::clear) {
        std::erase_if(counts_, [&](const auto& one) { return one.first >> 33 == effect.locate; });
      } else {
        counts_.clear();
      }
      return;
    }
    if (effect.left) {
      const auto at = counts_.find(key(effect.locate, effect.side, effect.old_price));
      if (at != counts_.end() && --at->second == 0) counts_.erase(at);
    }
    if (effect.entered) ++counts_[key(effect.locate, effect.side, effect.price)];
  }
  [[nodiscard]] std::uint32_t of(std::uint16_t locate, Side side, std::uint32_t price) const {
    const auto at = counts_.find(key(locate, side, price));
    return at == counts_.end() ? 0 : at->second;
  }

 private:
  static std::uint64_t key(std::uint16_t locate, Side side, std::uint32_t price) noexcept {
    return std::uint64_t{locate} << 33 | static_cast<std::uint64_t>(side) << 32 | price;
  }
  std::unordered_map<std::uint64_t, std::uint32_t> counts_;
};

// Rows of a book's best levels: for each level bid price, shares, orders, offer price, shares, orders.
struct BooksResult {
  static constexpr std::size_t kNumbers = 6;  // of a level
  std::vector<std::uint64_t> times;
  std::vector<std::uint16_t> locates;
  std::vector<std::uint64_t> values;
};

// every_ns: at even times, each book that stands or stood; 0: a book when one of its best levels is another.
// A row at a time is the book when the last message of that time had been applied.
template <class S>
class BooksSink final : public BookSink<S>, public BooksResult {
 public:
  BooksSink(std::size_t levels, std::uint64_t every_ns, Selection selection)
      : BookSink<S>(kDefaultCapacity),
        filter_(selection),
        past_(selection.to_ns),
        selection_(std::move(selection)),
        levels_(levels),
        every_ns_(every_ns) {}

  void batch(std::span<const Event> events, const SymbolNames& names) override {
    for (const Event& event : events) {
      past_.sees(event);
      // One by one: a row is made between two messages.
      if (every_ns_ != 0) pass(event.ts_ns, names);
      if (every_ns_ == 0 && event.kind >= Kind::clear_all) note_all(event, names);
      const Effect effect = this->books_.apply(event);
      if (effect.applied) counts_.apply(event, effect);
      if (event.kind == Kind::new_day) begin_day(names);
      if (!effect.applied || event.kind >= Kind::clear_all) continue;
      if (every_ns_ == 0) {
        note(event.ts_ns, effect.locate, names);
      } else if (effect.locate >= known_.size() || !known_[effect.locate]) {
        known_.resize(65'536);
        known_[effect.locate] = true;
        seen_.push_back(effect.locate);
      }
      last_ns_ = event.ts_ns;
    }
  }

  void finish(const SymbolNames& names) override {
    // The time after the last message is not the feed's: what is asked for up to it was given.
    if (every_ns_ != 0 && next_ != kNone) pass(last_ns_ / every_ns_ * every_ns_ + 1, names);
  }
  [[nodiscard]] bool over() const override { return past_.over(); }
  [[nodiscard]] std::size_t rows() const override { return times.size(); }

 private:
  static constexpr std::uint64_t kNone = UINT64_MAX;

  void begin_day(const SymbolNames& names) {
    finish(names);
    next_ = kNone;
    filter_.new_day();
    last_.clear();
    seen_.clear();
    known_.clear();
  }

  // Rows of the times before that of a message.
  void pass(std::uint64_t ts_ns, const SymbolNames& names) {
    if (next_ == kNone) {
      const std::uint64_t begin = std::max(ts_ns, selection_.from_ns);
      next_ = (begin + every_ns_ - 1) / every_ns_ * every_ns_;
    }
    // A damaged time must not fill the memory: no day is longer.
    for (; next_ < std::min(ts_ns, std::uint64_t{86'400'000'000'000}) && next_ <= selection_.to_ns;
         next_ += every_ns_) {
      for (const auto locate : seen_) row(next_, locate, names);
    }
  }

  void note_all(const Event& event, const SymbolNames& names) {
    std::vector<std::uint16_t> standing;
    standing.reserve(last_.size());
    for (const auto& [locate, best] : last_) standing.push_back(locate);
    std::sort(standing.begin(), standing.end());
    if (event.kind == Kind::new_day) return;
    for (const auto locate : standing) {
      if (!filter_.takes(event.ts_ns, locate, names)) continue;
      auto& last = last_[locate];
      if (std::all_of(last.begin(), last.end(), [](std::uint64_t v) { return v == 0; })) continue;
      std::fill(last.begin(), last.end(), 0);
      append(event.ts_ns, locate, last);
    }
  }

  void note(std::uint64_t ts_ns, std::uint16_t locate, const SymbolNames& names) {
    std::vector<std::uint64_t> now = best_of(locate);
    auto& last = last_[locate];
    if (last.empty()) last.resize(now.size());
    if (now == last) return;
    last = std::move(now);
    if (filter_.takes(ts_ns, locate, names)) append(ts_ns, locate, last);
  }

  void row(std::uint64_t ts_ns, std::uint16_t locate, const SymbolNames& names) {
    if (filter_.takes(ts_ns, locate, names)) append(ts_ns, locate, best_of(locate));
  }

  void append(std::uint64_t ts_ns, std::uint16_t locate, const std::vector<std::uint64_t>& best) {
    times.push_back(ts_ns);
    locates.push_back(locate);
    values.insert(values.end(), best.begin(), best.end());
  }

  [[nodiscard]] std::vector<std::uint64_t> best_of(std::uint16_t locate) const {
    std::vector<std::uint64_t> best(levels_ * kNumbers);
    const auto* book = this->books_.find(locate);
    for (std::size_t which = 0; which < 2 && book != nullptr; ++which) {
      std::size_t at = which * 3;
      const auto side = static_cast<Side>(which);
      book->side(side).visit([&](const Level& level) {
        best[at] = level.price;
        best[at + 1] = level.qty;
        best[at + 2] = counts_.of(locate, side, level.price);
        at += kNumbers;
        return at < best.size();
      });
    }
    return best;
  }

  Filter filter_;
  Past past_;
  Selection selection_;
  OrderCounts counts_;
  std::unordered_map<std::uint16_t, std::vector<std::uint64_t>> last_;
  std::vector<std::uint16_t> seen_;
  std::vector<bool> known_;
  std::size_t levels_;
  std::uint64_t every_ns_;
  std::uint64_t next_ = kNone;
  std::uint64_t last_ns_ = 0;
};

// The messages of one symbol and its best levels behind each, by the conventions of LOBSTER.
struct LobsterResult {
  struct Message {
    std::uint64_t ts_ns;
    std::uint64_t ref;
    std::uint64_t qty;
    std::int64_t price;
    std::int32_t type;       // 1 submission, 2 partial cancellation, 3 deletion, 4 execution, 5 hidden, 6
                             // cross, 7 halt
    std::int32_t direction;  // 1: the order that stands buys, -1: it sells
  };
  std::vector<Message> messages;
  std::vector<std::int64_t> levels;  // for each message and level: ask price, size, bid price, size
};

template <class S>
class LobsterSink final : public BookSink<S>, public LobsterResult {
 public:
  LobsterSink(std::size_t depth, Selection selection)
      : BookSink<S>(kDefaultCapacity),
        filter_({.symbols = std::move(selection.symbols)}),
        from_ns_(selection.from_ns),
        to_ns_(selection.to_ns),
        depth_(depth) {}

  void batch(std::span<const Event> events, const SymbolNames& names) override {
    for (const Event& event : events) {
      const Effect effect = this->books_.apply(event);
      if (event.kind == Kind::new_day) filter_.new_day();
      const bool hidden = event.kind == Kind::trade;
      const bool cross = event.kind == Kind::cross && event.ref != 0;
      const bool halt = event.type == 'H' && event.kind == Kind::none;
      const std::uint16_t locate = effect.applied ? effect.locate : event.locate;
      if (!(effect.applied || hidden || cross || halt) || event.kind >= Kind::clear) continue;
      if (!filter_.takes(event.ts_ns, locate, names)) continue;
      if (halt) {
        // Its qty is the state's letter: halted or paused, quotes only, trading.
        const std::int64_t state = event.qty == 'T' ? 1 : event.qty == 'Q' ? 0 : -1;
        put(locate, {.ts_ns = event.ts_ns, .ref = 0, .qty = 0, .price = state, .type = 7, .direction = -1});
        continue;
      }
      const std::int32_t direction = (effect.applied ? effect.side : event.side) == Side::bid ? 1 : -1;
      if (hidden || cross) {
        put(locate, {.ts_ns = event.ts_ns,
                     .ref = hidden ? event.ref : 0,
                     .qty = hidden ? event.qty : event.ref,
                     .price = event.price,
                     .type = hidden ? 5 : 6,
                     .direction = hidden ? direction : -1});
        continue;
      }
      Message message{.ts_ns = event.ts_ns,
                      .ref = event.ref,
                      .qty = effect.qty,
                      .price = effect.old_price,
                      .type = 4,
                      .direction = direction};
      switch (event.kind) {
        case Kind::add:
          message.type = 1;
          message.price = effect.price;
          break;
        case Kind::reduce:
          message.type = effect.left ? 3 : 2;
          break;
        case Kind::remove:
          message.type = 3;
          break;
        case Kind::replace:
        case Kind::modify: {
          // A deletion and a submission, of one time; between them the book is without either.
          message.type = 3;
          message.qty = effect.old_qty;
          const bool stays = effect.entered;
          put(locate, message, stays ? Without{effect.side, effect.price, effect.qty} : Without{});
          if (!stays) continue;
          message.type = 1;
          message.ref = event.kind == Kind::replace ? event.new_ref : event.ref;
          message.qty = effect.qty;
          message.price = effect.price;
          break;
        }
        default:
          break;
      }
      put(locate, message);
    }
  }

 private:
  // LOBSTER's numbers for a level that is empty.
  static constexpr std::int64_t kNoAsk = 9'999'999'999;

  struct Without {  // shares that are left out of a book
    Side side = Side::bid;
    std::uint32_t price = 0;
    std::uint64_t qty = 0;
  };

  void put(std::uint16_t locate, const Message& message) { put(locate, message, Without{}); }
  void put(std::uint16_t locate, const Message& message, const Without& without) {
    const std::size_t begin = levels.size();
    for (std::size_t i = 0; i < depth_; ++i) levels.insert(levels.end(), {kNoAsk, 0, -kNoAsk, 0});
    const auto* book = this->books_.find(locate);
    for (const Side side : {Side::offer, Side::bid}) {
      if (book == nullptr) break;
      std::size_t at = begin + (side == Side::offer ? 0 : 2);
      book->side(side).visit([&](const Level& level) {
        std::uint64_t qty = level.qty;
        if (without.qty != 0 && side == without.side && level.price == without.price) qty -= without.qty;
        if (qty == 0) return true;
        levels[at] = level.price;
        levels[at + 1] = static_cast<std::int64_t>(qty);
        at += 4;
        return at < levels.size();
      });
    }
    // What happens behind the levels asked for is in neither file: the k-th message makes the k-th line.
    const std::vector<std::int64_t> now(levels.begin() + static_cast<std::ptrdiff_t>(begin), levels.end());
    const bool told = message.type >= 5 || now != last_;
    last_ = now;
    if (told && message.ts_ns >= from_ns_ && message.ts_ns <= to_ns_) {
      messages.push_back(message);
    } else {
      levels.resize(begin);
    }
  }

  Filter filter_;
  std::uint64_t from_ns_;
  std::uint64_t to_ns_;
  std::size_t depth_;
  std::vector<std::int64_t> last_;
};

}  // namespace latlab::market
