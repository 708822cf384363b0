#include "market/session.hpp"

#include <algorithm>
#include <utility>

namespace latlab::market {
namespace {

std::string quoted(char type) {
  if (type >= 0x21 && type < 0x7f) return std::string("'") + type + "'";
  constexpr char kHex[] = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(type);
  return std::string("0x") + kHex[byte >> 4] + kHex[byte & 15];
}

// Where a message names its symbol: 11 in the directory and others, 24 in orders and trades; 0: nowhere.
constexpr std::array<std::uint8_t, 256> kNameAt = [] {
  std::array<std::uint8_t, 256> at{};
  for (const char type : {'R', 'H', 'Y', 'K', 'J', 'h', 'N', 'O'}) at[static_cast<unsigned char>(type)] = 11;
  for (const char type : {'A', 'F', 'P'}) at[static_cast<unsigned char>(type)] = 24;
  at['L'] = 15;
  at['Q'] = 19;
  at['I'] = 28;
  return at;
}();

}  // namespace

std::string complaint(char dialect, const itch::Frame& frame) {
  if (dialect == 'I') {
    return "a message of type " + quoted(frame.type()) + " and length " + std::to_string(frame.size) +
           ", which should be " + std::to_string(itch::kLengths[frame.data[0]]);
  }
  if (dialect == 'P') {
    return "a PITCH message of type " + quoted(frame.size > 2 ? static_cast<char>(frame.data[2]) : '\0') +
           " whose length or price is out of range";
  }
  std::string what =
      "a line that is not a PITCH message: '" +
      std::string(reinterpret_cast<const char*>(frame.data), std::min<std::size_t>(frame.size, 24)) + "'";
  for (auto& c : what) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  return what;
}

Session::Session(char dialect, bool lenient, Sink& sink, Share share)
    : sink_(sink), order_(dialect), share_(share), dialect_(dialect), lenient_(lenient) {}

void Session::feed(Bytes frames) {
  if (stopped_) return;
  if (lenient_ && dialect_ == 'I') {
    resync_.feed(frames, [this](Bytes sound) { run(sound); }, [this](std::size_t bytes) { jump(bytes); });
    return;
  }
  joiner_.feed(frames, [this](Bytes whole) { return run(whole); }, [this] { return stopped_; });
}

void Session::finish() {
  resync_.finish([this](Bytes sound) { run(sound); }, [this](std::size_t bytes) { jump(bytes); });
  const std::size_t rest = joiner_.rest() + resync_.rest();
  // Who wants no more has left the rest unread.
  if (!stopped_ && !sink_.over() && rest != 0) {
    errors_.push_back({.offset = offset_,
                       .what = "the stream ends inside a message: " + std::to_string(rest) +
                               " bytes are not a whole frame"});
  }
  sink_.finish(names_);
}

void Session::name(const itch::Frame& frame, std::uint16_t locate) noexcept {
  const std::uint8_t at = kNameAt[frame.data[0]];
  // One condition: whether a message has a name can't be foretold, but that it is known already can.
  const bool wanted = (at != 0) & ((frame.data[0] == 'R') | !names_.known(locate));
  if (wanted) [[unlikely]]
    names_.set(locate, frame.data + at);
}

std::size_t Session::run(Bytes frames) {
  std::size_t used = 0;
  if (share_.owners != nullptr) {
    used = run_share(frames);
  } else if (dialect_ == 'I') {
    used = run_with(frames, [this](const itch::Frame& frame, std::size_t room, Event& event) {
      if (!itch::well_formed(frame)) {
        return itch::kLengths[frame.data[0]] == 0 ? pitch::Result::unknown : pitch::Result::malformed;
      }
      event = itch::decode(frame, room);
      name(frame, event.locate);
      return pitch::Result::event;
    });
  } else {
    used = run_with(frames, [this](const itch::Frame& frame, std::size_t, Event& event) {
      event = Event{};
      event.offset = frame.offset;
      const auto result = dialect_ == 'P' ? binary_.decode(frame.data, frame.size, event)
                                          : ascii_.decode(frame.data, frame.size, event);
      const auto& names = (dialect_ == 'P' ? binary_.symbols() : ascii_.symbols()).names();
      for (; named_ < names.size(); ++named_) {
        names_.set(static_cast<std::uint16_t>(named_ + 1),
                   reinterpret_cast<const std::uint8_t*>(names[named_].data()));
      }
      return result;
    });
  }
  flush();
  return used;
}

template <class Decode>
std::size_t Session::run_with(Bytes frames, Decode&& decode) {
  itch::FrameCursor cursor(frames, offset_);
  itch::Frame frame;
  while (cursor.next(frame)) {
    if (frame.size == 0) {
      ++counts_.empty;
      ++empty_;
      continue;
    }
    Event& event = events_[batched_];
    const pitch::Result result = decode(frame, cursor.room(frame), event);
    if (result == pitch::Result::malformed) {
      malformed(frame.offset, complaint(dialect_, frame));
      if (stopped_) break;
      continue;
    }
    const bool unknown = result == pitch::Result::unknown;
    ++counts_.by_type[unknown && dialect_ == 'I' ? frame.data[0] : static_cast<unsigned char>(event.type)];
    ++counts_.messages;
    if (unknown) {
      ++counts_.unknown;
      continue;
    }
    const bool begins = event.kind == Kind::new_day;
    if (empty_ != 0) [[unlikely]]
      counts_.early_ends += begins ? 0 : empty_;
    empty_ = 0;
    if (counts_.messages - counts_.unknown == 1) counts_.first_ns = event.ts_ns;
    const std::uint8_t unit = dialect_ == 'P' ? frame.data[0] : 0;
    counts_.out_of_order += static_cast<std::uint64_t>(order_.back(unit, event.ts_ns, begins));
    counts_.last_ns = event.ts_ns;
    put_event(begins);
  }
  offset_ = cursor.offset();
  return cursor.consumed();
}

// The event that stands behind the batch.
void Session::put_event(bool begins) {
  // Names are given anew behind a day's start, and what came before it had the old ones.
  if (++batched_ == kBatch || begins) flush();
  if (begins && (names_.count() != 0 || share_.owners != nullptr)) [[unlikely]] {
    ended_.push_back({.rows = sink_.rows(), .names = names_.all()});
    names_.clear();
  }
}

// Of ITCH. Whose a message is can't be foretold: without a branch for it, the frames of this share are noted
// first and decoded then. What is counted is the whole feed, in variables of its own: bytes that are read
// might be any member's, for all that a compiler knows.
std::size_t Session::run_share(Bytes frames) {
  itch::FrameCursor cursor(frames, offset_);
  std::array<const std::uint8_t*, kNoted> own;
  std::size_t noted = 0;
  std::array<std::uint32_t, 256> types{};
  std::uint64_t sound = 0;
  std::uint64_t back = 0;
  std::uint64_t last_ns = counts_.last_ns;
  bool seen = counts_.messages != counts_.unknown;
  const Share share = share_;
  const auto take = [&] {
    take_own(std::span(own).first(noted), frames);
    noted = 0;
  };
  itch::Frame frame;
  while (cursor.next(frame)) {
    if (!itch::well_formed(frame)) [[unlikely]] {
      if (frame.size == 0) {
        ++counts_.empty;
        ++empty_;
      } else if (itch::kLengths[frame.data[0]] == 0) {
        ++types[frame.data[0]];
        ++counts_.unknown;
        ++counts_.messages;
      } else {
        malformed(frame.offset, complaint(dialect_, frame));
        if (stopped_) break;
      }
      continue;
    }
    const std::uint8_t* const m = frame.data;
    const std::uint64_t ts_ns = itch::big_endian_48(m + 5);
    const bool system = m[0] == 'S';  // of no symbol: each share is told
    const bool begins = system && m[11] == 'O';
    if (empty_ != 0) [[unlikely]] {
      counts_.early_ends += begins ? 0 : empty_;
      empty_ = 0;
    }
    if (!seen) [[unlikely]] {
      counts_.first_ns = last_ns = ts_ns;
      seen = true;
    }
    ++types[m[0]];
    ++sound;
    back += static_cast<std::uint64_t>((ts_ns < last_ns) & !begins);
    last_ns = ts_ns;
    own[noted] = m;
    noted += (share.owners[itch::big_endian<std::uint16_t>(m + 1)] == share.index) | system;
    if (noted == kNoted) take();
  }
  take();
  for (std::size_t type = 0; type < types.size(); ++type) counts_.by_type[type] += types[type];
  counts_.messages += sound;
  counts_.out_of_order += back;
  counts_.last_ns = last_ns;
  offset_ = cursor.offset();
  return cursor.consumed();
}

void Session::take_own(std::span<const std::uint8_t* const> own, Bytes frames) {
  for (const std::uint8_t* const message : own) {
    const auto at = static_cast<std::size_t>(message - frames.data());
    const itch::Frame frame{.data = message, .offset = offset_ + at - 2, .size = itch::kLengths[message[0]]};
    Event& event = events_[batched_];
    event = itch::decode(frame, frames.size() - at);
    name(frame, event.locate);
    put_event(event.kind == Kind::new_day);
  }
}

void Session::malformed(std::uint64_t offset, std::string what) {
  ++counts_.malformed;
  stopped_ = !lenient_;
  if (errors_.size() < kMaxErrors) errors_.push_back({.offset = offset, .what = std::move(what)});
}

void Session::jump(std::size_t bytes) {
  counts_.jumped += bytes;
  malformed(offset_, std::to_string(bytes) + " bytes that are no messages");
  offset_ += bytes;
}

void Session::flush() {
  if (batched_ != 0) sink_.batch(std::span<const Event>(events_.data(), batched_), names_);
  batched_ = 0;
}

}  // namespace latlab::market
