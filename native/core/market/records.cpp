// Over 400 lines: the layout of every message, and the permutations and loops that are made of it.
#include "market/records.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>

#include "market/pitch_records.hpp"
#include "market/session.hpp"
#include "market/wire.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace latlab::market {
namespace {

constexpr std::size_t kSlack = 64;        // a permutation loads and stores up to 64 bytes
constexpr std::size_t kTimeAt = 5;        // in a message, of 6 bytes
constexpr std::size_t kSystemEvent = 12;  // bytes of a system event, the shortest message

// The fields behind the header of each type, in the order of the wire, which is without holes.
constexpr std::pair<char, std::string_view> kFields[] = {
    {'S', "event_code:1t"},
    {'R',
     "stock:8t market_category:1t financial_status:1t round_lot_size:4 round_lots_only:1t "
     "issue_classification:1t issue_subtype:2t authenticity:1t short_sale_threshold:1t "
     "ipo_flag:1t luld_tier:1t etp_flag:1t etp_leverage:4 inverse:1t"},
    {'H', "stock:8t trading_state:1t reserved:1t reason:4t"},
    {'Y', "stock:8t reg_sho_action:1t"},
    {'L', "mpid:4t stock:8t primary_market_maker:1t market_maker_mode:1t participant_state:1t"},
    {'V', "level1:8 level2:8 level3:8"},
    {'W', "breached_level:1t"},
    {'K', "stock:8t release_time_s:4 release_qualifier:1t ipo_price:4"},
    {'J', "stock:8t reference_price:4 upper_price:4 lower_price:4 extension:4"},
    {'h', "stock:8t market_code:1t halt_action:1t"},
    {'A', "ref:8 side:1t shares:4 stock:8t price:4"},
    {'F', "ref:8 side:1t shares:4 stock:8t price:4 attribution:4t"},
    {'E', "ref:8 shares:4 match:8"},
    {'C', "ref:8 shares:4 match:8 printable:1t price:4"},
    {'X', "ref:8 shares:4"},
    {'D', "ref:8"},
    {'U', "ref:8 new_ref:8 shares:4 price:4"},
    {'P', "ref:8 side:1t shares:4 stock:8t price:4 match:8"},
    {'Q', "shares:8 stock:8t price:4 match:8 cross_type:1t"},
    {'B', "match:8"},
    {'I',
     "paired_shares:8 imbalance_shares:8 imbalance_direction:1t stock:8t far_price:4 "
     "near_price:4 reference_price:4 cross_type:1t price_variation:1t"},
    {'N', "stock:8t interest:1t"},
    {'O',
     "stock:8t open_eligible:1t min_price:4 max_price:4 near_price:4 near_time_ns:8 "
     "lower_collar:4 upper_collar:4"},
};

std::string_view fields_of(char type) {
  const auto* const found = std::find_if(std::begin(kFields), std::end(kFields),
                                         [type](const auto& one) { return one.first == type; });
  return found == std::end(kFields) ? std::string_view{} : found->second;
}

// What a permutation does with one type.
struct Plan {
  std::array<std::uint8_t, 64> index{};  // of the message's byte for each of the record's; 0x80: zero
  std::array<std::uint8_t, 4> base{};    // where each 16 bytes of the record begin in the message
  std::array<std::array<std::uint8_t, 16>, 4> mask{};
  std::uint64_t keep = 0;  // a bit for each byte of the record that is not zero
  std::uint8_t size = 0;
  std::uint8_t column = 0;
};

RecordLayout layout_of(char type) {
  RecordLayout layout{.type = type, .fields = {}, .size = 0};
  auto& fields = layout.fields;
  fields.push_back({"type", 0, 1, true, 0, 1});
  fields.push_back({"locate", 1, 2, false, 2, 2});
  fields.push_back({"tracking", 3, 2, false, 4, 2});
  fields.push_back({"ts_ns", 5, 6, false, 8, 8});
  std::uint8_t wire = 11;
  std::uint8_t at = 16;
  for (const auto& field : wires(fields_of(type))) {
    // Aligned, so that no field crosses 16 bytes of the record; and each 16 bytes of the record come from at
    // most 16 bytes of the message, since padding only ever spreads.
    const std::uint8_t align = field.size;
    at = static_cast<std::uint8_t>((at + align - 1) / align * align);
    fields.push_back({field.name, wire, field.size, field.kind == 't', at, field.size});
    wire = static_cast<std::uint8_t>(wire + field.size);
    at = static_cast<std::uint8_t>(at + field.size);
  }
  layout.size = static_cast<std::uint8_t>((at + 7) / 8 * 8 + 8);
  return layout;
}

Plan plan_of(const RecordLayout& layout, std::uint8_t column) {
  Plan plan;
  plan.index.fill(0x80);
  for (const auto& field : layout.fields) {
    for (std::uint8_t i = 0; i < field.size; ++i) {
      const std::uint8_t from = static_cast<std::uint8_t>(field.wire + (field.text ? i : field.size - 1 - i));
      plan.index[field.record + i] = from;
      plan.keep |= std::uint64_t{1} << (field.record + i);
    }
  }
  for (std::size_t chunk = 0; chunk < 4; ++chunk) {
    std::uint8_t least = 0x80;
    for (std::size_t i = 0; i < 16; ++i) least = std::min(least, plan.index[chunk * 16 + i]);
    plan.base[chunk] = least == 0x80 ? 0 : least;
    for (std::size_t i = 0; i < 16; ++i) {
      const std::uint8_t from = plan.index[chunk * 16 + i];
      plan.mask[chunk][i] = from == 0x80 ? 0x80 : static_cast<std::uint8_t>(from - plan.base[chunk]);
    }
  }
  plan.size = layout.size;
  plan.column = column;
  return plan;
}

const std::array<Plan, 256>& plans() {
  static const std::array<Plan, 256> all = [] {
    std::array<Plan, 256> made;
    const auto& layouts = record_layouts();
    for (std::size_t i = 0; i < layouts.size(); ++i) {
      made[static_cast<unsigned char>(layouts[i].type)] = plan_of(layouts[i], static_cast<std::uint8_t>(i));
    }
    return made;
  }();
  return all;
}

struct Scalar {
  static void permute(const Plan& plan, const std::uint8_t* from, std::uint8_t* to) {
    for (std::size_t i = 0; i < 64; ++i) to[i] = plan.index[i] == 0x80 ? 0 : from[plan.index[i]];
  }
};

// The loop over frames, as a function so that each permutation's loop is compiled for its instructions.
// place(plan) -> where the record goes. Stops before a frame that is not well formed or too near to the end,
// and before one that goes back in time, which a day's start may.
#define LATLAB_DECODE_LOOP(PERMUTE)                                             \
  const auto& all = plans();                                                    \
  const std::uint8_t* at = begin;                                               \
  while (static_cast<std::size_t>(end - at) > 2 + kSlack) {                     \
    const auto size = itch::big_endian<std::uint16_t>(at);                      \
    const std::uint8_t type = at[2];                                            \
    if (size == 0 || itch::kLengths[type] != size) break;                       \
    const std::uint64_t ts_ns = itch::big_endian_48(at + 2 + kTimeAt);          \
    if (ts_ns < last_ns) break;                                                 \
    last_ns = ts_ns;                                                            \
    const Plan& plan = all[type];                                               \
    std::uint8_t* to = place(plan);                                             \
    PERMUTE(plan, at + 2, to);                                                  \
    const std::uint64_t offset = base + static_cast<std::uint64_t>(at - begin); \
    std::memcpy(to + plan.size - 8, &offset, 8);                                \
    at += 2U + size;                                                            \
    ++count;                                                                    \
  }                                                                             \
  return static_cast<std::size_t>(at - begin)

template <class Place>
std::size_t loop_scalar(const std::uint8_t* begin, const std::uint8_t* end, std::uint64_t base,
                        std::uint64_t& count, std::uint64_t& last_ns, Place&& place) {
  LATLAB_DECODE_LOOP(Scalar::permute);
}

#if defined(__x86_64__)
__attribute__((target("ssse3"), always_inline)) inline void permute_ssse3(const Plan& plan,
                                                                          const std::uint8_t* from,
                                                                          std::uint8_t* to) {
  for (std::size_t chunk = 0; chunk < 4; ++chunk) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + plan.base[chunk]));
    const __m128i mask = _mm_loadu_si128(reinterpret_cast<const __m128i*>(plan.mask[chunk].data()));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + chunk * 16), _mm_shuffle_epi8(bytes, mask));
  }
}

