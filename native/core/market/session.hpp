// Threads: one thread owns a session and its sink.
//
// Frames in, events out: counts what passes, reports what is wrong with its offset, and hands events to a
// sink in batches (a batch lets a book ask for the memory of the next hundred messages before it needs the
// first).
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "market/event.hpp"
#include "market/itch.hpp"
#include "market/pitch.hpp"
#include "market/resync.hpp"
#include "market/scan.hpp"
#include "market/transport.hpp"
#include "not_copied.hpp"

namespace latlab::market {

using Symbol = std::array<char, 8>;

struct FeedCounts {
  std::array<std::uint64_t, 256> by_type{};  // well-formed messages, those of unknown types too
  std::uint64_t messages = 0;
  std::uint64_t unknown = 0;       // of which of a type that the protocol has not
  std::uint64_t empty = 0;         // frames of length zero
  std::uint64_t malformed = 0;     // messages whose length disagrees with their type: skipped
  std::uint64_t out_of_order = 0;  // messages with an earlier time than the one before (in a unit of PITCH)
  std::uint64_t early_ends = 0;    // of the empty frames: with messages of the same day behind them
  std::uint64_t jumped = 0;        // bytes that hold no message, over which a lenient session jumped
  std::uint64_t first_ns = 0;
  std::uint64_t last_ns = 0;
};

// What the sink may ask of the session.
class SymbolNames {
 public:
  // The symbol's name, blank while it is not known.
  [[nodiscard]] const Symbol& name(std::uint16_t locate) const noexcept { return names_[locate]; }
  [[nodiscard]] bool known(std::uint16_t locate) const noexcept {
    return (known_[locate / 64] >> (locate % 64) & 1) != 0;
  }
  void set(std::uint16_t locate, const std::uint8_t* name) noexcept {
    std::memcpy(names_[locate].data(), name, 8);
    const std::uint64_t bit = std::uint64_t{1} << (locate % 64);
    known_[locate / 64] = name[0] != 0 ? known_[locate / 64] | bit : known_[locate / 64] & ~bit;
  }
  // Each symbol that is known, by number.
  [[nodiscard]] std::vector<std::pair<std::uint16_t, Symbol>> all() const {
    std::vector<std::pair<std::uint16_t, Symbol>> found;
    for (std::size_t word = 0; word < known_.size(); ++word) {
      for (std::uint64_t bits = known_[word]; bits != 0; bits &= bits - 1) {
        const std::size_t locate = word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
        found.emplace_back(static_cast<std::uint16_t>(locate), names_[locate]);
      }
    }
    return found;
  }
  void clear() noexcept {
    for (const auto& [locate, name] : all()) names_[locate] = Symbol{};
    known_.fill(0);
  }
  [[nodiscard]] std::size_t count() const noexcept {
    std::size_t known_names = 0;
    for (const auto word : known_) known_names += static_cast<std::size_t>(std::popcount(word));
    return known_names;
  }

 private:
  std::vector<Symbol> names_{65'536, Symbol{}};
  std::array<std::uint64_t, 1024> known_{};  // a bit each: every order asks
};

class Sink : NotCopied {
 public:
  virtual ~Sink() = default;
  virtual void batch(std::span<const Event> events, const SymbolNames& names) = 0;
  virtual void finish(const SymbolNames& /*names*/) {}
  // How many rows it has made that nobody has taken.
  [[nodiscard]] virtual std::size_t rows() const { return 0; }
  // True when nothing that may still come can change the result.
  [[nodiscard]] virtual bool over() const { return false; }
};

// A day that has ended in a file of several: numbers are given to symbols anew behind it.
struct EndedDay {
  std::size_t rows = 0;  // of the sink's that nobody has taken, those up to its end
  std::vector<std::pair<std::uint16_t, Symbol>> names;
};

// What is wrong with a malformed message, in words.
std::string complaint(char dialect, const itch::Frame& frame);

class Session {
 public:
  // dialect: 'I' ITCH, 'P' binary PITCH, 'T' ASCII PITCH. A lenient session skips and counts malformed
  // messages where a strict one stops.
  Session(char dialect, bool lenient, Sink& sink);

  // Frames in pieces of any size.
  void feed(Bytes frames);
  // The stream is over: a torn frame is an error.
  void finish();

  [[nodiscard]] bool stopped() const noexcept { return stopped_; }
  [[nodiscard]] const FeedCounts& counts() const noexcept { return counts_; }
  [[nodiscard]] const SymbolNames& names() const noexcept { return names_; }
  [[nodiscard]] const std::vector<TransportError>& errors() const noexcept { return errors_; }
  // The days that have ended since the last call.
  std::vector<EndedDay> take_ended() { return std::exchange(ended_, {}); }
  // The stream offset behind the last whole frame: where a reading may be resumed.
  [[nodiscard]] std::uint64_t offset() const noexcept { return offset_; }

  // Where several sessions have a feed's symbols between them (market/sharing.hpp): run(frames) -> bytes of
  // whole frames used is called in place of this session's own pass over them. It tells the session that
  // leads what it met, and has each session take its own messages.
  using Run = std::function<std::size_t(Bytes)>;
  void share(Run run) {
    shared_ = true;
    run_ = std::move(run);
  }
  void count(const Stretch& plain);
  // A frame that is not plain. Returns whether it is a message for all symbols.
  bool count(const itch::Frame& frame);
  // Messages to decode, by their places in the bytes. offset: of the bytes, in the stream.
  void take(std::span<const std::uint32_t> places, Bytes bytes, std::uint64_t offset);
  void flush();

 private:
  // Of 48 bytes. The orders of a batch's first events can't be asked for ahead: of 256 events a message took
  // 4 % longer.
  static constexpr std::size_t kBatch = 1024;

  static constexpr std::size_t kNoted = 256;  // messages that are scanned before they are decoded

  std::size_t run(Bytes frames);
  std::size_t run_itch(Bytes frames);
  std::size_t run_pitch(Bytes frames);
  void count(std::uint64_t first_ns, std::uint64_t last_ns, bool begins) noexcept;
  void name(const std::uint8_t* message, std::uint16_t locate) noexcept;
  void new_day();
  void malformed(std::uint64_t offset, std::string what);
  void jump(std::size_t bytes);

  Sink& sink_;
  FeedCounts counts_;
  SymbolNames names_;
  std::vector<TransportError> errors_;
  std::vector<EndedDay> ended_;
  std::array<Event, kBatch> events_;
  std::size_t batched_ = 0;
  itch::FrameJoiner joiner_;
  Resync resync_;  // in the joiner's stead, of a lenient session of ITCH
  pitch::BinaryDecoder binary_;
  pitch::AsciiDecoder ascii_;
  TimeOrder order_;
  std::size_t named_ = 0;
  std::uint64_t empty_ = 0;  // frames since the last message
  std::uint64_t offset_ = 0;
  Run run_;
  char dialect_;
  bool lenient_;
  bool shared_ = false;
  bool stopped_ = false;
};

}  // namespace latlab::market
