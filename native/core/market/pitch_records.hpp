// Threads: pure functions.
//
// Every field of every PITCH message, binary and ASCII, as records in host byte order. PITCH is a mixture of
// little-endian numbers, two widths of price, decimal text and references to the base 36, so that each field
// is taken by its kind; ITCH, which is uniform, has its permutations (market/records.hpp).
// Sources: "BATS Multicast PITCH Specification" 2.x, "BATS PITCH Specification" 1.x.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "market/event.hpp"

namespace latlab::market::pitch {

enum class FieldKind : std::uint8_t {
  text,         // bytes as they are
  number,       // little-endian, of 1, 2, 4 or 8 bytes
  short_price,  // 2 bytes of cents, as 1/10,000
  decimal,      // digits, right-justified
  base36,       // digits and capital letters
};

struct RecordField {
  std::string name;
  std::uint8_t wire;  // offset in the message: of its length (binary), or behind the type (ASCII)
  std::uint8_t size;  // on the wire
  FieldKind kind;
  std::uint8_t record;  // offset in the record
  std::uint8_t width;   // in the record
};

// A record begins with the type, the unit (binary) and the time, and ends with the frame's offset.
struct RecordLayout {
  std::uint8_t type = 0;
  std::uint8_t size = 0;
  std::vector<RecordField> fields;
};

inline constexpr std::size_t kRecordTime = 8;     // offset of the time in a record
inline constexpr std::size_t kRecordFields = 16;  // and of the first field

// dialect: 'P' binary, 'T' ASCII.
const std::vector<RecordLayout>& record_layouts(char dialect);
// The layout's place in record_layouts; -1: the type has none.
int record_layout(char dialect, std::uint8_t type);

// Writes a record of layout.size bytes. A field that the message is too short for (an older version's) is 0.
// frame: as the decoders take it; event: what a decoder made of it.
void write_record(char dialect, const RecordLayout& layout, const std::uint8_t* frame, std::size_t size,
                  const Event& event, std::uint8_t* record);

}  // namespace latlab::market::pitch