__attribute__((target("avx512f,avx512bw,avx512vbmi"), always_inline)) inline void permute_avx512(
    const Plan& plan, const std::uint8_t* from, std::uint8_t* to) {
  const __m512i bytes = _mm512_loadu_si512(from);
  const __m512i index = _mm512_loadu_si512(plan.index.data());
  _mm512_storeu_si512(to, _mm512_maskz_permutexvar_epi8(plan.keep, index, bytes));
}

template <class Place>
__attribute__((target("ssse3"))) std::size_t loop_ssse3(const std::uint8_t* begin, const std::uint8_t* end,
                                                        std::uint64_t base, std::uint64_t& count,
                                                        std::uint64_t& last_ns, Place&& place) {
  LATLAB_DECODE_LOOP(permute_ssse3);
}

template <class Place>
__attribute__((target("avx512f,avx512bw,avx512vbmi"))) std::size_t loop_avx512(
    const std::uint8_t* begin, const std::uint8_t* end, std::uint64_t base, std::uint64_t& count,
    std::uint64_t& last_ns, Place&& place) {
  LATLAB_DECODE_LOOP(permute_avx512);
}
#endif
#undef LATLAB_DECODE_LOOP

template <class Place>
std::size_t loop(Permutation permutation, const std::uint8_t* begin, const std::uint8_t* end,
                 std::uint64_t base, std::uint64_t& count, std::uint64_t& last_ns, Place&& place) {
#if defined(__x86_64__)
  if (permutation == Permutation::avx512vbmi) return loop_avx512(begin, end, base, count, last_ns, place);
  if (permutation == Permutation::ssse3) return loop_ssse3(begin, end, base, count, last_ns, place);
#endif
  (void)permutation;
  return loop_scalar(begin, end, base, count, last_ns, place);
}

}  // namespace

