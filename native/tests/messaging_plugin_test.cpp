#include <stdexcept>
#include <string>
#include <system_error>

#include "check.hpp"
#include "messaging/forward.hpp"
#include "messaging/plugin.hpp"
#include "messaging/run.hpp"
#include "messaging_runs.hpp"

namespace lm = latlab::messaging;
using lm::tests::finish;
using lm::tests::plan;

namespace {

// A way of its own through the example's queue, which holds `capacity` messages.
lm::ChannelSpec way(int number, std::size_t capacity, std::size_t size, std::size_t batch = 1) {
  return {.text = "plugin:" + std::to_string(number) + ":" + std::to_string(capacity) + ":" +
                  LATLAB_EXAMPLE_QUEUE + "?some=options",
          .size = size,
          .batch = batch,
          .poll = true,
          .yield = true};
}

}  // namespace

TEST("every message comes through a plug-in's queue once, in order, one by one and by batches") {
  int number = 0;
  for (const std::size_t capacity : {1U, 3U, 64U}) {
    for (const std::size_t batch : {1U, 16U}) {
      const auto spec = way(++number, capacity, 40, batch);
      lm::Run run(spec, spec, plan(3000));
      run.start();
      finish(run);
      CHECK_EQUAL(3000U, run.sender().count);
      CHECK_EQUAL(3000U, run.receiver().count);
      CHECK_EQUAL(0U, run.receiver().reordered + run.receiver().duplicated + run.receiver().corrupted);
      for (std::size_t n = 0; n < 3000; ++n) CHECK(run.received().data()[n] >= run.sent().data()[n]);
    }
  }
}

TEST("a broker stands between two ways of a plug-in") {
  lm::Forwarder broker(way(101, 8, 64), way(102, 8, 64), {});
  lm::Run run(way(101, 8, 64), way(102, 8, 64), plan(1000));
  run.start();
  finish(run);
  CHECK_EQUAL(1000U, run.receiver().count);
  broker.stop();
}

TEST("a sender whose plug-in is full can be stopped, and a receiver whose plug-in is empty") {
  lm::StopFlag stop{false};
  const auto spec = way(201, 2, 16);
  const auto in = lm::make_receiver(spec, stop);
  const auto out = lm::make_sender(spec, stop);
  for (int n = 0; n < 3; ++n) {
    CHECK(out->claim() != nullptr);
    out->commit();
    if (n < 2) CHECK(out->flush());
  }
  stop.store(true);
  CHECK(!out->flush());
  CHECK_EQUAL(0, out->error());
  CHECK_EQUAL(2U, in->receive().count);
  CHECK_EQUAL(0U, in->receive().count);
  CHECK_EQUAL(0, in->error());
}

TEST("what is no plug-in is refused in words") {
  for (const char* text : {"plugin:1", "plugin:1:x:/none.so", "plugin:1:1:/there/is/none.so"}) {
    lm::StopFlag stop{false};
    try {
      lm::make_receiver({.text = text}, stop);
      CHECK(false);
    } catch (const std::invalid_argument& error) {
      CHECK(!std::string(error.what()).empty());
    }
  }
}
