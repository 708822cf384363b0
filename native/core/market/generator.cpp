#include "market/generator.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "market/arrivals.hpp"
#include "market/generator_message.hpp"

namespace latlab::market {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

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

}  // namespace

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
    if (share >= kBurstShare) cluster_size_ = kMicroburst + below(kMicroburst * 2);
    cluster_left_ = cluster_size_;
    leader_ = choose_symbol();
    const std::uint64_t due = time_of(((done << 20) / all) << 12) + below(100'000);
    now_ns_ = std::max(now_ns_ + 20 + below(1000), due);
  } else {
    now_ns_ += cluster_size_ >= kMicroburst ? draw(kBurstGap) : draw(kGap);
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

}  // namespace latlab::market
