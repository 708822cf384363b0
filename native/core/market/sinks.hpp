// Threads: one thread owns a sink.
//
// What is made of events: every true change of the inside, the depth of events and books, trades, a snapshot.
//
// Over 400 lines: what is made of events, one small class each, in the one pass over them.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "market/book.hpp"
#include "market/merging.hpp"
#include "market/session.hpp"

namespace latlab::market {

struct Selection {
  std::unordered_set<std::string> symbols;  // empty: all
  std::uint64_t from_ns = 0;
  std::uint64_t to_ns = UINT64_MAX;  // both ends belong to it
};

class Filter {
 public:
  explicit Filter(Selection selection) : selection_(std::move(selection)) {}

  [[nodiscard]] bool takes(std::uint64_t ts_ns, std::uint16_t locate, const SymbolNames& names) {
    if (ts_ns < selection_.from_ns || ts_ns > selection_.to_ns) return false;
    if (selection_.symbols.empty()) return true;
    auto& verdict = verdicts_[locate];
    if (verdict == 0 && names.known(locate)) {
      const auto& name = names.name(locate);
      std::string_view text(name.data(), name.size());
      text = text.substr(0, text.find_last_not_of(std::string_view(" \0", 2)) + 1);
      verdict = selection_.symbols.contains(std::string(text)) ? 1 : 2;
    }
    return verdict == 1;
  }
  // Numbers are given to symbols anew.
  void new_day() { std::fill(verdicts_.begin(), verdicts_.end(), std::uint8_t{0}); }

 private:
  Selection selection_;
  std::vector<std::uint8_t> verdicts_ = std::vector<std::uint8_t>(65'536);  // 0: not known yet, 1: yes, 2: no
};

// Whether a feed is past a time. One message may have a damaged time, and the messages behind it tell so.
class Past {
 public:
  explicit Past(std::uint64_t to_ns) : to_ns_(to_ns) {}
  // Returns whether the message is of that time or before.
  bool sees(const Event& event) noexcept {
    if (over()) return false;
    if (event.kind == Kind::new_day && beyond_ != 0) beyond_ = kSure;
    if (over()) return false;
    beyond_ = event.ts_ns > to_ns_ ? beyond_ + 1 : 0;
    return beyond_ == 0;
  }
  [[nodiscard]] bool over() const noexcept { return beyond_ >= kSure; }

 private:
  static constexpr std::uint32_t kSure = 1024;
  std::uint64_t to_ns_;
  std::uint32_t beyond_ = 0;  // messages in a row
};

// What a sink with books can be asked, whatever its book sides are.
class AnyBooks : public Sink {
 public:
  [[nodiscard]] virtual const Anomalies& anomalies() const = 0;
  [[nodiscard]] virtual SideCounts side_counts() const = 0;
  [[nodiscard]] virtual std::size_t standing() const = 0;

  // Where symbols are shared (market/sharing.hpp): take what sinks of the same kind, this one among them,
  // have made since the last call.
  using Shares = std::vector<std::unique_ptr<AnyBooks>>;
  virtual void gather(const Shares& /*shares*/, Crew& /*crew*/) {}
  // How many of the rows that were gathered last were not wanted.
  [[nodiscard]] virtual std::size_t left_out() const { return 0; }
};

// Applies events to books, with the memory of the whole batch asked for ahead.
template <class S>
class BookSink : public AnyBooks {
 public:
  explicit BookSink(std::size_t capacity = kDefaultCapacity, std::size_t shares = 1)
      : books_(capacity, shares) {}
  [[nodiscard]] const Books<S>& books() const noexcept { return books_; }
  [[nodiscard]] const Anomalies& anomalies() const override { return books_.anomalies(); }
  [[nodiscard]] std::size_t standing() const override { return books_.orders(); }
  [[nodiscard]] SideCounts side_counts() const override {
    SideCounts all;
    for (std::size_t locate = 0; locate < books_.symbols(); ++locate) {
      const auto* book = books_.find(static_cast<std::uint16_t>(locate));
      for (const Side which : {Side::bid, Side::offer}) {
        if (book == nullptr) break;
        all += book->side(which).counts();
      }
    }
    return all;
  }

