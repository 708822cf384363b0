#include "pipeline/exchange.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <ctime>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace latlab::pipeline {

namespace {

constexpr std::size_t kLatenessSamples = 1 << 16;

// A sleep costs a wake-up of some 30 µs on an idle machine, so shorter gaps are not slept through one by one:
// what has become due meanwhile leaves together, and its lateness is reported.
void sleep_until(std::uint64_t at_ns) {
  const timespec until{static_cast<time_t>(at_ns / 1'000'000'000U),
                       static_cast<long>(at_ns % 1'000'000'000U)};
  while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
}

std::uint64_t stamp_of(const market::itch::Frame& frame) {
  return frame.size >= 11 ? market::itch::big_endian_48(frame.data + 5) : 0;
}

}  // namespace

FeedFile::FeedFile(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status{};
  if (fd < 0 || ::fstat(fd, &status) != 0) {
    if (fd >= 0) ::close(fd);
    throw PlanError(path + ": can't be opened");
  }
  size_ = static_cast<std::size_t>(status.st_size);
  void* memory =
      size_ == 0 ? MAP_FAILED : ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
  ::close(fd);
  if (memory == MAP_FAILED) throw PlanError(path + ": is empty or can't be mapped");
  data_ = static_cast<const std::uint8_t*>(memory);
  const std::string fault = read_through();
  if (!fault.empty()) {
    ::munmap(memory, size_);
    throw PlanError(path + fault);
  }
}

std::string FeedFile::read_through() {
  market::itch::FrameCursor frames(bytes());
  market::itch::Frame frame;
  std::uint64_t strange = 0;
  std::uint64_t first_strange = 0;
  while (frames.next(frame)) {
    if (market::itch::well_formed(frame)) {
      ++messages_;
      note_order(market::itch::decode(frame));
    } else if (strange++ == 0) {
      first_strange = frame.offset;
    }
  }
  // A few strange frames are a feed's own; where they are the most, it is not an ITCH file, whatever its end
  // is like.
  if (strange > messages_ || messages_ == 0) {
    return ": offset " + std::to_string(first_strange) + ": is not an ITCH-5.0 message";
  }
  if (frames.truncated()) return ": offset " + std::to_string(frames.offset()) + ": the frame is cut short";
  return {};
}

void FeedFile::note_order(const market::Event& event) noexcept {
  if (event.kind != market::Kind::add && event.kind != market::Kind::replace) return;
  const std::uint64_t entering = event.kind == market::Kind::add ? event.ref : event.new_ref;
  orders_.first_ref = std::min(orders_.first_ref, entering);
  orders_.last_ref = std::max(orders_.last_ref, entering);
  orders_.last_locate = std::max(orders_.last_locate, event.locate);
}

FeedFile::~FeedFile() {
  ::munmap(const_cast<std::uint8_t*>(data_), size_);  // NOLINT: mmap gave it as void*
}

Symbols read_symbols(const std::vector<const FeedFile*>& files) {
  Symbols symbols;
  std::unordered_map<std::string, std::uint32_t> numbers;
  for (std::size_t venue = 0; venue < files.size() && venue < kVenues; ++venue) {
    auto& mine = symbols.by_locate[venue];
    market::itch::FrameCursor frames(files[venue]->bytes());
    market::itch::Frame frame;
    while (frames.next(frame)) {
      if (!market::itch::well_formed(frame)) continue;
      const auto locate = market::itch::big_endian<std::uint16_t>(frame.data + 1);
      const bool directory = frame.type() == 'R';
      if (locate < mine.size() && mine[locate] != UINT32_MAX && !directory) continue;
      if (locate >= mine.size()) mine.resize(locate + std::size_t{1}, UINT32_MAX);
      const std::string name = directory ? std::string(reinterpret_cast<const char*>(frame.data + 11), 8)
                                         : "#" + std::to_string(locate);
      mine[locate] = numbers.try_emplace(name, static_cast<std::uint32_t>(numbers.size())).first->second;
    }
    std::replace(mine.begin(), mine.end(), UINT32_MAX, 0U);
  }
  symbols.count = std::max<std::uint32_t>(1, static_cast<std::uint32_t>(numbers.size()));
  return symbols;
}

Exchange::Exchange(std::vector<Line> lines, std::uint64_t duration_ns, std::uint64_t most_messages, bool spin)
    : lines_(std::move(lines)), duration_ns_(duration_ns), most_messages_(most_messages), spin_(spin) {
  lateness_.reserve(kLatenessSamples);
}

void Exchange::begin_pass(Line& line, Cursor& cursor, std::uint64_t at_ns) {
  cursor.frames = market::itch::FrameCursor(line.file->bytes());
  cursor.frames.next(cursor.next);  // there is one: the file was read through at the start
  cursor.first_stamp_ns = stamp_of(cursor.next);
  cursor.pass_began_ns = at_ns;
  cursor.due_ns = at_ns;
  ++line.passes;
  if (line.passes == 1) return;
  // A new day must not get lost, or the books would keep orders whose references come again.
  while (line.out->full() && !stop_.load(std::memory_order_acquire)) sleep_until(monotonic_ns() + 50'000);
  line.out->push({});
  line.out->flush_pushed();
}

void Exchange::push(Line& line, Cursor& cursor, const Packet& packet) {
  while (!line.out->push(packet)) {
    if (!line.pacing.wait || stop_.load(std::memory_order_acquire)) {
      line.out->count_dropped();
      if (line.dropped++ == 0) line.first_drop_ns = monotonic_ns();
      break;
    }
    if (line.out->full()) line.out->count_blocked();
    line.out->flush_pushed();
    sleep_until(monotonic_ns() + 50'000);
  }
  ++line.sent;
  ++cursor.number;
}

void Exchange::send(Line& line, Cursor& cursor) {
  for (std::uint64_t i = 0; i < line.pacing.packet_messages; ++i) {
    Packet packet{.passport = {}, .data = cursor.next.data, .size = cursor.next.size};
    packet.passport.event = (std::uint64_t{line.venue} << 56U) | cursor.number;
    packet.passport.traced = line.trace_every != 0 && cursor.number % line.trace_every == 0;
    stamp(packet.passport);
    push(line, cursor, packet);
    if (most_messages_ != 0 && line.sent >= most_messages_) {
      cursor.over = true;
      return;
    }
    if (!cursor.frames.next(cursor.next)) {
      begin_pass(line, cursor, monotonic_ns());
      break;
    }
  }
  switch (line.pacing.mode) {
    case Pacing::Mode::fixed:
      cursor.due_ns += line.pacing.delay_ns;
      break;
    case Pacing::Mode::burst:
      if (++cursor.in_burst >= line.pacing.burst) {
        cursor.in_burst = 0;
        cursor.due_ns += line.pacing.delay_ns;
      }
      break;
    case Pacing::Mode::market:
      cursor.due_ns = cursor.market_began_ns + cursor.arrivals.next();
      break;
    case Pacing::Mode::timestamps: {
      const std::uint64_t stamp = stamp_of(cursor.next);
      const std::uint64_t since = stamp > cursor.first_stamp_ns ? stamp - cursor.first_stamp_ns : 0;
      cursor.due_ns =
          cursor.pass_began_ns + static_cast<std::uint64_t>(static_cast<double>(since) / line.pacing.speed);
      break;
    }
    case Pacing::Mode::fast:
      break;
  }
}

void Exchange::run() {
  const std::uint64_t began = monotonic_ns();
  std::vector<Cursor> cursors(lines_.size());
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    cursors[i].market_began_ns = began + lines_[i].pacing.offset_ns;
    cursors[i].arrivals = market::Arrivals(lines_[i].venue, lines_[i].pacing.delay_ns);
    begin_pass(lines_[i], cursors[i], began + lines_[i].pacing.offset_ns);
  }
  std::uint64_t now = began;
  while (!stop_.load(std::memory_order_acquire) && now - began < duration_ns_) {
    std::uint64_t next = UINT64_MAX;
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      Cursor& cursor = cursors[i];
      // At most a few packets at a time: then the other venue has its turn.
      for (int most = 64; most > 0 && !cursor.over && cursor.due_ns <= now; --most) {
        if (lines_[i].pacing.mode != Pacing::Mode::fast && packets_++ % keep_every_ == 0) {
          if (lateness_.size() == kLatenessSamples) {  // thin out: every second one stays
            for (std::size_t k = 0; k < kLatenessSamples / 2; ++k) lateness_[k] = lateness_[2 * k];
            lateness_.resize(kLatenessSamples / 2);
            keep_every_ *= 2;
          }
          lateness_.push_back(now - cursor.due_ns);
        }
        send(lines_[i], cursor);
      }
      lines_[i].out->flush_pushed();
      if (!cursor.over) next = std::min(next, cursor.due_ns);
    }
    if (next == UINT64_MAX) break;
    now = monotonic_ns();
    if (next > now && !spin_) {
      sleep_until(std::min(next, now + 10'000'000));  // so that stop() is heard
      now = monotonic_ns();
    }
  }
  for (auto& line : lines_) line.out->close();
}

std::uint64_t Exchange::lateness_ns(double quantile) const {
  if (lateness_.empty()) return 0;
  auto sorted = lateness_;
  std::sort(sorted.begin(), sorted.end());
  const auto rank = static_cast<std::size_t>(std::ceil(quantile * static_cast<double>(sorted.size())));
  return sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1];
}

}  // namespace latlab::pipeline
