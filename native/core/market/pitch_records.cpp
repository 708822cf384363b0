#include "market/pitch_records.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include "market/pitch.hpp"
#include "market/wire.hpp"

namespace latlab::market::pitch {
namespace {

// Behind the size on the wire: t text, c a short price, d decimal, b base 36; else a number.
FieldKind kind_of(char letter) {
  switch (letter) {
    case 't':
      return FieldKind::text;
    case 'c':
      return FieldKind::short_price;
    case 'd':
      return FieldKind::decimal;
    case 'b':
      return FieldKind::base36;
    default:
      return FieldKind::number;
  }
}

// Behind length, type and time offset. Of types that are not here (0x2D end of session, 0x97 unit clear) the
// time is all.
constexpr std::pair<std::uint8_t, std::string_view> kBinary[] = {
    {0x20, "seconds:4"},
    {0x21, "ref:8 side:1t shares:4 symbol:6t price:8 add_flags:1"},
    {0x22, "ref:8 side:1t shares:2 symbol:6t price:2c add_flags:1"},
    {0x2F, "ref:8 side:1t shares:4 symbol:8t price:8 add_flags:1 participant:4t customer:1t"},
    {0x23, "ref:8 shares:4 execution:8"},
    {0x24, "ref:8 shares:4 remaining:4 execution:8 price:8"},
    {0x25, "ref:8 shares:4"},
    {0x26, "ref:8 shares:2"},
    {0x27, "ref:8 shares:4 price:8 modify_flags:1"},
    {0x28, "ref:8 shares:2 price:2c modify_flags:1"},
    {0x29, "ref:8"},
    {0x2A, "ref:8 side:1t shares:4 symbol:6t price:8 execution:8"},
    {0x2B, "ref:8 side:1t shares:2 symbol:6t price:2c execution:8"},
    {0x30, "ref:8 side:1t shares:4 symbol:8t price:8 execution:8"},
    {0x2C, "execution:8"},
    {0x31, "symbol:8t trading_status:1t reg_sho_action:1t reserved:2t"},
    {0x95,
     "symbol:8t auction_type:1t reference_price:8 buy_shares:4 sell_shares:4 "
     "indicative_price:8 auction_only_price:8"},
    {0x96, "symbol:8t auction_type:1t price:8 shares:4"},
    {0x98, "symbol:8t retail_price_improvement:1t"},
};

// Behind the type. 's': a symbol's book is cleared.
constexpr std::pair<std::uint8_t, std::string_view> kAscii[] = {
    {'A', "ref:12b side:1t shares:6d symbol:6t price:10d display:1t"},
    {'d', "ref:12b side:1t shares:6d symbol:8t price:10d display:1t participant:4t"},
    {'P', "ref:12b side:1t shares:6d symbol:6t price:10d execution:12b"},
    {'r', "ref:12b side:1t shares:6d symbol:8t price:10d execution:12b"},
    {'E', "ref:12b shares:6d execution:12b"},
    {'X', "ref:12b shares:6d"},
    {'B', "execution:12b"},
    {'H', "symbol:8t trading_status:1t reg_sho_action:1t reserved:2t"},
    {'I',
     "symbol:8t auction_type:1t reference_price:10d buy_shares:10d sell_shares:10d "
     "indicative_price:10d auction_only_price:10d"},
    {'J', "symbol:8t auction_type:1t price:10d shares:10d"},
    {'R', "symbol:8t retail_price_improvement:1t"},
    {'s', "symbol:8t"},
};

template <std::size_t n>
std::vector<Wire> fields_of(const std::pair<std::uint8_t, std::string_view> (&table)[n], std::uint8_t type) {
  for (const auto& [known, fields] : table)
    if (known == type) return wires(fields);
  return {};
}

std::uint8_t width_of(const Wire& field) {
  switch (kind_of(field.kind)) {
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
  for (const auto& field : dialect == 'P' ? fields_of(kBinary, type) : fields_of(kAscii, type)) {
    const std::uint8_t width = width_of(field);
    const FieldKind kind = kind_of(field.kind);
    const std::size_t align = kind == FieldKind::text ? 1 : width;
    at = (at + align - 1) / align * align;
    layout.fields.push_back({.name = field.name,
                             .wire = static_cast<std::uint8_t>(wire),
                             .size = field.size,
                             .kind = kind,
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
