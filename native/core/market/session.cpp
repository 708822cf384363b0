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

Session::Session(char dialect, bool lenient, Sink& sink)
    : sink_(sink), order_(dialect), dialect_(dialect), lenient_(lenient) {}

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

void Session::name(const std::uint8_t* message, std::uint16_t locate) noexcept {
  const std::uint8_t at = kNameAt[message[0]];
  if (at != 0) names_.set(locate, message + at);
}

std::size_t Session::run(Bytes frames) {
  if (run_) {
    const std::size_t used = run_(frames);
    offset_ += used;
    return used;
  }
  const std::size_t used = dialect_ == 'I' ? run_itch(frames) : run_pitch(frames);
  flush();
  return used;
}

// Some hundred messages are scanned, then decoded. What is met between two plain ones is seldom.
std::size_t Session::run_itch(Bytes frames) {
  std::array<std::uint32_t, kNoted> places;
  Stretch stretch;
  while (!stopped_) {
    const std::size_t from = stretch.end;
    const std::uint8_t* const base = frames.data() + from;
    std::size_t noted = 0;
    scan(frames, frames.size(), stretch, [&](const std::uint8_t* message) {
      places[noted] = static_cast<std::uint32_t>(message - base);
      return ++noted != kNoted;
    });
    take(std::span(places).first(noted), frames.subspan(from), offset_ + from);
    if (noted == kNoted) continue;
    count(stretch);
    const std::size_t at = stretch.end;
    stretch = {.begin = at, .end = at};
    itch::FrameCursor cursor(frames.subspan(at), offset_ + at);
    itch::Frame frame;
    if (!cursor.next(frame)) break;
    places[0] = 2;
    if (count(frame)) take(std::span(places).first(1), frames.subspan(at), frame.offset);
    stretch.begin = stretch.end = at + cursor.consumed();
  }
  offset_ += stretch.end;
  return stretch.end;
}

void Session::count(std::uint64_t first_ns, std::uint64_t last_ns, bool begins) noexcept {
  counts_.early_ends += begins ? 0 : empty_;
  empty_ = 0;
  if (counts_.messages == counts_.unknown) {
    counts_.first_ns = first_ns;
  } else {
    counts_.out_of_order += static_cast<std::uint64_t>((first_ns < counts_.last_ns) & !begins);
  }
  counts_.last_ns = last_ns;
}

void Session::count(const Stretch& plain) {
  if (plain.empty()) return;
  count(plain.first_ns, plain.last_ns, false);
  counts_.out_of_order += plain.back;
  for (std::size_t type = 0; type < plain.types.size(); ++type) {
    counts_.by_type[type] += plain.types[type];
    counts_.messages += plain.types[type];
  }
}

bool Session::count(const itch::Frame& frame) {
  if (frame.size == 0) {
    ++counts_.empty;
    ++empty_;
    return false;
  }
  const std::uint8_t type = frame.data[0];
  if (itch::well_formed(frame)) {
    const std::uint64_t ts_ns = itch::big_endian_48(frame.data + 5);
    count(ts_ns, ts_ns, type == 'S' && frame.data[11] == 'O');
  } else if (itch::kLengths[type] == 0) {
    ++counts_.unknown;
  } else {
    malformed(frame.offset, complaint(dialect_, frame));
    return false;
  }
  ++counts_.by_type[type];
  ++counts_.messages;
  return itch::well_formed(frame);
}

void Session::take(std::span<const std::uint32_t> places, Bytes bytes, std::uint64_t offset) {
  const std::uint8_t* const begin = bytes.data();
  while (!places.empty()) {
    const std::size_t count = std::min(places.size(), kBatch - batched_);
    Event* event = events_.data() + batched_;
    bool begins = false;
    std::size_t taken = 0;
    for (; taken < count && !begins; ++taken, ++event) {
      const std::uint32_t at = places[taken];
      const std::uint8_t* const message = begin + at;
      if (bytes.size() - at >= itch::kRoom) [[likely]] {
        *event = itch::detail::decode(message, offset + at - 2);
      } else {
        *event =
            itch::decode({.data = message, .offset = offset + at - 2, .size = itch::kLengths[message[0]]});
      }
      const std::uint16_t locate = event->locate;
      if ((event->type == 'R') | !names_.known(locate)) [[unlikely]]
        name(message, locate);
      begins = event->kind == Kind::new_day;
    }
    batched_ += taken;
    if (batched_ == kBatch || begins) flush();
    if (begins) new_day();
    places = places.subspan(taken);
  }
}

std::size_t Session::run_pitch(Bytes frames) {
  itch::FrameCursor cursor(frames, offset_);
  itch::Frame frame;
  while (cursor.next(frame)) {
    if (frame.size == 0) {
      ++counts_.empty;
      ++empty_;
      continue;
    }
    Event& event = events_[batched_];
    event = Event{};
    event.offset = frame.offset;
    const auto result = dialect_ == 'P' ? binary_.decode(frame.data, frame.size, event)
                                        : ascii_.decode(frame.data, frame.size, event);
    const auto& names = (dialect_ == 'P' ? binary_.symbols() : ascii_.symbols()).names();
    for (; named_ < names.size(); ++named_) {
      names_.set(static_cast<std::uint16_t>(named_ + 1),
                 reinterpret_cast<const std::uint8_t*>(names[named_].data()));
    }
    if (result == pitch::Result::malformed) {
      malformed(frame.offset, complaint(dialect_, frame));
      if (stopped_) break;
      continue;
    }
    ++counts_.by_type[static_cast<unsigned char>(event.type)];
    ++counts_.messages;
    if (result == pitch::Result::unknown) {
      ++counts_.unknown;
      continue;
    }
    const bool begins = event.kind == Kind::new_day;
    counts_.early_ends += begins ? 0 : empty_;
    empty_ = 0;
    if (counts_.messages - counts_.unknown == 1) counts_.first_ns = event.ts_ns;
    const std::uint8_t unit = dialect_ == 'P' ? frame.data[0] : 0;
    counts_.out_of_order += static_cast<std::uint64_t>(order_.back(unit, event.ts_ns, begins));
    counts_.last_ns = event.ts_ns;
    if (++batched_ == kBatch || begins) flush();
    if (begins) new_day();
  }
  offset_ = cursor.offset();
  return cursor.consumed();
}

// Names are given anew behind a day's start, and what came before it had the old ones.
void Session::new_day() {
  if (names_.count() == 0 && !shared_) return;
  ended_.push_back({.rows = sink_.rows(), .names = names_.all()});
  names_.clear();
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
