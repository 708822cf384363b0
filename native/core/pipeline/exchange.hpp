// Threads: run() on one thread; stop() from any.
//
// The outside world of the pipeline: plays recorded feeds to its input buffers, paced, and drops what does
// not fit, as a UDP socket does. It is not a part of the pipeline and is not diagnosed.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "market/arrivals.hpp"
#include "pipeline/stages.hpp"

namespace latlab::pipeline {

// A whole feed in memory, BinaryFILE framing, mapped from a file.
class FeedFile {
 public:
  // Throws PlanError, with the path and the offset, where the file is empty, cut short or foreign.
  explicit FeedFile(const std::string& path);
  FeedFile(const FeedFile&) = delete;
  FeedFile& operator=(const FeedFile&) = delete;
  ~FeedFile();

  [[nodiscard]] std::span<const std::uint8_t> bytes() const noexcept { return {data_, size_}; }
  [[nodiscard]] std::uint64_t messages() const noexcept { return messages_; }
  [[nodiscard]] const FeedRange& orders() const noexcept { return orders_; }

 private:
  std::string read_through();  // counts the messages; the place and the fault where it can't be played
  void note_order(const market::Event& event) noexcept;

  const std::uint8_t* data_ = nullptr;
  std::size_t size_ = 0;
  std::uint64_t messages_ = 0;
  FeedRange orders_;
};

// The symbols of both venues, by their directory messages; a symbol without one is its number.
Symbols read_symbols(const std::vector<const FeedFile*>& files);

struct Pacing {
  enum class Mode : std::uint8_t { fixed, burst, market, timestamps, fast } mode = Mode::fixed;
  std::uint64_t delay_ns = 0;   // fixed: between packets; burst: between bursts; market: in the mean
  std::uint64_t burst = 1;      // packets
  std::uint64_t offset_ns = 0;  // this line starts so much later
  double speed = 1.0;           // timestamps: how much faster than the file
  bool wait = false;            // when the buffer is full: wait, do not drop
  std::uint64_t packet_messages = 1;
};

// One venue's line.
struct Line {
  std::uint8_t venue = 0;
  const FeedFile* file = nullptr;
  Channel<Packet>* out = nullptr;
  Pacing pacing;
  std::uint64_t trace_every = 0;

  std::uint64_t sent = 0;     // messages
  std::uint64_t dropped = 0;  // messages
  std::uint64_t passes = 0;   // times that the file began
  std::uint64_t first_drop_ns = 0;
};

class Exchange {
 public:
  Exchange(std::vector<Line> lines, std::uint64_t duration_ns, std::uint64_t most_messages, bool spin);

  void run();
  void stop() noexcept { stop_.store(true, std::memory_order_release); }

  [[nodiscard]] const std::vector<Line>& lines() const noexcept { return lines_; }
  // How late packets left, in ns: the quantiles of an evenly thinned sample.
  [[nodiscard]] std::uint64_t lateness_ns(double quantile) const;

 private:
  struct Cursor {
    market::itch::FrameCursor frames{std::span<const std::uint8_t>{}};
    market::itch::Frame next;
    std::uint64_t due_ns = 0;
    std::uint64_t pass_began_ns = 0;
    std::uint64_t first_stamp_ns = 0;
    std::uint64_t in_burst = 0;
    std::uint64_t number = 0;         // of the message on this line, for ever
    market::Arrivals arrivals{0, 0};  // market
    std::uint64_t market_began_ns = 0;
    bool over = false;
  };

  void begin_pass(Line& line, Cursor& cursor, std::uint64_t at_ns);
  void send(Line& line, Cursor& cursor);
  void push(Line& line, Cursor& cursor, const Packet& packet);

  std::vector<Line> lines_;
  std::uint64_t duration_ns_;
  std::uint64_t most_messages_;
  bool spin_;
  std::atomic<bool> stop_{false};
  std::vector<std::uint64_t> lateness_;  // preallocated
  std::uint64_t packets_ = 0;
  std::uint64_t keep_every_ = 1;
};

}  // namespace latlab::pipeline
