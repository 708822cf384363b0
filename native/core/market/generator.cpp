#include "market/generator.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "market/itch.hpp"

namespace latlab::market {
namespace {

using Quantiles = std::span<const std::array<std::uint32_t, 2>>;  // {share in 1/65,536, value}, ascending
constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint32_t kStub = UINT32_MAX;          // a depth that stands for a stub order
constexpr std::uint32_t kStubOffer = 1'999'999'900;  // 199,999.99

// Depth in ticks from the inside of its side at which orders enter. Chosen so that the depth of all *events*
// (also those that leave: see take()) has the published quantiles: p50 1, p75 6, p90 14, p99 203, p99.9
// 2,135, p99.99 stub orders (JayBeams, itch5eventdepth over a NASDAQ day).
constexpr std::array<std::array<std::uint32_t, 2>, 12> kDepth{{{0, 0},
                                                               {19'500, 0},
                                                               {31'000, 1},
                                                               {39'500, 3},
                                                               {48'000, 6},
                                                               {58'300, 14},
                                                               {62'500, 50},
                                                               {64'800, 203},
                                                               {65'280, 1'200},
                                                               {65'450, 2'135},
                                                               {65'500, 6'000},
                                                               {65'536, 6'000}}};
constexpr std::uint32_t kStubShare = 65'512;  // from here on a stub

// Gaps inside a cluster of messages, in ns: the quantiles of a real day's inter-arrival times over all
// symbols (p5 676, p10 1,061, p25 3,801, p50 18,788, p75 72,398), with 1 % of all gaps below 300 ns.
constexpr std::array<std::array<std::uint32_t, 2>, 8> kGap{{{0, 20},
                                                            {560, 300},
                                                            {3'800, 700},
                                                            {7'600, 1'100},
                                                            {18'000, 3'800},
                                                            {36'000, 19'000},
                                                            {55'000, 72'000},
                                                            {65'536, 200'000}}};
// The same inside a microburst: hundreds of messages in a millisecond.
constexpr std::array<std::array<std::uint32_t, 2>, 4> kBurstGap{
    {{0, 20}, {4'000, 300}, {60'000, 1'500}, {65'536, 4'000}}};
constexpr std::array<std::array<std::uint32_t, 2>, 6> kCluster{
    {{0, 1}, {26'000, 1}, {56'000, 6}, {64'800, 40}, {65'490, 200}, {65'536, 250}}};
constexpr std::uint32_t kBurstShare = 65'500;  // clusters beyond it are microbursts

// Events per symbol by rank in 1/65,536, as counted on a real day of 8,172 symbols (p25 690, p50 4,006,
// p75 18,931, p90 61,862, p99 307,855), and the busiest with thousands of times the median.
constexpr std::array<std::array<std::uint32_t, 2>, 12> kWeight{{{0, 8},
                                                                {6'554, 100},
                                                                {16'384, 600},
                                                                {26'214, 1'600},
                                                                {32'768, 3'000},
                                                                {39'321, 6'000},
                                                                {49'152, 18'000},
                                                                {58'982, 60'000},
                                                                {62'259, 120'000},
                                                                {64'880, 350'000},
                                                                {65'470, 1'200'000},
                                                                {65'536, 2'600'000}}};
constexpr std::uint64_t kBusiest = 9'000'000;

// Share of the day's messages (in 1/10,000) in each half hour from 04:00 to 20:00: quiet before 09:30, the
// opening, a trough at midday, the close, and a thin evening.
constexpr std::array<std::uint32_t, 32> kIntensity{8,    8,    10,  15,  25,  30,  35,  60,  90,  110, 170,
                                                   1600, 950,  750, 640, 560, 500, 460, 440, 430, 450, 500,
                                                   620,  1250, 90,  40,  30,  25,  20,  17,  15,  12};
constexpr std::uint64_t kOpenOfDay = 14'400 * kSecond;
constexpr std::uint64_t kHalfHour = 1800 * kSecond;

// When the given share (in 1/2^32) of the day's messages has been sent.
std::uint64_t time_of(std::uint64_t share) {
  std::uint64_t total = 0;
  for (const auto part : kIntensity) total += part;
  std::uint64_t left = (share * total) >> 8;  // in parts x 2^24
  for (std::size_t i = 0; i < kIntensity.size(); ++i) {
    const std::uint64_t part = std::uint64_t{kIntensity[i]} << 24;
    if (left < part)
      return kOpenOfDay + i * kHalfHour + left / kIntensity[i] * (kHalfHour >> 10) / (1U << 14);
    left -= part;
  }
  return kOpenOfDay + kIntensity.size() * kHalfHour;
}

struct Phase {
  std::uint64_t at_ns;
  char code;   // of the system event
  char cross;  // of the auctions that follow it, or 0
};
constexpr std::array<Phase, 3> kPhases{
    {{kOpenOfDay, 'S', 0}, {34'200 * kSecond, 'Q', 'O'}, {57'600 * kSecond, 'M', 'C'}}};

std::uint32_t interpolate(Quantiles table, std::uint32_t at) {
  std::size_t i = 1;
  while (i + 1 < table.size() && table[i][0] <= at) ++i;
  const auto& [x0, y0] = table[i - 1];
  const auto& [x1, y1] = table[i];
  return y0 + static_cast<std::uint32_t>(std::uint64_t{y1 - y0} * (at - x0) / (x1 - x0));
}

}  // namespace

// A message under construction: length, type and header first, fields appended big-endian.
struct Generator::Message {
  std::array<std::uint8_t, 64> bytes{};
  std::size_t size = 2;

  Message(char type, std::uint32_t locate, std::uint64_t ts_ns) {
    put8(static_cast<std::uint8_t>(type));
    put(static_cast<std::uint16_t>(locate));
    put(std::uint16_t{0});
    put(static_cast<std::uint16_t>(ts_ns >> 32));
    put(static_cast<std::uint32_t>(ts_ns));
  }
  void put8(std::uint8_t value) { bytes[size++] = value; }
  template <class T>
  Message& put(T value) {
    const T wire = itch::big_endian<T>(reinterpret_cast<const std::uint8_t*>(&value));  // its own inverse
    std::memcpy(bytes.data() + size, &wire, sizeof wire);
    size += sizeof wire;
    return *this;
  }
  Message& text(std::string_view value) {
    std::memcpy(bytes.data() + size, value.data(), value.size());
    size += value.size();
    return *this;
  }
  Message& text(const std::array<char, 8>& value) { return text(std::string_view(value.data(), 8)); }
};

Generator::Generator(const GeneratorOptions& options) : options_(options) {
  // SplitMix64 fills the state of xoshiro256** (Blackman and Vigna), as its authors advise.
  std::uint64_t x = options.seed;
  for (auto& word : state_) {
    std::uint64_t z = (x += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    word = z ^ (z >> 31);
  }
  // Three messages of directory a symbol, and as many again to trade.
  const std::uint64_t affordable = std::max<std::uint64_t>(options.messages / 6, 1);
  prepare_symbols(static_cast<std::uint32_t>(
      std::min<std::uint64_t>({std::max(options.symbols, 1U), affordable, kMaxSymbols})));
  preamble();
  body_begin_ = written_;
}

std::uint64_t Generator::random() noexcept {
  const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const std::uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

std::uint32_t Generator::below(std::uint32_t bound) noexcept {
  return static_cast<std::uint32_t>(((random() >> 32) * bound) >> 32);
}

std::uint32_t Generator::draw(Quantiles quantiles) noexcept {
  return interpolate(quantiles, below(65'536));
}

void Generator::prepare_symbols(std::uint32_t count) {
  symbols_.resize(count);
  std::vector<std::uint64_t> weights(count);
  std::uint64_t total = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    weights[i] =
        interpolate(kWeight, static_cast<std::uint32_t>((std::uint64_t{i} * 2 + 1) * 32'768 / count));
    total += weights[i];
  }
  // The busiest symbol, but never more than two fifths of a small market.
  total -= weights.back();
  weights.back() = std::max(weights.back(), std::min(kBusiest, total * 2 / 3));
  for (std::uint32_t i = count; i > 1; --i) std::swap(weights[i - 1], weights[below(i)]);
  for (std::uint32_t i = 0; i < count; ++i) {
    auto& symbol = symbols_[i];
    symbol.name.fill(' ');
    std::uint32_t left = i;
    for (std::size_t at = 0; at < 4; ++at, left /= 26)
      symbol.name[3 - at] = static_cast<char>('A' + left % 26);
    // Three in a hundred trade below a dollar, where the tick is finer; one in a thousand is very dear.
    const std::uint32_t kind = below(1000);
    std::uint32_t price = 30'000 + below(500'000);
    if (kind < 30) price = 2'500 + below(7'000);
    if (kind >= 30 && kind < 330) price = 200'000 + below(2'500'000);
    if (kind == 999) price = 30'000'000 + below(10'000'000);
    symbol.fair_tick = detail::tick_of(price);
  }
  prepare_choices(weights);
}

// Walker's alias method (Vose's construction), in integers: a symbol in O(1) whatever the weights.
void Generator::prepare_choices(const std::vector<std::uint64_t>& weights) {
  const auto count = static_cast<std::uint32_t>(weights.size());
  std::uint64_t total = 0;
  for (const auto weight : weights) total += weight;
  std::vector<std::uint64_t> scaled(count);
  std::vector<std::uint32_t> small;
  std::vector<std::uint32_t> large;
  choices_.resize(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    scaled[i] = weights[i] * count;
    (scaled[i] < total ? small : large).push_back(i);
    choices_[i] = {UINT32_MAX, i};
  }
  while (!small.empty() && !large.empty()) {
    const std::uint32_t less = small.back();
    const std::uint32_t more = large.back();
    small.pop_back();
    choices_[less] = {static_cast<std::uint32_t>((scaled[less] << 20) / total << 12), more};
    scaled[more] -= total - scaled[less];
    if (scaled[more] < total) {
      large.pop_back();
      small.push_back(more);
    }
  }
}

std::uint32_t Generator::choose_symbol() noexcept {
  const std::uint64_t word = random();
  const auto column = static_cast<std::uint32_t>(((word >> 32) * choices_.size()) >> 32);
  return static_cast<std::uint32_t>(word) < choices_[column].threshold ? column : choices_[column].other;
}

// Clusters of messages with short gaps, each beginning when its share of the day's messages is due.
void Generator::advance_clock() {
  const std::uint64_t done = written_ - body_begin_;
  const std::uint64_t all = std::max<std::uint64_t>(options_.messages - body_begin_, 1);
  if (cluster_left_ == 0) {
    const std::uint32_t share = below(65'536);
    cluster_size_ = interpolate(kCluster, share);
    if (share >= kBurstShare) cluster_size_ = 300 + below(600);
    cluster_left_ = cluster_size_;
    leader_ = choose_symbol();
    const std::uint64_t due = time_of(((done << 20) / all) << 12) + below(100'000);
    now_ns_ = std::max(now_ns_ + 20 + below(1000), due);
  } else {
    now_ns_ += cluster_size_ >= 300 ? draw(kBurstGap) : draw(kGap);
  }
  --cluster_left_;
}

void Generator::emit(Message& message) {
  message.bytes[0] = 0;
  message.bytes[1] = static_cast<std::uint8_t>(message.size - 2);
  pending_.insert(pending_.end(), message.bytes.begin(),
                  message.bytes.begin() + static_cast<std::ptrdiff_t>(message.size));
  ++written_;
}

void Generator::system(char code) {
  Message message('S', 0, now_ns_);
  message.put8(static_cast<std::uint8_t>(code));
  emit(message);
}

void Generator::preamble() {
  now_ns_ = 11'000 * kSecond;
  system('O');
  if (options_.messages > 100) {
    Message levels('V', 0, now_ns_ += 1'000'000);
    levels.put(std::uint64_t{4'000'00000000})
        .put(std::uint64_t{3'800'00000000})
        .put(std::uint64_t{3'600'00000000});
    emit(levels);
  }
  for (std::uint32_t locate = 1; locate <= symbols_.size() && options_.messages > 10; ++locate) {
    const auto& name = symbols_[locate - 1].name;
    Message directory('R', locate, now_ns_ += 1000 + below(200'000));
    directory.text(name).text("QN").put(std::uint32_t{100}).text("NCZ PNN1N").put(std::uint32_t{0}).text("N");
    emit(directory);
    Message action('H', locate, now_ns_ += 500 + below(9000));
    action.text(name).text("T ").text("    ");
    emit(action);
    Message restriction('Y', locate, now_ns_ += 500 + below(9000));
    restriction.text(name).text("0");
    emit(restriction);
  }
  now_ns_ = std::max(now_ns_, kOpenOfDay);
}

std::size_t Generator::fill(std::span<std::uint8_t> buffer) {
  std::size_t used = 0;
  for (;;) {
    while (pending_at_ < pending_.size()) {
      const std::size_t size = 2U + pending_[pending_at_ + 1];
      if (buffer.size() - used < size) return used;
      std::memcpy(buffer.data() + used, pending_.data() + pending_at_, size);
      used += size;
      pending_at_ += size;
    }
    pending_.clear();
    pending_at_ = 0;
    if (written_ >= options_.messages) return used;
    schedule();
  }
}

// One message: what the time of day demands, or an event of a symbol.
void Generator::schedule() {
  const std::uint64_t left = options_.messages - written_;
  if (left <= 2) {
    now_ns_ = std::max(now_ns_ + 1000, 72'000 * kSecond + (2 - left) * 300 * kSecond);
    system(left == 2 ? 'E' : 'C');
    return;
  }
  advance_clock();
  if (phase_ < kPhases.size() && now_ns_ >= kPhases[phase_].at_ns) {
    const Phase& phase = kPhases[phase_++];
    system(phase.code);
    cross_kind_ = phase.cross;
    // Every symbol has its auction, unless they would be a large part of a short day.
    if (phase.cross)
      crosses_left_ =
          static_cast<std::uint32_t>(std::min<std::uint64_t>(symbols_.size(), options_.messages / 100));
    return;
  }
  if (crosses_left_ != 0) {
    cross(crosses_left_--, cross_kind_);
    return;
  }
  body();
}

void Generator::body() {
  // Each rare type once, spread over the day, whatever the chance gives.
  static constexpr std::string_view kRare = "LKJhNIOWHYB";
  const std::uint64_t done = written_ - body_begin_;
  const std::uint64_t all = options_.messages - body_begin_;
  const std::uint32_t locate = below(10) < 7 ? leader_ + 1 : choose_symbol() + 1;
  if (rare_done_ < kRare.size() && all >= 200 && done >= all * (rare_done_ + 2) / 16) {
    rare(kRare[rare_done_++], locate);
    return;
  }
  const std::uint32_t chance = below(10'000);
  if (chance < 70 && rare("IIIIIIILNJhHY"[below(13)], locate)) return;
  auto& symbol = symbols_[locate - 1];
  ++symbol.events;
  const std::uint64_t target = std::min<std::uint64_t>(8 + symbol.events / 12, 3000);
  const std::size_t standing = symbol.orders.size();
  const std::uint32_t adding = standing * 2 < target ? 85 : standing < target ? 52 : 42;
  // After the close, orders leave.
  const bool closed = phase_ == kPhases.size();
  if (standing == 0 || below(100) < (closed ? adding / 4 : adding)) {
    add(locate);
  } else {
    take(locate);
  }
}

bool Generator::rare(char type, std::uint32_t locate) {
  const auto& symbol = symbols_[locate - 1];
  const auto bid = symbol.sides[0].best().price;
  const auto offer = symbol.sides[1].best().price;
  const auto fair = detail::price_of(symbol.fair_tick);
  Message message(type, type == 'W' ? 0 : locate, now_ns_);
  switch (type) {
    case 'I':
      if (bid == 0 || offer == 0) return false;
      message.put(std::uint64_t{below(900)} * 100)
          .put(std::uint64_t{below(300)} * 100)
          .text(below(2) ? "B" : "S");
      message.text(symbol.name).put(offer).put(bid).put(bid).text(phase_ < 2 ? "O" : "C").text("L");
      break;
    case 'L':
      message.text("NITE").text(symbol.name).text("YNA");
      break;
    case 'N':
      message.text(symbol.name).text("A");
      break;
    case 'J':
      message.text(symbol.name).put(fair).put(fair + fair / 10).put(fair - fair / 10).put(std::uint32_t{0});
      break;
    case 'h':
      message.text(symbol.name).text("QT");
      break;
    case 'H':
      message.text(symbol.name).text("T ").text("    ");
      break;
    case 'Y':
      message.text(symbol.name).text("1");
      break;
    case 'K':
      message.text(symbol.name).put(std::uint32_t{34'200}).text("A").put(fair);
      break;
    case 'O':
      message.text(symbol.name).text("N").put(fair - fair / 5).put(fair + fair / 5).put(fair);
      message.put(now_ns_).put(fair - fair / 10).put(fair + fair / 10);
      break;
    case 'W':
      message.text("1");
      break;
    default:  // B: the last match is broken, if there is one
      message.put(next_match_ > 1 ? next_match_ - 1 : std::uint64_t{0});
      break;
  }
  emit(message);
  return true;
}

void Generator::cross(std::uint32_t locate, char kind) {
  const auto& symbol = symbols_[locate - 1];
  Message message('Q', locate, now_ns_);
  const auto best = symbol.sides[0].best().price;
  message.put(std::uint64_t{1 + below(400)} * 100).text(symbol.name);
  message.put(best ? best : detail::price_of(symbol.fair_tick))
      .put(next_match_++)
      .put8(static_cast<std::uint8_t>(kind));
  emit(message);
}

// The price at a depth from the inside of a side; depth 0 may also improve the inside, never crosses it.
std::uint32_t Generator::place(Symbol& symbol, Side side, std::uint32_t depth) {
  if (depth == kStub) return side == Side::bid ? 1 : kStubOffer;
  const bool bid = side == Side::bid;
  const Level own = symbol.sides[static_cast<std::size_t>(side)].best();
  const Level other = symbol.sides[static_cast<std::size_t>(bid ? Side::offer : Side::bid)].best();
  const bool stub_alone = own.price == 1 || own.price == kStubOffer;
  std::uint32_t inside = 0;
  if (own.qty == 0 || stub_alone) {
    inside = bid ? symbol.fair_tick - 1 : symbol.fair_tick + 1;
    if (other.qty != 0 && other.price != 1 && other.price != kStubOffer) {
      const std::uint32_t opposite = detail::tick_of(other.price);
      inside = bid ? std::min(inside, opposite - 1) : std::max(inside, opposite + 1);
    }
  } else {
    inside = detail::tick_of(own.price);
    if (depth == 0 && other.qty != 0) {
      const std::uint32_t opposite = detail::tick_of(other.price);
      const std::uint32_t spread = bid ? opposite - inside : inside - opposite;
      // The wider the spread, the likelier and the larger an improvement.
      if (spread > 1 && spread < 1'000'000 && below(8) < (spread > 4 ? 5U : 2U)) {
        const std::uint32_t step = 1 + below(std::min(spread - 1, 4U));
        inside = bid ? inside + step : inside - step;
      }
    }
  }
  inside = std::max(inside, 2U);
  return detail::price_of(bid ? (inside > depth + 1 ? inside - depth : 2) : inside + depth);
}

void Generator::stand(Symbol& symbol, const Standing& order) {
  auto& side = symbol.sides[static_cast<std::size_t>(order.side)];
  side.add(order.price, order.qty);
  if (side.best().price == order.price) {
    symbol.newest_at_best[static_cast<std::size_t>(order.side)] = order.ref << 20 | symbol.orders.size();
  }
  symbol.orders.push_back(order);
}

void Generator::leave(Symbol& symbol, std::size_t index, std::uint32_t qty) {
  auto& order = symbol.orders[index];
  symbol.sides[static_cast<std::size_t>(order.side)].remove(order.price, qty);
  order.qty -= qty;
  if (order.qty != 0) return;
  order = symbol.orders.back();
  symbol.orders.pop_back();
}

std::uint32_t Generator::depth_of(const Symbol& symbol, const Standing& order) const {
  if (order.price == 1 || order.price == kStubOffer) return kStub;
  const std::uint32_t best = detail::tick_of(symbol.sides[static_cast<std::size_t>(order.side)].best().price);
  const std::uint32_t own = detail::tick_of(order.price);
  return best > own ? best - own : own - best;
}

// Of a few standing orders, the one nearest to the depth: what leaves is as deep as what enters.
std::size_t Generator::pick(Symbol& symbol, std::uint32_t depth) {
  std::size_t chosen = 0;
  std::uint32_t nearest = UINT32_MAX;
  for (int i = 0; i < 6; ++i) {
    const std::size_t index = below(static_cast<std::uint32_t>(symbol.orders.size()));
    const std::uint32_t its = depth_of(symbol, symbol.orders[index]);
    const std::uint32_t distance = its > depth ? its - depth : depth - its;
    if (i == 0 || distance < nearest) {
      chosen = index;
      nearest = distance;
    }
  }
  return chosen;
}

void Generator::add(std::uint32_t locate) {
  auto& symbol = symbols_[locate - 1];
  const Side side = below(2) ? Side::offer : Side::bid;
  const std::uint32_t share = below(65'536);
  const std::uint32_t depth = share >= kStubShare ? kStub : interpolate(kDepth, share);
  const std::uint32_t price = place(symbol, side, depth);
  const std::uint32_t qty = below(10) < 7 ? 100 * (1 + below(5)) : 1 + below(2000);
  const Standing order{.ref = next_ref_, .price = price, .qty = qty, .side = side};
  next_ref_ += 1 + below(3);
  const bool attributed = below(100) < 3;
  Message message(attributed ? 'F' : 'A', locate, now_ns_);
  message.put(order.ref).text(side == Side::bid ? "B" : "S").put(qty).text(symbol.name).put(price);
  if (attributed) message.text("NITE");
  emit(message);
  stand(symbol, order);
}

void Generator::take(std::uint32_t locate) {
  auto& symbol = symbols_[locate - 1];
  const std::uint32_t chance = below(1000);
  if (chance < 55) {
    execute(locate);
    return;
  }
  if (chance < 68) {
    // P: a trade against an order that nobody sees, between the quotes.
    const auto best = symbol.sides[0].best().price;
    Message message('P', locate, now_ns_);
    message.put(std::uint64_t{0}).text("B").put(100 * (1 + below(5))).text(symbol.name);
    message.put(best ? best : detail::price_of(symbol.fair_tick)).put(next_match_++);
    emit(message);
    return;
  }
  const std::uint32_t share = below(65'536);
  const std::size_t index = pick(symbol, share >= kStubShare ? kStub : interpolate(kDepth, share));
  if (chance < 220) {
    replace(locate, index);
  } else if (chance < 250 && symbol.orders[index].qty > 1) {
    Message message('X', locate, now_ns_);
    const std::uint32_t gone = 1 + below(symbol.orders[index].qty - 1);
    message.put(symbol.orders[index].ref).put(gone);
    emit(message);
    leave(symbol, index, gone);
  } else {
    remove(locate, index);
  }
}

void Generator::execute(std::uint32_t locate) {
  auto& symbol = symbols_[locate - 1];
  const std::uint64_t hint = symbol.newest_at_best[below(2)];
  std::size_t index = hint & ((1U << 20) - 1);
  const bool stands = index < symbol.orders.size() && symbol.orders[index].ref << 20 == hint >> 20 << 20;
  if (!stands) index = pick(symbol, 0);
  const Standing order = symbol.orders[index];
  if (depth_of(symbol, order) != 0) {
    // Nothing was found at the inside, and nothing behind it can trade.
    remove(locate, index);
    return;
  }
  const std::uint32_t qty = below(3) == 0 && order.qty > 1 ? 1 + below(order.qty - 1) : order.qty;
  const bool at_price = below(100) < 3;
  Message message(at_price ? 'C' : 'E', locate, now_ns_);
  message.put(order.ref).put(qty).put(next_match_++);
  if (at_price) message.text(below(4) ? "Y" : "N").put(order.price);
  emit(message);
  leave(symbol, index, qty);
}

void Generator::remove(std::uint32_t locate, std::size_t index) {
  auto& symbol = symbols_[locate - 1];
  const Standing order = symbol.orders[index];
  Message message('D', locate, now_ns_);
  message.put(order.ref);
  emit(message);
  leave(symbol, index, order.qty);
}

void Generator::replace(std::uint32_t locate, std::size_t index) {
  auto& symbol = symbols_[locate - 1];
  const Standing old = symbol.orders[index];
  leave(symbol, index, old.qty);
  const std::uint32_t share = below(65'536);
  Standing order{.ref = next_ref_, .price = 0, .qty = 100 * (1 + below(6)), .side = old.side};
  order.price = place(symbol, old.side, share >= kStubShare ? kStub : interpolate(kDepth, share));
  next_ref_ += 1 + below(3);
  Message message('U', locate, now_ns_);
  message.put(old.ref).put(order.ref).put(order.qty).put(order.price);
  emit(message);
  stand(symbol, order);
}

}  // namespace latlab::market