 protected:
  template <class... On>
  void apply(std::span<const Event> events, On&&... on) {
    books_.apply(events, on...);
  }
  Books<S> books_;
};

template <class S>
class CensusSink final : public BookSink<S> {
 public:
  using BookSink<S>::BookSink;
  void batch(std::span<const Event> events, const SymbolNames&) override {
    this->apply(events, [](const Event&, const Effect&) {});
  }
};

struct InsideRows {
  std::string text;
  std::vector<std::uint64_t> times;
  std::vector<std::uint16_t> locates;
  std::vector<std::uint64_t>
      values;  // a row for each time: bid price, quantity, offer price, quantity by level
};

struct InsideResult : InsideRows {
  std::uint64_t changes = 0;  // found; those of them that were to be skipped are not in the columns
};

// Every true change of the inside (of the best `levels`), as text lines or columns. shares: of
// several, its rows are gathered with those of other symbols.
template <class S>
class InsideSink final : public BookSink<S>, public InsideResult {
 public:
  InsideSink(std::size_t capacity, std::size_t levels, bool as_text, std::uint64_t skip, Selection selection,
             std::size_t shares = 1)
      : BookSink<S>(capacity, shares),
        filter_(std::move(selection)),
        levels_(levels),
        skip_(skip),
        as_text_(as_text),
        shared_(shares > 1),
        into_(shared_ ? mine_ : *this) {}
  [[nodiscard]] std::size_t rows() const override { return into_.times.size(); }

  void batch(std::span<const Event> events, const SymbolNames& names) override {
    // A message that empties every book is split off: it changes many insides, and is as rare as a restart.
    const auto all = [](const Event& event) { return event.kind >= Kind::clear_all; };
    while (!events.empty()) {
      const auto at = std::find_if(events.begin(), events.end(), all);
      const auto count = static_cast<std::size_t>(at - events.begin());
      this->apply(events.first(count), [&](const Event& event, const Effect& effect) {
        if (!effect.applied) return;
        const bool changed = levels_ == 1 ? effect.changed : deep_change(effect.locate);
        if (!changed) return;
        if (event.kind == Kind::clear) {
          insides_[effect.locate] = this->books_.inside(effect.locate);
        } else {
          refresh(effect.locate, effect.side);
        }
        emit(event, effect.locate, names);
      });
      if (at == events.end()) return;
      if (at->kind == Kind::new_day) {
        new_day(*at);
      } else {
        clear_all(*at, names);
      }
      events = events.subspan(count + 1);
    }
  }

 private:
  using Best = std::vector<std::uint64_t>;  // bid price, quantity, offer price, quantity of each level

  Best best_of(std::uint16_t locate) const {
    Best best(levels_ * 4);
    const auto* book = this->books_.find(locate);
    for (std::size_t which = 0; which < 2 && book != nullptr; ++which) {
      std::size_t at = which * 2;
      book->side(static_cast<Side>(which)).visit([&](const Level& level) {
        best[at] = level.price;
        best[at + 1] = level.qty;
        at += 4;
        return at < best.size();
      });
    }
    return best;
  }

  bool deep_change(std::uint16_t locate) {
    Best now = best_of(locate);
    auto& last = last_[locate];
    if (last.empty()) last.resize(now.size());
    if (now == last) return false;
    last = std::move(now);
    return true;
  }

  // The other side is as it was: to read it again would be to wait for its memory.
  void refresh(std::uint16_t locate, Side side) {
    const auto* book = this->books_.find(locate);
    if (book == nullptr) return;
    const Level best = book->side(side).best();
    Inside& inside = insides_[locate];
    (side == Side::bid ? inside.bid_px : inside.offer_px) = best.price;
    (side == Side::bid ? inside.bid_qty : inside.offer_qty) = best.qty;
  }

  // Books are a day's: the next day's begin empty, which is not a change of theirs.
  void new_day(const Event& event) {
    this->books_.apply(event);
    last_.clear();
    insides_.assign(insides_.size(), Inside{});
    filter_.new_day();
  }

