// Threads: one thread owns it; while it feeds, each session runs in a thread of its own and none touches what
// is another's.
//
// One feed, read by several sessions at once, each with the symbols of its share and a sink of its own: books
// of different symbols know nothing of each other. A session passes over the frames of others before it
// decodes them.
//
// The sinks' results are put together in the feed's order behind each piece (AnyBooks::gather). The one thing
// that symbols share is that a reference is one order's, of one symbol: where a feed breaks this rule, or
// speaks of orders that never came, one session for all may do something else than several. Then the pieces
// are told to be entangled, nothing of the last is given out, and who feeds begins again with one session.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "market/crew.hpp"
#include "market/session.hpp"
#include "market/sinks.hpp"

namespace latlab::market {

inline constexpr std::size_t kMostShares = 64;

class SharedSessions {
 public:
  using Sinks = std::vector<std::unique_ptr<AnyBooks>>;

  // Sinks: one for each share; a feed that isn't ITCH is the first one's alone, since its messages don't
  // number their symbols.
  SharedSessions(char dialect, bool lenient, const Sinks& sinks) : sinks_(sinks) {
    const std::size_t count = dialect == 'I' ? sinks.size() : 1;
    if (sinks.size() > 1) crew_ = std::make_unique<Crew>(sinks.size());
    if (count > 1) {
      owners_ = std::make_unique<Owners>();
      for (std::size_t i = 0; i < owners_->size(); ++i) (*owners_)[i] = static_cast<std::uint8_t>(i % count);
    }
    for (std::size_t i = 0; i < count; ++i) {
      const Share share{.owners = owners_ ? owners_->data() : nullptr, .index = static_cast<std::uint8_t>(i)};
      sessions_.push_back(std::make_unique<Session>(dialect, lenient, *sinks[i], share));
    }
  }

  void feed(Bytes frames) {
    if (!crew_) {
      sessions_[0]->feed(frames);
      return;
    }
    if (entangled_) return;
    if (!owners_) {
      sessions_[0]->feed(frames);
    } else {
      if (!std::exchange(balanced_, true)) balance(frames);
      crew_->run([&](std::size_t i) { sessions_[i]->feed(frames); });
    }
    gather();
  }

  void finish() {
    for (auto& session : sessions_) session->finish();
    if (crew_) gather();
  }

  [[nodiscard]] bool stopped() const noexcept { return sessions_[0]->stopped(); }
  [[nodiscard]] bool entangled() const noexcept { return entangled_; }
  // Each session counts the whole feed.
  [[nodiscard]] const FeedCounts& counts() const noexcept { return sessions_[0]->counts(); }
  [[nodiscard]] const std::vector<TransportError>& errors() const noexcept { return sessions_[0]->errors(); }
  [[nodiscard]] std::uint64_t offset() const noexcept { return sessions_[0]->offset(); }

  // Each session knows the names of its own symbols.
  [[nodiscard]] std::vector<std::pair<std::uint16_t, Symbol>> names() const {
    auto all = sessions_[0]->names().all();
    for (std::size_t i = 1; i < sessions_.size(); ++i) append(all, sessions_[i]->names().all());
    return all;
  }
  // The days that have ended since the last call: with the rows and the names of all.
  std::vector<EndedDay> take_ended() {
    auto days = sessions_[0]->take_ended();
    if (!crew_) return days;
    for (std::size_t i = 1; i < sessions_.size(); ++i) {
      const auto more = sessions_[i]->take_ended();
      for (std::size_t day = 0; day < days.size(); ++day) {
        days[day].rows += more[day].rows;
        append(days[day].names, more[day].names);
      }
    }
    std::erase_if(days, [](const EndedDay& day) { return day.names.empty(); });
    for (auto& day : days) day.rows -= std::min(day.rows, sinks_[0]->left_out());
    return days;
  }

 private:
  using Owners = std::array<std::uint8_t, 65'536>;
  using Names = std::vector<std::pair<std::uint16_t, Symbol>>;

  static void append(Names& all, const Names& more) { all.insert(all.end(), more.begin(), more.end()); }

  // By what the first piece holds of each symbol, so that every share has as much to do: the busiest first,
  // each to who has least (Graham, Bounds on multiprocessing timing anomalies, 1969).
  void balance(Bytes frames) {
    std::vector<std::uint32_t> messages(owners_->size());
    itch::FrameCursor cursor(frames);
    itch::Frame frame;
    while (cursor.next(frame)) {
      if (itch::well_formed(frame)) ++messages[itch::big_endian<std::uint16_t>(frame.data + 1)];
    }
    std::vector<std::uint32_t> order(messages.size());
    std::iota(order.begin(), order.end(), 0U);
    std::erase_if(order, [&](std::uint32_t locate) { return messages[locate] == 0; });
    std::stable_sort(order.begin(), order.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return messages[a] > messages[b]; });
    std::vector<std::uint64_t> load(sessions_.size());
    for (const auto locate : order) {
      const auto least = std::min_element(load.begin(), load.end());
      *least += messages[locate];
      (*owners_)[locate] = static_cast<std::uint8_t>(least - load.begin());
    }
  }

  void gather() {
    for (const auto& sink : sinks_) {
      if (!owners_) break;
      const Anomalies& found = sink->anomalies();
      entangled_ |= (found.unknown_order | found.duplicate_order | found.other_symbol) != 0;
    }
    if (!entangled_) sinks_[0]->gather(sinks_, *crew_);
  }

  const Sinks& sinks_;
  std::unique_ptr<Owners> owners_;
  std::vector<std::unique_ptr<Session>> sessions_;
  std::unique_ptr<Crew> crew_;
  bool balanced_ = false;
  bool entangled_ = false;
};

}  // namespace latlab::market