const std::vector<RecordLayout>& record_layouts() {
  static const std::vector<RecordLayout> layouts = [] {
    std::vector<RecordLayout> made;
    made.reserve(itch::kTypeCount);
    for (std::size_t i = 0; i < itch::kTypeCount; ++i) made.push_back(layout_of(itch::kTypes[i]));
    return made;
  }();
  return layouts;
}

Permutation best_permutation() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512bw"))
    return Permutation::avx512vbmi;
  if (__builtin_cpu_supports("ssse3")) return Permutation::ssse3;
#endif
  return Permutation::scalar;
}

RecordDecoder::RecordDecoder(bool lenient, Permutation permutation, char dialect)
    : columns_(dialect == 'I' ? itch::kTypeCount : pitch::record_layouts(dialect).size()),
      order_(dialect),
      permutation_(permutation),
      dialect_(dialect),
      lenient_(lenient) {}

// Where the column's next record goes.
std::uint8_t* RecordDecoder::place(std::size_t index, std::size_t size) {
  auto& column = columns_[index];
  if ((column.count + 1) * size + kSlack > column.bytes.size()) [[unlikely]] {
    column.bytes.resize(std::max<std::size_t>(column.count * 2, 64) * size + kSlack);
  }
  return column.bytes.data() + size * column.count++;
}

// What stands behind frames of length zero: another day's start of messages, or damage.
void RecordDecoder::end_early(Bytes next) {
  if (next.size() < 2 + kSystemEvent || (next[0] | next[1]) == 0) return;
  const bool begins = next[1] == kSystemEvent && next[2] == 'S' && next[1 + kSystemEvent] == 'O';
  early_ends_ += begins ? 0 : empty_;
  empty_ = 0;
}

std::size_t RecordDecoder::run(Bytes frames) {
  if (dialect_ != 'I') return run_pitch(frames);
  const auto place = [this](const Plan& plan) { return this->place(plan.column, plan.size); };
  std::size_t at = 0;
  while (!stopped_) {
    if (empty_ != 0) [[unlikely]]
      end_early(frames.subspan(at));
    at += loop(permutation_, frames.data() + at, frames.data() + frames.size(), offset_ + at, messages_,
               last_ns_, place);
    // Here stands a frame that is odd, or so near to the end that its bytes must be copied before they are
    // read, or one that goes back in time.
    itch::FrameCursor cursor(frames.subspan(at), offset_ + at);
    itch::Frame frame;
    if (!cursor.next(frame)) break;
    if (itch::well_formed(frame)) {
      std::array<std::uint8_t, 2 + itch::kMaxLength + 2 * kSlack> padded{};
      std::memcpy(padded.data(), frame.data - 2, frame.size + 2U);
      if (itch::big_endian_48(frame.data + kTimeAt) < last_ns_) {
        const bool begins = frame.data[0] == 'S' && frame.data[kSystemEvent - 1] == 'O';
        out_of_order_ += begins ? 0 : 1;
        last_ns_ = 0;
      }
      // A frame of length zero behind it stops the loop.
      loop(permutation_, padded.data(), padded.data() + frame.size + 2 + kSlack + 1, frame.offset, messages_,
           last_ns_, place);
    } else if (frame.size != 0) {
      reject(frame);
    } else {
      ++empty_;
    }
    at += cursor.consumed();
  }
  offset_ += at;
  return at;
}

