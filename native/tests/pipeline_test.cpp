#include <latlab/shared_queue.hpp>
#include <latlab/trace.hpp>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>

#include "check.hpp"
#include "market/arrivals.hpp"
#include "pipeline/exchange.hpp"
#include "pipeline/plan.hpp"

using namespace latlab;
using namespace latlab::pipeline;

namespace {

std::string temporary(const char* name) {
  return "/tmp/latlab-test-" + std::to_string(::getpid()) + '-' + name;
}

// A file that is gone at the end of the test.
struct File {
  File(const char* name, const std::string& bytes) : path(temporary(name)) {
    std::ofstream(path, std::ios::binary) << bytes;
  }
  ~File() { std::remove(path.c_str()); }
  std::string path;
};

// A system-event message, framed.
std::string frame(std::uint64_t stamp) {
  std::string text("\0\x0cS\0\0\0\0", 7);
  for (int shift = 40; shift >= 0; shift -= 8) text += static_cast<char>(stamp >> shift);
  return text + 'O';
}

template <class Body>
std::string refusal(Body&& body) {
  try {
    body();
  } catch (const PlanError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST("a plan's values are percent-decoded and numbered by line") {
  const File file("plan", "run application=a%20b seconds=1\n\nthread name=x crew=c\n");
  const Plan plan = read_plan(file.path);
  CHECK_EQUAL(std::string("a b"), plan.run.text("application"));
  CHECK_EQUAL(3, plan.threads.front().line);
}

TEST("a plan's number that is none is refused with its line and key") {
  const File file("plan", "run seconds=soon\n");
  const Plan plan = read_plan(file.path);
  CHECK_EQUAL(std::string("line 1: seconds=soon is not a whole number"),
              refusal([&] { (void)plan.run.number("seconds"); }));
}

TEST("an unknown record of a plan is refused") {
  const File file("plan", "run seconds=1\nelephant name=x\n");
  CHECK_EQUAL(std::string("line 2: unknown record 'elephant'"), refusal([&] { read_plan(file.path); }));
}

TEST("a feed that is cut short is refused with the offset of the torn frame") {
  const File file("feed", frame(1) + std::string("\0\x0cS", 3));
  CHECK_EQUAL(file.path + ": offset 14: the frame is cut short", refusal([&] { FeedFile feed(file.path); }));
}

TEST("a feed without a message is refused") {
  const File file("feed", std::string("\0\3abc", 5));
  CHECK_EQUAL(file.path + ": offset 0: is not an ITCH-5.0 message",
              refusal([&] { FeedFile feed(file.path); }));
}

TEST("what the input buffer has no room for is dropped and counted") {
  const File file("feed", frame(1) + frame(2) + frame(3));
  const FeedFile feed(file.path);
  Channel<Packet> buffer("spsc", 4, {.name = "feed"});
  Line line{.file = &feed, .out = &buffer, .pacing = {.mode = Pacing::Mode::fast}};
  Exchange exchange({line}, 1'000'000'000, 10, false);
  std::thread runner([&] { exchange.run(); });
  // The first pass fills three cells and its end the fourth; nobody takes anything out, so the next is lost.
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (buffer.size() < 4 && std::chrono::steady_clock::now() < patience) std::this_thread::yield();
  exchange.stop();
  runner.join();
  CHECK_EQUAL(4U, buffer.size());
  CHECK(exchange.lines().front().dropped + 3 == exchange.lines().front().sent);
}

TEST("a market's arrivals are the same for a seed, ascend, keep the mean, and have microbursts") {
  market::Arrivals one(1, 60'000);
  market::Arrivals again(1, 60'000);
  market::Arrivals other(2, 60'000);
  constexpr int kMessages = 1'000'000;
  std::uint64_t last = 0;
  std::uint64_t in_a_row = 0;  // with gaps as inside a microburst
  std::uint64_t most = 0;
  bool same = true;
  bool differ = false;
  bool ascend = true;
  for (int i = 0; i < kMessages; ++i) {
    const std::uint64_t at = one.next();
    same = same && at == again.next();
    differ = differ || at != other.next();
    ascend = ascend && at >= last;
    in_a_row = at - last < 4'000 ? in_a_row + 1 : 0;
    most = std::max(most, in_a_row);
    last = at;
  }
  const double mean = static_cast<double>(last) / kMessages;
  CHECK(same);
  CHECK(differ);
  CHECK(ascend);
  CHECK(most >= 250);
  CHECK(mean > 57'000 && mean < 63'000);
}

TEST("an event count wakes a waiter, and lets one through that came too late to sleep") {
  EventCount count;
  std::atomic<bool> ready{false};
  std::thread waiter([&] {
    while (!ready.load()) count.wait([&] { return ready.load(); }, 1'000'000'000);
  });
  ready.store(true);
  count.notify();
  waiter.join();
  CHECK(count.wait([] { return true; }, 1'000'000'000));
}

TEST("a queue between processes carries every event once and in order") {
  const std::string path = temporary("ring");
  auto out = SharedRing<std::uint64_t>::create(path, 16, {.name = "ring"});
  auto in = SharedRing<std::uint64_t>::attach(path, {.name = "ring"});
  constexpr std::uint64_t kEvents = 20000;
  std::thread producer([&] {
    for (std::uint64_t i = 0; i < kEvents;) {
      if (out.try_push(i)) {
        out.flush();
        ++i;
      } else {
        std::this_thread::yield();
      }
    }
    out.close();
  });
  std::uint64_t expected = 0;
  bool in_order = true;
  while (!in.closed() || !in.empty()) {
    std::uint64_t value = 0;
    if (in.try_pop(value)) {
      in_order = in_order && value == expected++;
    } else {
      in.wait(1'000'000);
    }
  }
  producer.join();
  CHECK(in_order);
  CHECK_EQUAL(kEvents, expected);
  CHECK_EQUAL(kEvents, in.slot().consumer().out.load());
}

TEST("a consumer that attaches late goes on with the oldest event that nobody has taken") {
  const std::string path = temporary("late");
  auto out = SharedRing<int>::create(path, 4, {});
  {
    auto first = SharedRing<int>::attach(path, {});
    int value = 0;
    for (int i = 0; i < 7; ++i) {
      CHECK(out.try_push(i));
      if (i < 5) CHECK(first.try_pop(value));
    }
  }
  auto second = SharedRing<int>::attach(path, {});
  int value = 0;
  CHECK(second.try_pop(value));
  CHECK_EQUAL(5, value);
}

TEST("a segment of another type is refused") {
  const std::string path = temporary("type");
  auto out = SharedRing<int>::create(path, 4, {});
  std::string what = "accepted";
  try {
    auto in = SharedRing<std::array<char, 40>>::attach(path, {});
  } catch (const std::runtime_error& error) {
    what = error.what();
  }
  CHECK_EQUAL(path + ": the segment is of another type", what);
}

TEST("a trace lane that is full counts what it loses") {
  const File file("trace", "");
  TraceFile traces(file.path, 1, 2, 1);
  TraceLane lane = traces.lane(0);
  for (std::uint64_t i = 0; i < 5; ++i) lane.hop(i, 0, 1, 2);
  std::ifstream in(file.path, std::ios::binary);
  in.seekg(4096);
  std::uint64_t counts[2] = {};
  in.read(reinterpret_cast<char*>(counts), sizeof counts);
  CHECK_EQUAL(2U, counts[0]);
  CHECK_EQUAL(3U, counts[1]);
}
