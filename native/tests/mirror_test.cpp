#include <sys/wait.h>
#include <unistd.h>
#include <latlab/counter_reader.hpp>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "check.hpp"
#include "queues/mirror.hpp"
#include "queues/sampler.hpp"

using namespace latlab;
using queues::Mirror;
using queues::RemoteQueue;

namespace {

std::uint64_t address(const volatile void* of) {
  return reinterpret_cast<std::uint64_t>(of);
}

// A ring of 100 cells whose indices start again at 0, in 32 bits; nothing in it knows of latlab.
struct {
  volatile std::uint32_t head = 90;
  volatile std::uint32_t tail = 95;
} ring;

RemoteQueue described() {
  return {.name = "ring",
          .source_type = "",
          .source_name = "feed",
          .drain_type = "",
          .drain_name = "book",
          .in_address = address(&ring.tail),
          .out_address = address(&ring.head),
          .index_bytes = 4,
          .modulus = 100,
          .capacity = 99};
}

// The ring as it is at first, its mirror, and who reads that.
struct Mirrored {
  Mirror mirror = of_five();
  const CounterReader reader = CounterReader::of_own(mirror.path());

  static Mirror of_five() {
    ring.head = 90;
    ring.tail = 95;
    return Mirror(::getpid(), {described()});
  }
};

}  // namespace

TEST("a queue of a process that knows nothing of it is read by address, over the rounds of its indices") {
  Mirrored mirrored;
  auto& [mirror, reader] = mirrored;
  CHECK(reader.state() == ReadState::ready);
  QueueView view;
  CHECK(reader.describe(0, view));
  CHECK_EQUAL(std::string("book"), view.drain_name);
  CHECK_EQUAL(99U, view.capacity);
  const QueueHot& hot = reader.counts(0);
  const std::uint64_t before = hot.producer.in.load();
  CHECK_EQUAL(5U, before - hot.consumer.out.load());
  ring.tail = 3;
  ring.head = 98;
  CHECK(mirror.refresh());
  CHECK_EQUAL(8U, hot.producer.in.load() - before);
  CHECK_EQUAL(5U, hot.producer.in.load() - hot.consumer.out.load());
}

TEST("an index that went round between two looks leaves the fill as it is") {
  Mirrored mirrored;
  auto& [mirror, reader] = mirrored;
  CHECK(reader.state() == ReadState::ready);
  const QueueHot& hot = reader.counts(0);
  const std::uint64_t before = hot.producer.in.load();
  // 104 came in and 97 went out: only `in` has passed where it was.
  ring.tail = 99;
  ring.head = 87;
  CHECK(mirror.refresh());
  CHECK_EQUAL(12U, hot.producer.in.load() - hot.consumer.out.load());
  // 97 came in, 104 went out.
  ring.tail = 96;
  ring.head = 91;
  CHECK(mirror.refresh());
  CHECK_EQUAL(5U, hot.producer.in.load() - hot.consumer.out.load());
  CHECK(hot.producer.in.load() >= before);
}

TEST("the sampler copies what is read by address before it looks") {
  ring.head = 0;
  ring.tail = 1;
  auto mirror = std::make_shared<Mirror>(::getpid(), std::vector<RemoteQueue>{described()});
  const auto reader = std::make_shared<const CounterReader>(CounterReader::of_own(mirror->path()));
  queues::Sampler sampler({.chunk_samples = 64, .chunks = 2});
  sampler.set_plan({reader}, {0}, {{0, false, {{0, 0, 1}}, {{0, 0, 1}}}}, {mirror});
  for (std::uint32_t i = 2; i <= 4; ++i) {
    ring.tail = i;
    sampler.sweep();
  }
  sampler.flush();
  const queues::Chunk* const chunk = sampler.front();
  CHECK(chunk != nullptr);
  CHECK_EQUAL(3U, chunk->sample_count);
  CHECK_EQUAL(4U, chunk->samples[2].in - chunk->samples[2].out_high);
  sampler.release();
}

TEST("an address that is not there is an error that says so") {
  RemoteQueue wrong = described();
  wrong.in_address = 8;
  std::string said;
  try {
    const Mirror mirror(::getpid(), {wrong});
  } catch (const std::runtime_error& error) {
    said = error.what();
  }
  CHECK(said.find("can't be read") != std::string::npos);
}

TEST("a mirror of a process that has ended is dead") {
  int ends[2];
  CHECK(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    char byte = 0;
    ::close(ends[1]);
    const bool told = ::read(ends[0], &byte, 1) == 0;  // until the parent closes its end
    ::unlink(CounterFile::process().path().c_str());
    ::_exit(told ? 0 : 1);
  }
  Mirror mirror(child, {described()});
  const CounterReader reader = CounterReader::of_own(mirror.path());
  CHECK(reader.alive());
  ::close(ends[1]);
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  CHECK(!mirror.refresh());
  CHECK(!reader.alive());
}