  void clear_all(const Event& event, const SymbolNames& names) {
    std::vector<std::uint16_t> standing;
    for (std::size_t locate = 0; locate < this->books_.symbols(); ++locate) {
      const auto number = static_cast<std::uint16_t>(locate);
      if (this->books_.inside(number) != Inside{}) standing.push_back(number);
    }
    this->books_.apply(event);
    for (const auto locate : standing) {
      if (levels_ > 1) deep_change(locate);
      insides_[locate] = {};
      emit(event, locate, names);
    }
  }

  void emit(const Event& event, std::uint16_t locate, const SymbolNames& names) {
    const std::uint64_t ts_ns = event.ts_ns;
    if (!filter_.takes(ts_ns, locate, names)) return;
    if (shared_) {
      offsets_.push_back(event.offset);
      begins_.push_back(mine_.text.size());
    } else if (++this->changes <= skip_) {
      return;
    }
    const Inside& inside = insides_[locate];
    if (!as_text_) {
      auto& values = into_.values;
      into_.times.push_back(ts_ns);
      into_.locates.push_back(locate);
      if (levels_ == 1) {
        values.insert(values.end(), {inside.bid_px, inside.bid_qty, inside.offer_px, inside.offer_qty});
      } else {
        const Best best = best_of(locate);
        values.insert(values.end(), best.begin(), best.end());
      }
      return;
    }
    auto& text = into_.text;
    number(ts_ns, ' ');
    number(locate, ' ');
    const auto& name = names.name(locate);
    for (const char c : name) {
      if (c > ' ') text.push_back(c);
    }
    text.push_back(' ');
    if (levels_ == 1) {
      number(inside.bid_px, ' ');
      number(inside.bid_qty, ' ');
      number(inside.offer_px, ' ');
      number(inside.offer_qty, '\n');
    } else {
      const Best best = best_of(locate);
      for (std::size_t i = 0; i < best.size(); ++i) number(best[i], i + 1 == best.size() ? '\n' : ' ');
    }
  }

  void number(std::uint64_t value, char after) {
    std::array<char, 21> digits;
    char* const end = std::to_chars(digits.data(), digits.data() + 20, value).ptr;
    *end = after;
    into_.text.append(digits.data(), end + 1);
  }

  void gather(const AnyBooks::Shares& shares, Crew& crew) override {
    std::vector<InsideSink*> sinks;
    std::vector<const std::vector<std::uint64_t>*> offsets;
    for (const auto& share : shares) {
      sinks.push_back(static_cast<InsideSink*>(share.get()));
      sinks.back()->begins_.push_back(sinks.back()->mine_.text.size());  // behind the last row
      offsets.push_back(&sinks.back()->offsets_);
    }
    const Merging merging(offsets, sinks.size());
    if (as_text_) {
      gather_text(sinks, merging, crew);
    } else {
      gather_columns(sinks, merging, crew);
    }
    left_out_ = std::min<std::size_t>(skip_ - std::min(skip_, this->changes), merging.rows());
    this->changes += merging.rows();
    leave_out();
    for (auto* sink : sinks) {
      sink->offsets_.clear();
      sink->begins_.clear();
      sink->mine_.text.clear();
      sink->mine_.times.clear();
      sink->mine_.locates.clear();
      sink->mine_.values.clear();
    }
  }
  [[nodiscard]] std::size_t left_out() const override { return left_out_; }

  void gather_text(const std::vector<InsideSink*>& sinks, const Merging& merging, Crew& crew) {
    std::vector<std::size_t> places{this->text.size()};
    for (std::size_t period = 1; period <= merging.periods(); ++period) {
      std::size_t bytes = this->text.size();
      for (std::size_t i = 0; i < sinks.size(); ++i) bytes += sinks[i]->begins_[merging.begin(period, i)];
      places.push_back(bytes);
    }
    this->text.resize(places.back());
    crew.run([&](std::size_t period) {
      char* at = this->text.data() + places[period];
      merging.visit(period, [&](std::size_t share, std::size_t row) {
        const auto& begins = sinks[share]->begins_;
        const std::size_t bytes = begins[row + 1] - begins[row];
        std::memcpy(at, sinks[share]->mine_.text.data() + begins[row], bytes);
        at += bytes;
      });
    });
  }

