#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "check.hpp"
#include "market/crew.hpp"
#include "market/generator.hpp"
#include "market/pipeline.hpp"

using namespace latlab::market;

namespace {

using Data = std::vector<std::uint8_t>;

Data a_day(std::uint64_t messages, std::uint32_t symbols) {
  Generator generator({.seed = 5, .messages = messages, .symbols = symbols});
  Data bytes;
  Data buffer(4096);
  while (const std::size_t size = generator.fill(buffer))
    bytes.insert(bytes.end(), buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(size));
  return bytes;
}

struct Made {
  std::string text;
  std::uint64_t changes;
  FeedCounts counts;
  std::size_t standing;
  std::size_t names;
  bool entangled;
};

Made inside_by(std::size_t shares, const Data& day, std::size_t piece, std::uint64_t skip = 0,
               bool lenient = false) {
  Pipeline::Sinks sinks;
  for (std::size_t i = 0; i < shares; ++i) {
    sinks.push_back(
        std::make_unique<InsideSink<LadderSide>>(kDefaultCapacity, 1, true, skip, Selection{}, shares));
  }
  Pipeline made_elsewhere("binary", lenient, std::move(sinks));
  Pipeline pipeline = std::move(made_elsewhere);
  auto& made = dynamic_cast<InsideResult&>(pipeline.sink());
  std::string text;
  for (std::size_t at = 0; at < day.size(); at += piece) {
    pipeline.feed(Bytes(day).subspan(at, std::min(piece, day.size() - at)));
    text += std::exchange(made.text, {});
  }
  pipeline.finish();
  return {text + made.text,        made.changes,        pipeline.counts(), pipeline.standing(),
          pipeline.names().size(), pipeline.entangled()};
}

void check_same(const Made& expected, const Made& actual) {
  CHECK(!actual.entangled);
  CHECK_EQUAL(expected.text.size(), actual.text.size());
  CHECK(expected.text == actual.text);
  CHECK_EQUAL(expected.changes, actual.changes);
  CHECK_EQUAL(expected.counts.messages, actual.counts.messages);
  CHECK(expected.counts.by_type == actual.counts.by_type);
  CHECK_EQUAL(expected.counts.first_ns, actual.counts.first_ns);
  CHECK_EQUAL(expected.counts.last_ns, actual.counts.last_ns);
  CHECK_EQUAL(expected.counts.out_of_order, actual.counts.out_of_order);
  CHECK_EQUAL(expected.standing, actual.standing);
  CHECK_EQUAL(expected.names, actual.names);
}

}  // namespace

TEST("several threads that share the symbols make what one makes, in pieces of any size") {
  const Data day = a_day(20'000, 40);
  const Made expected = inside_by(1, day, day.size());
  for (const std::size_t shares : {2U, 3U, 8U}) {
    for (const std::size_t piece : {day.size(), std::size_t{100'000}, std::size_t{997}})
      check_same(expected, inside_by(shares, day, piece));
  }
}

TEST("what isn't plain between the parts that threads scan is gone over by one, as a single thread does") {
  // Parts of 16 KiB at least: several of them in each block.
  const Data day = a_day(60'000, 40);
  std::vector<std::size_t> starts;
  itch::FrameCursor cursor(day);
  itch::Frame frame;
  while (cursor.next(frame)) starts.push_back(static_cast<std::size_t>(frame.offset));
  const auto begins = [&](std::size_t message, const Data& what) {
    Data with = day;
    with.insert(with.begin() + static_cast<std::ptrdiff_t>(starts[message]), what.begin(), what.end());
    return with;
  };
  const Data empty{0, 0};
  const Data unknown{0, 3, '?', 1, 2};
  // A text of 60 bytes with frames in it, as a part's guess might find them.
  Data decoy{0, 60, '!'};
  decoy.insert(decoy.end(), day.begin() + static_cast<std::ptrdiff_t>(starts[30'000]),
               day.begin() + static_cast<std::ptrdiff_t>(starts[30'000]) + 59);
  for (const auto& what : {empty, unknown, decoy}) {
    for (const std::size_t message : {1U, 14'000U, 30'001U, 59'990U}) {
      const Data with = begins(message, what);
      const Made expected = inside_by(1, with, with.size());
      for (const std::size_t shares : {2U, 7U}) {
        const Made actual = inside_by(shares, with, with.size());
        check_same(expected, actual);
        CHECK_EQUAL(expected.counts.empty, actual.counts.empty);
        CHECK_EQUAL(expected.counts.early_ends, actual.counts.early_ends);
        CHECK_EQUAL(expected.counts.unknown, actual.counts.unknown);
      }
    }
  }
}

TEST("a lenient reading by several threads jumps over what one jumps over") {
  Data day = a_day(40'000, 30);
  for (std::size_t at = 5'000; at < day.size(); at += 33'331) day[at] ^= 0x41;
  const Made expected = inside_by(1, day, day.size(), 0, true);
  for (const std::size_t piece : {day.size(), std::size_t{50'000}}) {
    const Made actual = inside_by(3, day, piece, 0, true);
    if (actual.entangled) continue;  // a damaged reference is another symbol's
    check_same(expected, actual);
    CHECK_EQUAL(expected.counts.jumped, actual.counts.jumped);
    CHECK_EQUAL(expected.counts.malformed, actual.counts.malformed);
  }
}

TEST("a file of two days is shared as one of one day") {
  Data days = a_day(5'000, 20);
  const Data second = a_day(6'000, 15);
  days.insert(days.end(), second.begin(), second.end());
  check_same(inside_by(1, days, days.size()), inside_by(2, days, 50'000));
}

TEST("rows that were written already are left out by several threads too") {
  const Data day = a_day(5'000, 20);
  for (const std::uint64_t skip : {1U, 100U, 1'000'000U})
    check_same(inside_by(1, day, day.size(), skip), inside_by(2, day, 20'000, skip));
}

TEST("a strict reading by several threads ends where one ends") {
  Data day = a_day(5'000, 20);
  itch::FrameCursor cursor(day);
  itch::Frame frame;
  for (int i = 0; i < 4'000; ++i) CHECK(cursor.next(frame));
  day[frame.offset + 1] ^= 1;
  const Made expected = inside_by(1, day, day.size());
  const Made actual = inside_by(2, day, day.size());
  check_same(expected, actual);
  CHECK_EQUAL(1U, actual.counts.malformed);
}

TEST("an order of two symbols entangles the threads, and nothing of its piece is given out") {
  const Data day = a_day(5'000, 20);
  Data hurt = day;
  itch::FrameCursor cursor(hurt);
  itch::Frame frame;
  while (cursor.next(frame) && !(frame.offset > hurt.size() / 2 && frame.type() == 'D')) {
  }
  hurt[frame.offset + 2 + 2] ^= 3;  // its symbol's number
  const Made alone = inside_by(1, hurt, hurt.size());
  const Made shared = inside_by(8, hurt, 10'000);
  CHECK(!alone.entangled);
  CHECK(shared.entangled);
  CHECK(shared.text.size() < alone.text.size());
  CHECK(alone.text.starts_with(shared.text));
}

TEST("what a crew's work throws is thrown to who asked for it, and the crew goes on") {
  Crew crew(3);
  bool thrown = false;
  try {
    crew.run([](std::size_t i) {
      if (i == 2) throw std::runtime_error("no memory");
    });
  } catch (const std::runtime_error&) {
    thrown = true;
  }
  CHECK(thrown);
  std::vector<int> done(3);
  crew.run([&](std::size_t i) { ++done[i]; });
  CHECK((done == std::vector<int>{1, 1, 1}));
}
