#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include <array>
#include <set>
#include <stdexcept>
#include <thread>

#include "check.hpp"
#include "messaging/forward.hpp"
#include "messaging/loops.hpp"
#include "messaging/message.hpp"
#include "messaging/ring.hpp"
#include "messaging/run.hpp"
#include "messaging_runs.hpp"

namespace lm = latlab::messaging;
using lm::tests::finish;
using lm::tests::plan;

namespace {

int memory() {
  return memfd_create("latlab-test", 0);
}

lm::ChannelSpec ring(int fd, std::size_t size, bool poll) {
  return {.text = "ring:" + std::to_string(fd), .size = size, .poll = poll, .yield = true};
}

}  // namespace

TEST("a message of every small size carries its sequence number, and damage to it is seen") {
  for (std::size_t size = 1; size <= 70; ++size) {
    const lm::Pattern pattern(size);
    std::vector<std::byte> body(pattern.data(), pattern.data() + size);
    const std::uint32_t sequence = size == 1 ? 300 : 70000;
    pattern.form().stamp(body.data(), sequence);
    CHECK_EQUAL(sequence, pattern.form().sequence(body.data(), sequence - 20));
    CHECK_EQUAL(sequence, pattern.form().sequence(body.data(), sequence + 20));
    CHECK(pattern.form().intact(body.data()));
    for (std::size_t at = lm::pattern_offset(size); at < size && size >= lm::kChecked; ++at) {
      body[at] ^= std::byte{1};
      CHECK(!pattern.form().intact(body.data()));
      body[at] ^= std::byte{1};
    }
  }
}

TEST("what a broker writes into a message is not damage") {
  const lm::Pattern pattern(64);
  std::vector<std::byte> body(pattern.data(), pattern.data() + 64);
  pattern.form().stamp(body.data(), 5);
  body[9] = std::byte{77};
  CHECK(pattern.form().intact(body.data()));
}

TEST("every message comes through a ring once, in order, whether it polls or sleeps") {
  for (const bool poll : {true, false}) {
    for (const std::size_t slots : {2U, 5U, 64U}) {
      const int fd = memory();
      lm::ring_create(fd, 24, slots);
      lm::Run run(ring(fd, 24, poll), ring(fd, 24, poll), plan(3000));
      run.start();
      finish(run);
      CHECK_EQUAL(3000U, run.sender().count);
      CHECK_EQUAL(3000U, run.receiver().count);
      CHECK_EQUAL(0U, run.receiver().reordered + run.receiver().duplicated + run.receiver().corrupted);
      for (std::size_t n = 1; n < 3000; ++n) {
        CHECK(run.sent().data()[n] >= run.sent().data()[n - 1]);
        CHECK(run.received().data()[n] != 0);
      }
      close(fd);
    }
  }
}

TEST("a broker's planted faults are counted as what they are") {
  std::array<int, 2> a{}, b{};
  CHECK_EQUAL(0, socketpair(AF_UNIX, SOCK_STREAM, 0, a.data()));
  CHECK_EQUAL(0, socketpair(AF_UNIX, SOCK_STREAM, 0, b.data()));
  const auto spec = [](int fd) {
    return lm::ChannelSpec{.text = "stream:" + std::to_string(fd), .size = 32};
  };
  lm::ForwardPlan faults;
  faults.drop_every = 100;    // 10 of 1000: messages 99, 199, ...
  faults.repeat_every = 250;  // 249, 749; 499 and 999 are dropped
  faults.damage_every = 333;  // 332, 665, 998
  auto out = spec(b[0]);
  out.batch = 64;
  lm::Forwarder broker(spec(a[1]), out, faults);
  {
    lm::Run run(spec(a[0]), spec(b[1]), plan(1000));
    run.start();
    finish(run);
    CHECK_EQUAL(1000U, run.sender().count);
    CHECK_EQUAL(3U, run.receiver().corrupted);
    CHECK_EQUAL(2U, run.receiver().duplicated);
    CHECK_EQUAL(1000U - 10 - 3, run.receiver().count);
  }
  CHECK_EQUAL(990U, broker.result().forwarded);
  for (const int fd : {a[0], a[1], b[0], b[1]}) close(fd);
}

TEST("a run whose messages never arrive can be stopped") {
  std::array<int, 2> a{}, b{};
  CHECK_EQUAL(0, socketpair(AF_UNIX, SOCK_STREAM, 0, a.data()));
  CHECK_EQUAL(0, socketpair(AF_UNIX, SOCK_STREAM, 0, b.data()));
  {
    const lm::ChannelSpec out{.text = "stream:" + std::to_string(a[0]), .size = 4096};
    const lm::ChannelSpec in{.text = "stream:" + std::to_string(b[1]), .size = 4096};
    lm::Run run(out, in, plan(100000));
    run.start();
    CHECK(!run.wait(0.05));
    run.stop();
    CHECK(run.wait(1));
    CHECK(run.sender().count < 100000);
    CHECK_EQUAL(0U, run.receiver().count);
  }
  for (const int fd : {a[0], a[1], b[0], b[1]}) close(fd);
}

TEST("memory that holds no ring is refused") {
  const int fd = memory();
  CHECK_EQUAL(0, ftruncate(fd, 4096));
  const lm::StopFlag stop{false};
  bool refused = false;
  try {
    const auto sender = lm::make_sender(ring(fd, 64, true), stop);
  } catch (const std::invalid_argument&) {
    refused = true;
  }
  CHECK(refused);
  close(fd);
}

TEST("small messages found together share a clock reading in pairs, unless each is worked on") {
  for (const std::size_t size : {std::size_t{64}, std::size_t{9000}}) {
    for (const std::uint64_t work_ns : {std::uint64_t{0}, std::uint64_t{1000}}) {
      const lm::Pattern pattern(size);
      std::vector<std::byte> messages(size * 6);
      for (std::uint32_t n = 0; n < 6; ++n) {
        std::memcpy(messages.data() + n * size, pattern.data(), size);
        pattern.form().stamp(messages.data() + n * size, n);
      }
      std::array<std::uint64_t, 6> at{};
      std::atomic<std::uint64_t> progress{0};
      lm::Side side;
      lm::ReceiveLoop loop{pattern, at.data(), nullptr, 6, 1000, work_ns, progress, side};
      loop.take({.data = messages.data(), .stride = size, .count = 3});
      loop.take({.data = messages.data() + 3 * size, .stride = size, .count = 3});
      CHECK_EQUAL(6U, side.count);
      CHECK_EQUAL(size <= lm::kPaired && work_ns == 0, at[0] == at[1] && at[3] == at[4]);
      CHECK(at[0] <= at[2] && at[2] <= at[3] && at[3] <= at[5]);  // and never across two blocks
    }
  }
}

TEST("paced messages are never sent before they are due") {
  const int fd = memory();
  lm::ring_create(fd, 16, 64);
  auto paced = plan(200);
  paced.period_ns = 50'000;
  lm::Run run(ring(fd, 16, true), ring(fd, 16, true), paced);
  run.start();
  finish(run);
  for (std::size_t n = 0; n < 200; ++n) {
    const auto due =
        run.base_ticks() + static_cast<std::uint64_t>(static_cast<double>(n) * 50'000 * run.ticks_per_ns());
    CHECK(run.sent().data()[n] >= due);
  }
  close(fd);
}
