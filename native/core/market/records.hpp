// Threads: one thread owns a decoder.
//
// Every field of every message, as arrays of records, one array a type.
//
// An ITCH message becomes a record (host byte order, integers aligned, the time widened to 64 bits) by one
// byte permutation: no branch depends on the type, so a mixed stream costs no mispredictions. With AVX-512
// VBMI one instruction permutes the message; with SSSE3 each 16 bytes of the record come from 16 bytes of the
// message, which the layout takes care of; elsewhere a loop over bytes does the same. Chosen at run time.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "market/itch.hpp"
#include "market/pitch.hpp"
#include "market/resync.hpp"
#include "market/transport.hpp"

namespace latlab::market {

struct RecordField {
  std::string name;
  std::uint8_t wire;    // offset in the message
  std::uint8_t size;    // on the wire
  bool text;            // bytes as they are; otherwise a big-endian integer
  std::uint8_t record;  // offset in the record
  std::uint8_t width;   // in the record
};

struct RecordLayout {
  char type = 0;
  std::vector<RecordField> fields;
  std::uint8_t size = 0;  // of a record, with the frame's offset in its last 8 bytes
};

// In the order of itch::kTypes.
const std::vector<RecordLayout>& record_layouts();

enum class Permutation : std::uint8_t { scalar, ssse3, avx512vbmi };
Permutation best_permutation();

class RecordDecoder {
 public:
  // lenient: skip and count malformed messages instead of stopping. dialect: 'I' ITCH, 'P' binary PITCH, 'T'
  // ASCII PITCH, whose records are those of market/pitch_records.hpp.
  explicit RecordDecoder(bool lenient, Permutation permutation = best_permutation(), char dialect = 'I');

  // Frames in pieces of any size.
  void feed(Bytes frames);
  void finish();

  struct Column {
    std::vector<std::uint8_t> bytes;  // count records, and slack behind them
    std::size_t count = 0;
  };
  // The records since the last take, by index in itch::kTypes or pitch::record_layouts().
  std::vector<Column> take();

  [[nodiscard]] bool stopped() const noexcept { return stopped_; }
  [[nodiscard]] std::uint64_t messages() const noexcept { return messages_; }
  [[nodiscard]] std::uint64_t unknown() const noexcept { return unknown_; }
  [[nodiscard]] std::uint64_t malformed() const noexcept { return malformed_; }
  // Of the empty frames of ITCH: with messages of the same day behind them.
  [[nodiscard]] std::uint64_t early_ends() const noexcept { return early_ends_; }
  // Messages with an earlier time than the one before, as a session counts them.
  [[nodiscard]] std::uint64_t out_of_order() const noexcept { return out_of_order_; }
  [[nodiscard]] std::uint64_t offset() const noexcept { return offset_; }
  [[nodiscard]] const std::vector<TransportError>& errors() const noexcept { return errors_; }
  // Decode all of a buffer over and over into the same space, for measuring; returns a sum over the records.
  static std::uint64_t sum(Bytes frames, Permutation permutation);

 private:
  std::size_t run(Bytes frames);
  std::size_t run_pitch(Bytes frames);
  void end_early(Bytes next);
  void reject(const itch::Frame& frame);
  void complain(std::uint64_t offset, std::string what);
  void jump(std::size_t bytes);
  [[nodiscard]] std::uint8_t* place(std::size_t index, std::size_t size);

  std::vector<Column> columns_;
  itch::FrameJoiner joiner_;
  Resync resync_;  // in the joiner's stead, of a lenient decoder of ITCH
  pitch::BinaryDecoder binary_;
  pitch::AsciiDecoder ascii_;
  std::vector<TransportError> errors_;
  std::uint64_t offset_ = 0;
  std::uint64_t messages_ = 0;
  std::uint64_t unknown_ = 0;
  std::uint64_t malformed_ = 0;
  std::uint64_t empty_ = 0;  // frames of length zero behind the last message
  std::uint64_t early_ends_ = 0;
  std::uint64_t out_of_order_ = 0;
  std::uint64_t last_ns_ = 0;  // of ITCH
  TimeOrder order_;            // of PITCH
  Permutation permutation_;
  char dialect_;
  bool lenient_;
  bool stopped_ = false;
};

}  // namespace latlab::market