  void gather_columns(const std::vector<InsideSink*>& sinks, const Merging& merging, Crew& crew) {
    const std::size_t before = this->times.size();
    const std::size_t width = levels_ * 4;
    this->times.resize(before + merging.rows());
    this->locates.resize(this->times.size());
    this->values.resize(this->times.size() * width);
    crew.run([&](std::size_t period) {
      std::size_t at = before + merging.rows_before(period);
      merging.visit(period, [&](std::size_t share, std::size_t row) {
        const InsideRows& from = sinks[share]->mine_;
        this->times[at] = from.times[row];
        this->locates[at] = from.locates[row];
        std::copy_n(&from.values[row * width], width, &this->values[at * width]);
        ++at;
      });
    });
  }

  // The first rows, which are not wanted: nothing else has been gathered and not been taken then.
  void leave_out() {
    if (left_out_ == 0) return;
    if (as_text_) {
      std::size_t end = 0;
      for (std::size_t row = 0; row < left_out_; ++row) end = this->text.find('\n', end) + 1;
      this->text.erase(0, end);
      return;
    }
    const auto drop = [](auto& column, std::size_t count) {
      column.erase(column.begin(), column.begin() + static_cast<std::ptrdiff_t>(count));
    };
    drop(this->times, left_out_);
    drop(this->locates, left_out_);
    drop(this->values, left_out_ * levels_ * 4);
  }

  Filter filter_;
  std::size_t levels_;
  std::uint64_t skip_;
  bool as_text_;
  bool shared_;
  InsideRows& into_;
  InsideRows mine_;                     // where shared
  std::vector<std::uint64_t> offsets_;  // of the messages of these
  std::vector<std::size_t> begins_;     // of their text
  std::size_t left_out_ = 0;
  std::unordered_map<std::uint16_t, Best> last_;
  std::vector<Inside> insides_ = std::vector<Inside>(65'536);  // by locate, as of its last change
};

// Counts of small values exactly, and of large ones in a map.
class Counter {
 public:
  void record(std::uint64_t value) {
    if (value < dense_.size()) {
      ++dense_[value];
    } else {
      ++sparse_[value];
    }
  }
  void take_from(Counter& other) {
    for (std::size_t value = 0; value < dense_.size(); ++value)
      dense_[value] += std::exchange(other.dense_[value], 0);
    for (const auto& [value, count] : other.sparse_) sparse_[value] += count;
    other.sparse_.clear();
  }
  [[nodiscard]] std::map<std::uint64_t, std::uint64_t> counts() const {
    std::map<std::uint64_t, std::uint64_t> all(sparse_.begin(), sparse_.end());
    for (std::size_t value = 0; value < dense_.size(); ++value) {
      if (dense_[value] != 0) all.emplace(value, dense_[value]);
    }
    return all;
  }

 private:
  std::vector<std::uint64_t> dense_ = std::vector<std::uint64_t>(65'536);
  std::unordered_map<std::uint64_t, std::uint64_t> sparse_;
};

// The events as they are, without books.
class EventsSink final : public AnyBooks {
 public:
  void batch(std::span<const Event> found, const SymbolNames&) override {
    events.insert(events.end(), found.begin(), found.end());
  }
  [[nodiscard]] const Anomalies& anomalies() const override { return none_; }
  [[nodiscard]] SideCounts side_counts() const override { return {}; }
  [[nodiscard]] std::size_t standing() const override { return 0; }
  [[nodiscard]] std::size_t rows() const override { return events.size(); }

  std::vector<Event> events;

 private:
  Anomalies none_;
};

struct DepthResult {
  Counter event_depth;
  Counter book_depth;
};

// How many ticks behind the inside of its side each book event is (after it; 0: at the inside, or it moved
// it), and how many levels the side of the event has. Definition: JayBeams, itch5eventdepth.
template <class S>
class DepthSink final : public BookSink<S>, public DepthResult {
 public:
  DepthSink(std::size_t capacity, Selection selection, std::size_t shares = 1)
      : BookSink<S>(capacity, shares), filter_(std::move(selection)) {}