std::size_t RecordDecoder::run_pitch(Bytes frames) {
  const auto& layouts = pitch::record_layouts(dialect_);
  itch::FrameCursor cursor(frames, offset_);
  itch::Frame frame;
  while (!stopped_ && cursor.next(frame)) {
    if (frame.size == 0) continue;
    Event event;
    event.offset = frame.offset;
    const auto result = dialect_ == 'P' ? binary_.decode(frame.data, frame.size, event)
                                        : ascii_.decode(frame.data, frame.size, event);
    if (result == pitch::Result::malformed) {
      reject(frame);
      continue;
    }
    const int index = pitch::record_layout(dialect_, static_cast<std::uint8_t>(event.type));
    if (result == pitch::Result::unknown || index < 0) {
      ++unknown_;
      continue;
    }
    const auto& layout = layouts[static_cast<std::size_t>(index)];
    auto* const record = place(static_cast<std::size_t>(index), layout.size);
    out_of_order_ += order_.back(dialect_ == 'P' ? frame.data[0] : 0, event.ts_ns, false) ? 1 : 0;
    pitch::write_record(dialect_, layout, frame.data, frame.size, event, record);
    ++messages_;
  }
  offset_ = cursor.offset();
  return cursor.consumed();
}

void RecordDecoder::reject(const itch::Frame& frame) {
  if (dialect_ == 'I' && itch::kLengths[frame.data[0]] == 0) {
    ++unknown_;
    return;
  }
  complain(frame.offset, complaint(dialect_, frame));
}

void RecordDecoder::complain(std::uint64_t offset, std::string what) {
  ++malformed_;
  stopped_ = !lenient_;
  if (errors_.size() < kMaxErrors) errors_.push_back({.offset = offset, .what = std::move(what)});
}

void RecordDecoder::jump(std::size_t bytes) {
  complain(offset_, std::to_string(bytes) + " bytes that are no messages");
  offset_ += bytes;
}

void RecordDecoder::feed(Bytes frames) {
  if (lenient_ && dialect_ == 'I') {
    resync_.feed(frames, [this](Bytes sound) { run(sound); }, [this](std::size_t bytes) { jump(bytes); });
  } else {
    joiner_.feed(frames, [this](Bytes whole) { return run(whole); }, [this] { return stopped_; });
  }
}

void RecordDecoder::finish() {
  resync_.finish([this](Bytes sound) { run(sound); }, [this](std::size_t bytes) { jump(bytes); });
  const std::size_t rest = joiner_.rest() + resync_.rest();
  if (!stopped_ && rest != 0) {
    errors_.push_back({.offset = offset_,
                       .what = "the stream ends inside a message: " + std::to_string(rest) +
                               " bytes are not a whole frame"});
  }
}

std::vector<RecordDecoder::Column> RecordDecoder::take() {
  std::vector<Column> taken(columns_.size());
  taken.swap(columns_);
  return taken;
}

std::uint64_t RecordDecoder::sum(Bytes frames, Permutation permutation) {
  constexpr std::size_t kRing = 1024;
  std::vector<std::uint8_t> ring(kRing * 72 + kSlack);
  std::uint64_t count = 0;
  std::uint64_t sum = 0;
  std::size_t next = 0;
  std::uint64_t last_ns = 0;
  loop(permutation, frames.data(), frames.data() + frames.size(), 0, count, last_ns, [&](const Plan&) {
    std::uint8_t* const to = ring.data() + next * 72;
    next = (next + 1) % kRing;
    std::uint64_t word = 0;
    std::memcpy(&word, to + 8, 8);  // of the record that stood here before
    sum += word;
    return to;
  });
  return sum + count;
}

}  // namespace latlab::market
