// Threads: one thread owns it; while it feeds, each session runs in a thread of its own and none touches what
// is another's.
//
// One feed, read by several sessions at once, each with the symbols of its share and a sink of its own: books
// of different symbols know nothing of each other. Each thread scans a part of a block of the feed and notes
// whose each message is; then each takes its own messages out of all parts. Where a part begins is guessed
// (by three plausible frames in a row), and what was scanned from there counts only if the part before it
// ends there: else one thread goes on from where that ended. So does it over frames that aren't plain
// (market/scan.hpp).
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
#include <span>
#include <utility>
#include <vector>

#include "market/crew.hpp"
#include "market/resync.hpp"
#include "market/scan.hpp"
#include "market/session.hpp"
#include "market/sinks.hpp"
#include "not_copied.hpp"

namespace latlab::market {

inline constexpr std::size_t kMostShares = 64;

class SharedSessions : NotCopied {
 public:
  using Sinks = std::vector<std::unique_ptr<AnyBooks>>;

  // Sinks: one for each share; a feed that isn't ITCH is the first one's alone, since its messages don't
  // number their symbols.
  SharedSessions(char dialect, bool lenient, const Sinks& sinks) : sinks_(sinks) {
    const std::size_t count = dialect == 'I' ? sinks.size() : 1;
    if (sinks.size() > 1) crew_ = std::make_unique<Crew>(sinks.size());
    for (std::size_t i = 0; i < count; ++i)
      sessions_.push_back(std::make_unique<Session>(dialect, lenient, *sinks[i]));
    if (count == 1) return;
    owners_ = std::make_unique<Owners>();
    for (std::size_t i = 0; i < owners_->size(); ++i) (*owners_)[i] = static_cast<std::uint8_t>(i % count);
    for (auto& session : sessions_) session->share({});
    lead().share([this](Bytes frames) { return spread(frames); });
    for (std::size_t i = 0; i < count; ++i) parts_.emplace_back(count);
  }

  void feed(Bytes frames) {
    if (!crew_) {
      lead().feed(frames);
      return;
    }
    if (entangled_) return;
    lead().feed(frames);
    gather();
  }

  void finish() {
    for (auto& session : sessions_) session->finish();
    if (crew_) gather();
  }

  [[nodiscard]] bool stopped() const noexcept { return sessions_[0]->stopped(); }
  [[nodiscard]] bool entangled() const noexcept { return entangled_; }
  // The first session counts the whole feed.
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
  // Bytes that are scanned before they are decoded: they should still be in the caches, and be worth the two
  // meetings of all threads.
  static constexpr std::size_t kBlock = 1U << 22;
  static constexpr std::size_t kLeast = 1U << 14;  // of a part that is worth a thread
  static constexpr std::size_t kStep = 256;        // messages

  // A part of a block: what was counted in it, and whose its messages are.
  struct Part {
    explicit Part(std::size_t shares) : places(shares), next(shares) {}
    // The messages of a share, by where they stand in the block.
    [[nodiscard]] std::span<const std::uint32_t> of(std::size_t share) const noexcept {
      return std::span(places[share]).first(static_cast<std::size_t>(next[share] - places[share].data()));
    }
    void clear() noexcept {
      for (std::size_t share = 0; share < places.size(); ++share) next[share] = places[share].data();
    }
    void make_room() {
      for (std::size_t share = 0; share < places.size(); ++share) {
        const std::size_t noted = of(share).size();
        if (places[share].size() >= noted + kStep) continue;
        places[share].resize(2 * places[share].size() + kStep);
        next[share] = places[share].data() + noted;
      }
    }
    Stretch stretch;
    std::vector<std::vector<std::uint32_t>> places;  // with room for some
    std::vector<std::uint32_t*> next;                // behind each share's last
  };

  static void append(Names& all, const Names& more) { all.insert(all.end(), more.begin(), more.end()); }
  [[nodiscard]] Session& lead() const noexcept { return *sessions_[0]; }