  void batch(std::span<const Event> events, const SymbolNames& names) override {
    this->apply(events, [&](const Event& event, const Effect& effect) {
      if (event.kind == Kind::new_day) filter_.new_day();
      if (!effect.applied || event.kind >= Kind::clear_all) return;
      if (!filter_.takes(event.ts_ns, effect.locate, names)) return;
      const auto* book = this->books_.find(effect.locate);
      if (book == nullptr) return;  // an order of no shares in a book that never had any
      const Inside inside = book->inside();
      const bool bid = effect.side == Side::bid;
      const std::uint32_t best = bid ? inside.bid_px : inside.offer_px;
      std::uint64_t depth = 0;
      if (best != 0 && (bid ? effect.price < best : effect.price > best)) {
        const std::uint32_t a = detail::tick_of(best);
        const std::uint32_t b = detail::tick_of(effect.price);
        depth = a > b ? a - b : b - a;
      }
      event_depth.record(depth);
      book_depth.record(book->side(effect.side).levels());
    });
  }
  void gather(const AnyBooks::Shares& shares, Crew&) override {
    for (const auto& share : shares) {
      if (share.get() == this) continue;
      auto& other = static_cast<DepthSink&>(*share);
      event_depth.take_from(other.event_depth);
      book_depth.take_from(other.book_depth);
    }
  }

 private:
  Filter filter_;
};

struct Trade {
  std::uint64_t ts_ns;
  std::uint64_t match;
  std::uint64_t qty;
  std::uint32_t price;
  std::uint32_t day;  // of the input, by its starts
  std::uint16_t locate;
  char type;
  char side;       // of the resting order: B or S; 0: a cross has none
  char aggressor;  // the other side; 0 where the feed doesn't tell
  std::uint8_t printable;
};

struct TradesResult {
  std::vector<Trade> trades;
  // Matches of trades that were taken back, of whatever symbol, and the days that they are of: each day
  // numbers its matches anew.
  std::vector<std::uint64_t> broken;
  std::vector<std::uint32_t> broken_days;
};

// Every trade: executions at the resting order's price or another, trades against hidden orders, crosses (of
// which those of no shares only tell that there was none). Of a trade against a hidden order the feeds of
// today always name the buyer's side, which says nothing.
template <class S>
class TradesSink final : public BookSink<S>, public TradesResult {
 public:
  TradesSink(std::size_t capacity, Selection selection, std::size_t shares = 1)
      : BookSink<S>(capacity, shares),
        filter_(std::move(selection)),
        shared_(shares > 1),
        into_(shared_ ? mine_ : trades) {}
  [[nodiscard]] std::size_t rows() const override { return into_.size(); }

