// Threads: one thread owns a transport.
//
// What carries messages: a transport takes an input's bytes in pieces of any size and gives frames (a 2-byte
// big-endian length before each message: BinaryFILE) with the input's offset of each packet. Memory is
// bounded by one packet, and by what arbitration (market/datagrams.hpp) holds back.
//
//   capture   pcap and pcapng, Ethernet (VLANs) or Linux cooked (v1, v2)/IPv4/IPv6/UDP; MoldUDP64 or PITCH
//             units inside, told by content
//   soup      a recorded SoupBinTCP stream: sequenced data packets
//   units     PITCH sequenced units, one behind the other
//   lines     text, one message a line
//
// Behind something implausible a transport looks for the next row of plausible packets (market/resync.hpp):
// an error, and who is lenient has what follows.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "not_copied.hpp"

namespace latlab::market {

using Bytes = std::span<const std::uint8_t>;

// Where frames come from: at stream offset `stream` begin those of the input's offset `input`.
struct Origin {
  std::uint64_t stream = 0;
  std::uint64_t input = 0;
};

struct TransportCounts {
  std::uint64_t packets = 0;
  std::uint64_t ignored = 0;  // packets of other protocols
  std::uint64_t heartbeats = 0;
  std::uint64_t duplicates = 0;  // messages that another line had brought already
  std::uint64_t gaps = 0;        // runs of messages that no line brought
  std::uint64_t lost = 0;        // the messages in them
  std::uint64_t recovered = 0;   // messages that arrived late, but in time
  std::uint64_t late = 0;        // messages from before the one that was begun with: too late
  std::uint64_t ends = 0;        // ends of session
  std::uint64_t malformed = 0;   // packets whose inside is not what it says
};

struct TransportError {
  std::uint64_t offset = 0;
  std::string what;
};

// Beyond it they are only counted: memory is bounded on any input.
inline constexpr std::size_t kMaxErrors = 1000;

class Transport : NotCopied {
 public:
  virtual ~Transport() = default;

  // Takes a piece; the frames found are appended to frames().
  virtual void feed(Bytes bytes) = 0;
  // The input is over: what is held back comes out; a torn packet is an error.
  virtual void finish() = 0;

  // All that were found; or, for who stops at an error, those before the first, however the input was cut.
  [[nodiscard]] Bytes frames() const noexcept { return frames_; }
  [[nodiscard]] Bytes sound_frames() const noexcept {
    return errors_.empty() ? frames() : frames().first(sound_);
  }
  [[nodiscard]] const std::vector<Origin>& origins() const noexcept { return origins_; }
  // The gaps that packets in hand wait for, each with its first sequence number and how many are missing.
  using Gaps = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
  [[nodiscard]] virtual Gaps missing() const { return {}; }
  // 'I' ITCH, 'P' binary PITCH, 'T' ASCII PITCH; 0: not known yet
  [[nodiscard]] char dialect() const noexcept { return dialect_; }
  [[nodiscard]] const TransportCounts& counts() const noexcept { return counts_; }
  [[nodiscard]] const std::vector<TransportError>& errors() const noexcept { return errors_; }
  // Forget the frames that were taken.
  void drop() {
    stream_ += frames_.size();
    frames_.clear();
    origins_.clear();
    errors_.clear();
  }

 protected:
  // The frame of a message with an optional byte before it.
  void emit(Bytes message, std::uint64_t input_offset, int prefix = -1);
  void fail(std::uint64_t offset, std::string what);
  void malformed(std::uint64_t offset, std::string what) {
    ++counts_.malformed;
    fail(offset, std::move(what));
  }

  std::vector<std::uint8_t> frames_;
  std::vector<Origin> origins_;
  std::vector<TransportError> errors_;
  TransportCounts counts_;
  std::uint64_t stream_ = 0;  // of frames_[0]
  std::size_t sound_ = 0;     // bytes of frames_ before the first of errors_
  char dialect_ = 0;
  friend class Mold;
  friend class PitchUnits;
  friend class Datagrams;
};

// Which: "pcap", "soup", "units" or "lines"; or "mold" or "pitch", whose feed() takes one packet each, and of
// which "pitch" gives no frames but whole units, one behind the other.
std::unique_ptr<Transport> make_transport(const std::string& which);
std::unique_ptr<Transport> make_capture();

}  // namespace latlab::market
