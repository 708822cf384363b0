#include "market/pitch_records.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "market/pitch.hpp"

namespace latlab::market::pitch {
namespace {

struct Wire {
  const char* name;
  std::uint8_t size;
  FieldKind kind;
};

constexpr FieldKind kText = FieldKind::text;
constexpr FieldKind kNumber = FieldKind::number;
constexpr FieldKind kShort = FieldKind::short_price;
constexpr FieldKind kDecimal = FieldKind::decimal;
constexpr FieldKind kBase36 = FieldKind::base36;

// Behind length, type and time offset (binary), in the order of the wire, which is without holes.
std::vector<Wire> binary_wire(std::uint8_t type) {
  switch (type) {
    case 0x20:
      return {{"seconds", 4, kNumber}};
    case 0x21:
      return {{"ref", 8, kNumber},  {"side", 1, kText},    {"shares", 4, kNumber},
              {"symbol", 6, kText}, {"price", 8, kNumber}, {"add_flags", 1, kNumber}};
    case 0x22:
      return {{"ref", 8, kNumber},  {"side", 1, kText},   {"shares", 2, kNumber},
              {"symbol", 6, kText}, {"price", 2, kShort}, {"add_flags", 1, kNumber}};
    case 0x2F:
      return {{"ref", 8, kNumber},       {"side", 1, kText},    {"shares", 4, kNumber},
              {"symbol", 8, kText},      {"price", 8, kNumber}, {"add_flags", 1, kNumber},
              {"participant", 4, kText}, {"customer", 1, kText}};
    case 0x23:
      return {{"ref", 8, kNumber}, {"shares", 4, kNumber}, {"execution", 8, kNumber}};
    case 0x24:
      return {{"ref", 8, kNumber},
              {"shares", 4, kNumber},
              {"remaining", 4, kNumber},
              {"execution", 8, kNumber},
              {"price", 8, kNumber}};
    case 0x25:
      return {{"ref", 8, kNumber}, {"shares", 4, kNumber}};
    case 0x26:
      return {{"ref", 8, kNumber}, {"shares", 2, kNumber}};
    case 0x27:
      return {
          {"ref", 8, kNumber}, {"shares", 4, kNumber}, {"price", 8, kNumber}, {"modify_flags", 1, kNumber}};
    case 0x28:
      return {
          {"ref", 8, kNumber}, {"shares", 2, kNumber}, {"price", 2, kShort}, {"modify_flags", 1, kNumber}};
    case 0x29:
      return {{"ref", 8, kNumber}};
    case 0x2A:
      return {{"ref", 8, kNumber},  {"side", 1, kText},    {"shares", 4, kNumber},
              {"symbol", 6, kText}, {"price", 8, kNumber}, {"execution", 8, kNumber}};
    case 0x2B:
      return {{"ref", 8, kNumber},  {"side", 1, kText},   {"shares", 2, kNumber},
              {"symbol", 6, kText}, {"price", 2, kShort}, {"execution", 8, kNumber}};
    case 0x30:
      return {{"ref", 8, kNumber},  {"side", 1, kText},    {"shares", 4, kNumber},
              {"symbol", 8, kText}, {"price", 8, kNumber}, {"execution", 8, kNumber}};
    case 0x2C:
      return {{"execution", 8, kNumber}};
    case 0x31:
      return {{"symbol", 8, kText},
              {"trading_status", 1, kText},
              {"reg_sho_action", 1, kText},
              {"reserved", 2, kText}};
    case 0x95:
      return {{"symbol", 8, kText},
              {"auction_type", 1, kText},
              {"reference_price", 8, kNumber},
              {"buy_shares", 4, kNumber},
              {"sell_shares", 4, kNumber},
              {"indicative_price", 8, kNumber},
              {"auction_only_price", 8, kNumber}};
    case 0x96:
      return {
          {"symbol", 8, kText}, {"auction_type", 1, kText}, {"price", 8, kNumber}, {"shares", 4, kNumber}};
    case 0x98:
      return {{"symbol", 8, kText}, {"retail_price_improvement", 1, kText}};
    default:  // 0x2D end of session, 0x97 unit clear: the time is all
      return {};
  }
}

// Behind the type.
std::vector<Wire> ascii_wire(std::uint8_t type) {
  const auto symbol = static_cast<std::uint8_t>(type == 'd' || type == 'r' ? 8 : 6);
  switch (type) {
    case 'A':
    case 'd': {
      std::vector<Wire> fields{{"ref", 12, kBase36},      {"side", 1, kText},      {"shares", 6, kDecimal},
                               {"symbol", symbol, kText}, {"price", 10, kDecimal}, {"display", 1, kText}};
      if (type == 'd') fields.push_back({"participant", 4, kText});
      return fields;
    }
    case 'P':
    case 'r':
      return {{"ref", 12, kBase36},      {"side", 1, kText},      {"shares", 6, kDecimal},
              {"symbol", symbol, kText}, {"price", 10, kDecimal}, {"execution", 12, kBase36}};
    case 'E':
      return {{"ref", 12, kBase36}, {"shares", 6, kDecimal}, {"execution", 12, kBase36}};
    case 'X':
      return {{"ref", 12, kBase36}, {"shares", 6, kDecimal}};
    case 'B':
      return {{"execution", 12, kBase36}};
    case 'H':
      return {{"symbol", 8, kText},
              {"trading_status", 1, kText},
              {"reg_sho_action", 1, kText},
              {"reserved", 2, kText}};
    case 'I':
      return {{"symbol", 8, kText},
              {"auction_type", 1, kText},
              {"reference_price", 10, kDecimal},
              {"buy_shares", 10, kDecimal},
              {"sell_shares", 10, kDecimal},
              {"indicative_price", 10, kDecimal},
              {"auction_only_price", 10, kDecimal}};
    case 'J':
      return {{"symbol", 8, kText},
              {"auction_type", 1, kText},
              {"price", 10, kDecimal},
              {"shares", 10, kDecimal}};
    case 'R':
      return {{"symbol", 8, kText}, {"retail_price_improvement", 1, kText}};
    default:  // s: a symbol's book is cleared
      return {{"symbol", 8, kText}};
  }
}

std::uint8_t width_of(const Wire& field) {
  switch (field.kind) {
    case FieldKind::short_price:
      return 4;
    case FieldKind::decimal:
      return field.size > 9 ? 8 : 4;
    case FieldKind::base36:
      return 8;
    default:
      return field.size;
  }
}

RecordLayout layout_of(char dialect, std::uint8_t type) {
  RecordLayout layout{.type = type, .size = 0, .fields = {}};
  // A binary message's time offset stands in front, except in the time message itself.
  std::size_t wire = 0;
  if (dialect == 'P') wire = type == 0x20 ? 2 : 6;
  std::size_t at = kRecordFields;
  for (const auto& field : dialect == 'P' ? binary_wire(type) : ascii_wire(type)) {
    const std::uint8_t width = width_of(field);
    const std::size_t align = field.kind == FieldKind::text ? 1 : width;
    at = (at + align - 1) / align * align;
    layout.fields.push_back({.name = field.name,
                             .wire = static_cast<std::uint8_t>(wire),
                             .size = field.size,
                             .kind = field.kind,
                             .record = static_cast<std::uint8_t>(at),
                             .width = width});
    wire += field.size;
    at += width;
  }
  layout.size = static_cast<std::uint8_t>((at + 7) / 8 * 8 + 8);
  return layout;
}

constexpr std::string_view kAsciiTypes = "AdEXPrBsHIJR";

std::vector<RecordLayout> layouts_of(char dialect) {
  std::vector<RecordLayout> made;
  for (unsigned type = 0; type < 256; ++type) {
    const bool known =
        dialect == 'P' ? kLengths[type] != 0 : kAsciiTypes.find(static_cast<char>(type)) != kAsciiTypes.npos;
    if (known) made.push_back(layout_of(dialect, static_cast<std::uint8_t>(type)));
  }
  return made;
}

std::array<std::int16_t, 256> index_of(char dialect) {
  std::array<std::int16_t, 256> index;
  index.fill(-1);
  const auto& layouts = record_layouts(dialect);
  for (std::size_t i = 0; i < layouts.size(); ++i) index[layouts[i].type] = static_cast<std::int16_t>(i);
  return index;
}

std::uint64_t value_of(const RecordField& field, const std::uint8_t* at) {
  std::uint64_t value = 0;
  switch (field.kind) {
    case FieldKind::short_price:
      return std::uint64_t{100} * little_endian<std::uint16_t>(at);
    case FieldKind::number:
      std::memcpy(&value, at, field.size);
      return value;
    default:
      // A field of blanks, or one that a decoder does not need and that holds no number, is 0.
      return text_number({reinterpret_cast<const char*>(at), field.size},
                         field.kind == FieldKind::decimal ? 10 : 36)
          .value_or(0);
  }
}

}  // namespace

const std::vector<RecordLayout>& record_layouts(char dialect) {
  static const std::vector<RecordLayout> binary = layouts_of('P');
  static const std::vector<RecordLayout> ascii = layouts_of('T');
  return dialect == 'P' ? binary : ascii;
}

int record_layout(char dialect, std::uint8_t type) {
  static const std::array<std::int16_t, 256> binary = index_of('P');
  static const std::array<std::int16_t, 256> ascii = index_of('T');
  return (dialect == 'P' ? binary : ascii)[type];
}

void write_record(char dialect, const RecordLayout& layout, const std::uint8_t* frame, std::size_t size,
                  const Event& event, std::uint8_t* record) {
  std::memset(record, 0, layout.size);
  record[0] = layout.type;
  std::size_t skip = 1;  // the unit
  if (dialect == 'P') {
    record[1] = frame[0];
  } else {
    skip = frame[0] == 'S' ? 10 : 9;  // the time and the type
  }
  std::memcpy(record + kRecordTime, &event.ts_ns, 8);
  const std::uint8_t* const message = frame + skip;
  size -= skip;
  for (const auto& field : layout.fields) {
    if (std::size_t{field.wire} + field.size > size) break;
    if (field.kind == FieldKind::text) {
      std::memcpy(record + field.record, message + field.wire, field.size);
    } else {
      const std::uint64_t value = value_of(field, message + field.wire);
      std::memcpy(record + field.record, &value, field.width);
    }
  }
  std::memcpy(record + layout.size - 8, &event.offset, 8);
}

}  // namespace latlab::market::pitch