  void batch(std::span<const Event> events, const SymbolNames& names) override {
    this->apply(events, [&](const Event& event, const Effect& effect) {
      if (event.kind == Kind::new_day) filter_.new_day();
      if (event.kind == Kind::new_day) ++day_;
      if (event.kind == Kind::broken) {
        broken.push_back(event.new_ref);
        broken_days.push_back(day_);
      }
      const bool resting =
          event.kind == Kind::execute || event.kind == Kind::execute_at || event.kind == Kind::execute_left;
      const bool cross = event.kind == Kind::cross;
      const bool hidden = event.kind == Kind::trade || (cross && event.ref != 0);
      if (!(resting && effect.applied) && !hidden) return;
      const std::uint16_t locate = resting ? effect.locate : event.locate;
      if (!filter_.takes(event.ts_ns, locate, names)) return;
      const Side side = resting ? effect.side : event.side;
      const std::uint64_t match = event.kind == Kind::execute_left ? 0 : event.new_ref;
      const std::uint32_t price = event.kind == Kind::execute ? effect.price : event.price;
      if (shared_) offsets_.push_back(event.offset);
      into_.push_back({.ts_ns = event.ts_ns,
                       .match = match,
                       .qty = resting ? effect.qty
                              : cross ? event.ref
                                      : event.qty,
                       .price = price,
                       .day = day_,
                       .locate = locate,
                       .type = event.type,
                       .side = cross               ? '\0'
                               : side == Side::bid ? 'B'
                                                   : 'S',
                       .aggressor = !resting            ? '\0'
                                    : side == Side::bid ? 'S'
                                                        : 'B',
                       .printable = event.printable});
    });
  }
  void gather(const AnyBooks::Shares& shares, Crew&) override {
    std::vector<TradesSink*> sinks;
    std::vector<const std::vector<std::uint64_t>*> offsets;
    for (const auto& share : shares) {
      sinks.push_back(static_cast<TradesSink*>(share.get()));
      offsets.push_back(&sinks.back()->offsets_);
    }
    const Merging merging(offsets, 1);
    merging.visit(0, [&](std::size_t share, std::size_t row) { trades.push_back(sinks[share]->mine_[row]); });
    for (auto* sink : sinks) {
      sink->mine_.clear();
      sink->offsets_.clear();
      if (sink == this) continue;
      broken.insert(broken.end(), sink->broken.begin(), sink->broken.end());
      broken_days.insert(broken_days.end(), sink->broken_days.begin(), sink->broken_days.end());
      sink->broken.clear();
      sink->broken_days.clear();
    }
  }

 private:
  Filter filter_;
  bool shared_;
  std::vector<Trade>& into_;
  std::vector<Trade> mine_;  // where shared: with those of other symbols they are gathered
  std::vector<std::uint64_t> offsets_;
  std::uint32_t day_ = 0;
};

struct SnapshotLevel {
  std::uint64_t qty;
  std::uint64_t orders;
  std::uint32_t price;
  std::uint32_t level;  // 0 is the inside
  std::uint16_t locate;
  char side;
};

struct SnapshotResult {
  [[nodiscard]] virtual std::vector<SnapshotLevel> levels() const = 0;
  virtual ~SnapshotResult() = default;
};

// The whole market as it stood when the last message of the given time had been applied.
template <class S>
class SnapshotSink final : public BookSink<S>, public SnapshotResult {
 public:
  SnapshotSink(std::size_t capacity, std::uint64_t at_ns) : BookSink<S>(capacity), past_(at_ns) {}

  void batch(std::span<const Event> events, const SymbolNames&) override {
    while (!events.empty()) {
      std::size_t count = 0;
      while (count < events.size() && past_.sees(events[count])) ++count;
      this->apply(events.first(count), [](const Event&, const Effect&) {});
      events = events.subspan(std::min(count + 1, events.size()));
    }
  }
  [[nodiscard]] bool over() const override { return past_.over(); }

  [[nodiscard]] std::vector<SnapshotLevel> levels() const override {
    std::unordered_map<std::uint64_t, std::uint64_t> orders;  // by locate, side and price
    const auto key = [](std::uint16_t locate, Side side, std::uint32_t price) {
      return std::uint64_t{locate} << 33 | static_cast<std::uint64_t>(side) << 32 | price;
    };
    this->books_.table().for_each(
        [&](std::uint64_t, const Order& order) { ++orders[key(order.locate, order.side, order.price)]; });
    std::vector<SnapshotLevel> all;
    for (std::size_t locate = 0; locate < this->books_.symbols(); ++locate) {
      const auto number = static_cast<std::uint16_t>(locate);
      const auto* book = this->books_.find(number);
      for (const Side side : {Side::bid, Side::offer}) {
        if (book == nullptr) break;
        std::uint32_t at = 0;
        book->side(side).visit([&](const Level& level) {
          all.push_back({.qty = level.qty,
                         .orders = orders[key(number, side, level.price)],
                         .price = level.price,
                         .level = at++,
                         .locate = number,
                         .side = side == Side::bid ? 'B' : 'S'});
          return true;
        });
      }
    }
    return all;
  }

 private:
  Past past_;
};

}  // namespace latlab::market
