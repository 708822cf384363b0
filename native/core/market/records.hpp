// Threads: one thread owns a decoder.
//
// Every field of every ITCH-5.0 message, as arrays of records, one array a type.
//
// A message becomes a record (host byte order, integers aligned, the time widened to 64 bits) by one byte
// permutation: no branch depends on the type, so a mixed stream costs no mispredictions. With AVX-512 VBMI
// one instruction permutes the message; with SSSE3 each 16 bytes of the record come from 16 bytes of the
// message, which the layout takes care of; elsewhere a loop over bytes does the same. Chosen at run time.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "market/itch.hpp"
#include "market/transport.hpp"

namespace latlab::market {

struct RecordField {
  const char* name;
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
  // lenient: skip and count malformed messages instead of stopping.
  explicit RecordDecoder(bool lenient, Permutation permutation = best_permutation());

  // Frames in pieces of any size.
  void feed(Bytes frames);
  void finish();

  struct Column {
    std::vector<std::uint8_t> bytes;  // count records, and slack behind them
    std::size_t count = 0;
  };
  // The records since the last take, by index in itch::kTypes.
  std::vector<Column> take();

  [[nodiscard]] bool stopped() const noexcept { return stopped_; }
  [[nodiscard]] std::uint64_t messages() const noexcept { return messages_; }
  [[nodiscard]] std::uint64_t unknown() const noexcept { return unknown_; }
  [[nodiscard]] std::uint64_t malformed() const noexcept { return malformed_; }
  [[nodiscard]] std::uint64_t offset() const noexcept { return offset_; }
  [[nodiscard]] const std::vector<TransportError>& errors() const noexcept { return errors_; }
  // Decode all of a buffer over and over into the same space, for measuring; returns a sum over the records.
  static std::uint64_t sum(Bytes frames, Permutation permutation);

 private:
  std::size_t run(Bytes frames);
  void reject(const itch::Frame& frame);
  void grow(std::size_t index);

  std::vector<Column> columns_;
  std::vector<std::uint8_t> rest_;
  std::vector<TransportError> errors_;
  std::uint64_t offset_ = 0;
  std::uint64_t messages_ = 0;
  std::uint64_t unknown_ = 0;
  std::uint64_t malformed_ = 0;
  Permutation permutation_;
  bool lenient_;
  bool stopped_ = false;
};

}  // namespace latlab::market