  std::size_t spread(Bytes frames) {
    if (!std::exchange(balanced_, true)) balance(frames);
    std::size_t at = 0;
    for (std::size_t before = SIZE_MAX; at != before && at < frames.size() && !lead().stopped();) {
      before = at;
      at += spread_block(frames.subspan(at), lead().offset() + at);
    }
    return at;
  }

  // Of at most kBlock bytes, and what its last frame has beyond them. Returns how many bytes were used.
  std::size_t spread_block(Bytes block, std::uint64_t offset) {
    const std::size_t size = std::min(block.size(), kBlock);
    const std::size_t count = std::clamp<std::size_t>(size / kLeast, 1, parts_.size());
    std::vector<std::size_t> begins(count + 1, size);
    for (std::size_t i = 0; i < count; ++i) {
      const Row row = find_row(block.first(size), size / count * i, sound_frame, false);
      begins[i] = i == 0 ? 0 : row.found ? row.at : size;
    }
    const auto scan_part = [&](std::size_t i) {
      if (i >= count) return;
      parts_[i].stretch = {.begin = begins[i], .end = begins[i]};
      parts_[i].clear();
      scan_to(block, begins[i + 1], parts_[i]);
    };
    if (count == 1) {
      scan_part(0);
    } else {
      crew_->run(scan_part);
    }
    const std::size_t end = join(block, begins, offset);
    crew_->run([&](std::size_t i) {
      for (std::size_t part = 0; part < count; ++part) sessions_[i]->take(parts_[part].of(i), block, offset);
      sessions_[i]->flush();
    });
    return end;
  }

  // Plain frames, noted for whose they are.
  void scan_to(Bytes block, std::size_t to, Part& part) const {
    const std::uint8_t* const owners = owners_->data();
    for (bool more = true; more;) {
      part.make_room();
      std::size_t left = kStep;
      scan(block, to, part.stretch, [&, next = part.next.data()](const std::uint8_t* message) {
        const std::size_t owner = owners[itch::big_endian<std::uint16_t>(message + 1)];
        *next[owner]++ = static_cast<std::uint32_t>(message - block.data());
        return --left != 0;
      });
      more = left == 0;
    }
  }

  // Counts the parts in their order, each if the one before it has ended where it begins, and goes over what
  // lies between them. Returns where the last ended.
  std::size_t join(Bytes block, const std::vector<std::size_t>& begins, std::uint64_t offset) {
    std::size_t at = 0;
    Part* last = parts_.data();
    for (std::size_t i = 0; i + 1 < begins.size(); ++i) {
      Part& part = parts_[i];
      if (at != begins[i] || lead().stopped()) {
        part.clear();
      } else {
        lead().count(part.stretch);
        at = part.stretch.end;
        last = &part;
      }
      at = go_on(block, at, begins[i + 1], *last, offset);
    }
    return at;
  }

  // By this thread alone, over any frames that begin before `to`.
  std::size_t go_on(Bytes block, std::size_t at, std::size_t to, Part& part, std::uint64_t offset) {
    while (at < to && !lead().stopped()) {
      part.stretch = {.begin = at, .end = at};
      scan_to(block, to, part);
      lead().count(part.stretch);
      at = part.stretch.end;
      if (at >= to) break;
      itch::FrameCursor cursor(block.subspan(at), offset + at);
      itch::Frame frame;
      if (!cursor.next(frame)) break;
      if (lead().count(frame)) {
        part.make_room();
        for (auto*& next : part.next) *next++ = static_cast<std::uint32_t>(at + 2);
      }
      at += cursor.consumed();
    }
    return at;
  }

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
  std::vector<Part> parts_;
  std::vector<std::unique_ptr<Session>> sessions_;
  std::unique_ptr<Crew> crew_;
  bool balanced_ = false;
  bool entangled_ = false;
};

}  // namespace latlab::market
