#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "check.hpp"
#include "market/book.hpp"
#include "market/generator.hpp"
#include "market/itch.hpp"

using namespace latlab::market;

namespace {

static_assert(std::is_nothrow_move_constructible_v<ArraySide> &&
              std::is_nothrow_move_constructible_v<SortedSide> &&
              std::is_nothrow_move_constructible_v<LadderSide>);
static_assert(std::is_nothrow_move_constructible_v<MapSide>,
              "a growing set of books must move its pooled maps");

std::vector<std::uint8_t> day(std::uint64_t seed, std::uint64_t messages, std::uint32_t symbols) {
  Generator generator({.seed = seed, .messages = messages, .symbols = symbols});
  std::vector<std::uint8_t> bytes;
  std::vector<std::uint8_t> buffer(5000);
  while (const std::size_t size = generator.fill(buffer)) {
    bytes.insert(bytes.end(), buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(size));
  }
  return bytes;
}

template <class S>
std::vector<Level> levels_of(const S& side) {
  std::vector<Level> levels;
  side.visit([&](const Level& level) {
    levels.push_back(level);
    return true;
  });
  return levels;
}

// Random quantities at prices near, far, below a dollar, off the tick and at both ends, against a plain map.
template <class S>
void agrees_with_a_plain_map(Side which, std::size_t capacity) {
  std::mt19937_64 random(capacity + static_cast<std::size_t>(which));
  S side(which, {.capacity = capacity});
  std::map<std::uint32_t, std::uint64_t> plain;
  std::uint32_t middle = 500'000;
  const auto alter = [&](std::uint32_t price, std::int64_t shares) {
    if (random() % 2 == 0) {
      const Level before = side.best();
      const bool changed = side.change(price, shares);
      CHECK_EQUAL(before != side.best(), changed);
    } else if (shares > 0) {
      side.add(price, static_cast<std::uint64_t>(shares));
    } else {
      side.remove(price, static_cast<std::uint64_t>(-shares));
    }
  };
  for (int i = 0; i < 30'000; ++i) {
    std::uint32_t price = 0;
    switch (random() % 12) {
      case 0:
        price = static_cast<std::uint32_t>(random());
        break;
      case 1:
        price = random() % 2 ? 1 : 1'999'999'900;
        break;
      case 2:
        price = static_cast<std::uint32_t>(random() % 10'000);
        break;
      case 3:
        middle += static_cast<std::uint32_t>(random() % 40'000) - 20'000;
        [[fallthrough]];
      default:
        price = (middle + static_cast<std::uint32_t>(random() % 20'000)) / 100 * 100;
    }
    if (random() % 2 == 0 && !plain.empty()) {
      auto at = plain.lower_bound(price);
      if (at == plain.end()) --at;
      const std::uint64_t qty = random() % 2 ? at->second : 1 + random() % at->second;
      alter(at->first, -static_cast<std::int64_t>(qty));
      at->second -= qty;
      if (at->second == 0) plain.erase(at);
    } else {
      const std::uint64_t qty = 1 + random() % 1000;
      alter(price, static_cast<std::int64_t>(qty));
      plain[price] += qty;
    }
    Level best;
    if (!plain.empty()) {
      const auto& [px, qty] = which == Side::bid ? *plain.rbegin() : *plain.begin();
      best = {px, qty};
    }
    CHECK_EQUAL(best.price, side.best().price);
    CHECK_EQUAL(best.qty, side.best().qty);
    if (i % 1000 == 0) {
      std::vector<Level> expected;
      expected.reserve(plain.size());
      for (const auto& [px, qty] : plain) expected.push_back({px, qty});
      if (which == Side::bid) std::reverse(expected.begin(), expected.end());
      CHECK(expected == levels_of(side));
      CHECK_EQUAL(expected.size(), side.levels());
    }
    if (i % 9973 == 9972) {
      side.clear();
      plain.clear();
    }
  }
}

Event add(std::uint64_t ref, Side side, std::uint32_t qty, std::uint32_t price) {
  return {.ref = ref, .qty = qty, .price = price, .locate = 1, .type = 'A', .kind = Kind::add, .side = side};
}

}  // namespace

TEST("every design of a book side agrees with a plain map") {
  for (const Side which : {Side::bid, Side::offer}) {
    agrees_with_a_plain_map<MapSide>(which, 0);
    agrees_with_a_plain_map<SortedSide>(which, 0);
    agrees_with_a_plain_map<LadderSide>(which, 0);
    for (const std::size_t capacity : {64U, 256U, 8192U}) agrees_with_a_plain_map<ArraySide>(which, capacity);
  }
}

TEST("a better price beyond the array flushes it, an exhausted array refills, a far one goes to the map") {
  ArraySide side(Side::bid, {.capacity = 64});
  side.add(1'000'000, 10);
  side.add(1, 5);
  CHECK_EQUAL(1U, side.counts().far);
  side.add(1'000'000 + 100 * 64, 7);
  CHECK_EQUAL(1U, side.counts().flushes);
  side.remove(1'000'000 + 100 * 64, 7);
  CHECK_EQUAL(1U, side.counts().refills);
  CHECK_EQUAL(1'000'000U, side.best().price);
  side.remove(1'000'000, 10);
  CHECK_EQUAL(1U, side.best().price);
}

TEST("a sorted side of very many levels stays exact beyond its bound") {
  SortedSide side(Side::offer);
  for (std::uint32_t i = 0; i < 40'000; ++i) side.add(i * 7919U % 40'000U * 100 + 100, 1);
  CHECK_EQUAL(40'000U, side.levels());
  for (std::uint32_t i = 0; i < 40'000; ++i) {
    CHECK_EQUAL(i * 100 + 100, side.best().price);
    side.remove(side.best().price, 1);
  }
  CHECK_EQUAL(0U, side.best().qty);
}

namespace {

// Inserts, look-ups and erasures of the references that next() makes, against a plain map.
template <class Table, class Next>
void agrees_with_plain_orders(Table& table, std::uint32_t count, Next&& next) {
  std::mt19937_64 random(7);
  std::unordered_map<std::uint64_t, std::uint32_t> plain;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint64_t ref = next(random);
    if (random() % 2) {
      CHECK_EQUAL(plain.emplace(ref, i).second, table.insert(ref, {.qty = i}) != nullptr);
    } else {
      Order* order = table.find(ref);
      CHECK_EQUAL(plain.count(ref) == 1, order != nullptr);
      if (order == nullptr) continue;
      CHECK_EQUAL(plain[ref], order->qty);
      table.erase(ref, order);
      plain.erase(ref);
    }
    CHECK_EQUAL(plain.size(), table.size());
  }
  std::unordered_map<std::uint64_t, std::uint32_t> found;
  table.for_each([&](std::uint64_t ref, const Order& order) { found.emplace(ref, order.qty); });
  CHECK(found == plain);
  table.clear();
  CHECK_EQUAL(0U, table.size());
}

}  // namespace

TEST("the order map agrees with a plain map, also when references collide on purpose") {
  for (const std::uint64_t stride : {1U, 8U, 1U << 20}) {
    OrderMap map(16);
    agrees_with_plain_orders(map, 20'000, [&](auto& random) { return random() % 4000 * stride; });
  }
}

TEST("the order table agrees with a plain map whether references rise densely, thinly, wildly or turn back") {
  for (const std::uint64_t step : {1U, 7U, 40U, 5'000U, 1U << 22}) {
    OrderTable table;
    std::uint64_t top = 1;
    agrees_with_plain_orders(table, 300'000, [&](auto& random) {
      top += step;
      if (random() % 50'000 == 0) return std::uint64_t{random()};  // a damaged one
      // The newest, or one of the latest thousands, or one of any time.
      const std::uint64_t back =
          random() % 3 == 0 ? random() % (top / step) : random() % 3000 * (random() % 2);
      return top - std::min(top, back * step);
    });
  }
}

TEST("orders outlive the page of the table that they were put in") {
  OrderTable table;
  constexpr std::uint64_t kDay = 12'000'000;
  std::uint64_t standing = 0;
  for (std::uint64_t ref = 0; ref < kDay; ++ref) {
    Order* order = table.insert(ref, {.qty = static_cast<std::uint32_t>(ref)});
    CHECK(order != nullptr);
    if (ref % 5'000 == 0) {
      ++standing;
    } else {
      table.erase(ref, order);
    }
  }
  CHECK_EQUAL(standing, table.size());
  for (std::uint64_t ref = 0; ref < kDay; ref += 5'000) {
    Order* order = table.find(ref);
    CHECK(order != nullptr && order->qty == ref);
    CHECK(table.insert(ref, {.qty = 1}) == nullptr);
    table.erase(ref, table.find(ref));
  }
  CHECK_EQUAL(0U, table.size());
}

TEST(
    "a table that is cleared takes the next day's references from the beginning, in the memory that it has") {
  OrderTable table;
  table.expect(1, 3'000'000);
  for (int day = 0; day < 3; ++day) {
    for (std::uint64_t ref = 1; ref < 200'000; ++ref) {
      Order* order = table.insert(ref, {.qty = static_cast<std::uint32_t>(ref + day)});
      CHECK(order != nullptr);
      CHECK(!table.in_map(ref));
    }
    CHECK_EQUAL(199'999U, table.size());
    CHECK_EQUAL(7U + day, table.find(7)->qty);
    table.clear();
    CHECK_EQUAL(0U, table.size());
    CHECK(table.find(7) == nullptr);
  }
}

TEST("a table may be told to expect any references") {
  OrderTable table;
  table.expect(0, 0);
  table.expect(UINT64_MAX - 5, UINT64_MAX);
  table.expect(1, UINT64_MAX);
  CHECK(table.find(1) == nullptr);
  CHECK(table.insert(UINT64_MAX, {.qty = 3}) != nullptr);
}

TEST("a batch of events does to books what they do one by one") {
  const auto bytes = day(6, 30'000, 40);
  itch::FrameCursor frames(bytes);
  itch::Frame frame;
  std::vector<Event> events;
  while (frames.next(frame)) events.push_back(itch::decode(frame));
  Books<> single;
  Books<> batched;
  std::size_t at = 0;
  batched.apply(events, [&](const Event& event, const Effect& effect) {
    const Effect other = single.apply(events[at++]);
    CHECK_EQUAL(other.changed, effect.changed);
    CHECK_EQUAL(other.applied, effect.applied);
    CHECK(single.inside(event.locate) == batched.inside(event.locate));
  });
  CHECK_EQUAL(events.size(), at);
}

TEST("a replacement that leaves the inside as it was is not a change") {
  OrderBook<> book;
  CHECK(book.apply(add(1, Side::bid, 100, 10'000)));
  const auto replaced = [&book](std::uint64_t ref, std::uint32_t price) {
    return book.apply({.ref = ref,
                       .new_ref = ref + 1,
                       .qty = 100,
                       .price = price,
                       .locate = 1,
                       .type = 'U',
                       .kind = Kind::replace});
  };
  CHECK(!replaced(1, 10'000));
  CHECK(replaced(2, 10'100));
  CHECK_EQUAL(10'100U, book.inside().bid_px);
}

TEST("an execution at another price reduces the level of the resting order") {
  OrderBook<> book;
  book.apply(add(1, Side::offer, 100, 20'000));
  CHECK(
      book.apply({.ref = 1, .qty = 40, .price = 19'000, .locate = 1, .type = 'C', .kind = Kind::execute_at}));
  CHECK_EQUAL(20'000U, book.inside().offer_px);
  CHECK_EQUAL(60U, book.inside().offer_qty);
}

TEST("what can't be applied is counted and changes nothing it should not") {
  OrderBook<> book;
  book.apply(add(1, Side::bid, 100, 10'000));
  CHECK(!book.apply({.ref = 9, .locate = 1, .type = 'D', .kind = Kind::remove}));
  CHECK(!book.apply(add(1, Side::bid, 5, 11'000)));
  CHECK(!book.apply(add(2, Side::bid, 0, 11'000)));
  CHECK(book.apply({.ref = 1, .qty = 101, .locate = 1, .type = 'E', .kind = Kind::execute}));
  CHECK_EQUAL(1U, book.anomalies().unknown_order);
  CHECK_EQUAL(1U, book.anomalies().duplicate_order);
  CHECK_EQUAL(1U, book.anomalies().zero_quantity);
  CHECK_EQUAL(1U, book.anomalies().beyond_quantity);
  CHECK_EQUAL(0U, book.inside().bid_px);
  CHECK_EQUAL(1U, book.orders());
}

TEST("a generated day is the same for a seed, and another for another") {
  CHECK(day(3, 20'000, 50) == day(3, 20'000, 50));
  CHECK(day(3, 20'000, 50) != day(4, 20'000, 50));
}

TEST("a generated day is what was asked for: all types, in order of time, nothing that does not stand") {
  for (const std::uint64_t messages : {1U, 2U, 3U, 7U, 11U, 100U, 1000U, 60'000U}) {
    const auto bytes = day(1, messages, 200);
    itch::FrameCursor frames(bytes);
    itch::Frame frame;
    Books<> books;
    Books<ArraySide> arrays(128);
    Books<MapSide> maps;
    std::map<char, int> types;
    std::uint64_t count = 0;
    std::uint64_t last = 0;
    while (frames.next(frame)) {
      CHECK(itch::well_formed(frame));
      const Event event = itch::decode(frame);
      CHECK(event.ts_ns >= last);
      last = event.ts_ns;
      ++types[event.type];
      ++count;
      const Effect effect = books.apply(event);
      CHECK_EQUAL(effect.changed, arrays.apply(event).changed);
      CHECK_EQUAL(effect.changed, maps.apply(event).changed);
      CHECK(books.inside(effect.locate) == arrays.inside(effect.locate));
      CHECK(books.inside(effect.locate) == maps.inside(effect.locate));
    }
    CHECK(!frames.truncated());
    CHECK_EQUAL(messages, count);
    CHECK_EQUAL(0U, books.anomalies().total());
    if (messages == 60'000) CHECK_EQUAL(itch::kTypeCount, types.size());
  }
}

TEST("a torn, flipped or foreign stream of frames ends at an offset and breaks nothing") {
  const auto whole = day(5, 2000, 20);
  std::mt19937_64 random(11);
  for (int round = 0; round < 300; ++round) {
    auto bytes = whole;
    bytes.resize(random() % bytes.size());
    for (auto flips = random() % 8; flips != 0 && !bytes.empty(); --flips) {
      bytes[random() % bytes.size()] ^= static_cast<std::uint8_t>(1U << random() % 8);
    }
    if (round % 10 == 0) {
      for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
    }
    itch::FrameCursor frames(bytes);
    itch::Frame frame;
    Books<ArraySide> books(64);
    while (frames.next(frame)) {
      if (itch::well_formed(frame)) books.apply(itch::decode(frame));
    }
    CHECK(frames.offset() <= bytes.size());
    CHECK_EQUAL(frames.truncated(), frames.offset() != bytes.size());
  }
}
