#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "check.hpp"
#include "market/generator.hpp"
#include "market/itch.hpp"
#include "market/pipeline.hpp"

using namespace latlab::market;

namespace {

using Data = std::vector<std::uint8_t>;

Data day(std::uint64_t messages) {
  Generator generator({.seed = 2, .messages = messages, .symbols = 10});
  Data bytes;
  Data buffer(4096);
  while (const std::size_t size = generator.fill(buffer)) {
    bytes.insert(bytes.end(), buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(size));
  }
  return bytes;
}

// MoldUDP64 packets of up to ten messages each.
std::vector<Data> mold_packets(const Data& frames) {
  std::vector<Data> packets;
  itch::FrameCursor cursor(frames);
  itch::Frame frame;
  std::uint64_t sequence = 1;
  bool more = cursor.next(frame);
  while (more) {
    Data packet(20, '0');
    for (int i = 0; i < 8; ++i)
      packet[10 + static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(sequence >> (56 - 8 * i));
    std::uint8_t count = 0;
    for (; count < 10 && more; ++count, more = cursor.next(frame)) {
      packet.insert(packet.end(), frame.data - 2, frame.data + frame.size);
    }
    packet[18] = 0;
    packet[19] = count;
    sequence += count;
    packets.push_back(std::move(packet));
  }
  return packets;
}

struct Outcome {
  std::uint64_t messages;
  std::string text;
  TransportCounts transport;
};

Outcome run(const std::string& framing, const std::vector<Data>& pieces) {
  auto sink = std::make_unique<InsideSink<LadderSide>>(kDefaultCapacity, 1, true, 0, Selection{});
  auto* inside = sink.get();
  Pipeline pipeline(framing, true, std::move(sink));
  for (const auto& piece : pieces) pipeline.feed(piece);
  pipeline.finish();
  return {pipeline.counts().messages, inside->text, pipeline.transport_counts()};
}

}  // namespace

TEST("a stream in pieces of any size gives what it gives whole") {
  const Data whole = day(3000);
  const Outcome expected = run("binary", {whole});
  CHECK_EQUAL(3000U, expected.messages);
  for (const std::size_t size : {1U, 3U, 7U, 64U, 1000U}) {
    std::vector<Data> pieces;
    for (std::size_t at = 0; at < whole.size(); at += size) {
      const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(at);
      pieces.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(std::min(size, whole.size() - at)));
    }
    CHECK_EQUAL(expected.text, run("binary", pieces).text);
  }
}

TEST("two shuffled and lossy lines are arbitrated to the whole stream") {
  const Data whole = day(3000);
  const auto packets = mold_packets(whole);
  std::mt19937_64 random(3);
  std::vector<Data> lines;
  for (std::size_t i = 0; i < packets.size(); ++i) {
    const bool lost_on_a = random() % 5 == 0;
    if (!lost_on_a) lines.push_back(packets[i]);
    // The other line runs a few packets behind, and loses others.
    if (i >= 3 && random() % 7 != 0) lines.push_back(packets[i - 3]);
    if (lost_on_a) lines.push_back(packets[i]);
  }
  for (std::size_t i = 1; i + 1 < lines.size(); i += 2) std::swap(lines[i], lines[i + 1]);
  const Outcome outcome = run("mold", lines);
  CHECK_EQUAL(0U, outcome.transport.lost);
  CHECK(outcome.transport.duplicates > 0);
  CHECK_EQUAL(run("binary", {whole}).text, outcome.text);
}

TEST("what no line brings is counted as lost, and the rest goes on") {
  auto packets = mold_packets(day(3000));
  packets.erase(packets.begin() + 10, packets.begin() + 13);
  const Outcome outcome = run("mold", packets);
  CHECK_EQUAL(1U, outcome.transport.gaps);
  CHECK_EQUAL(30U, outcome.transport.lost);
  CHECK_EQUAL(2970U, outcome.messages);
}

TEST("hostile bytes in any framing end the pipeline without a crash") {
  const Data whole = day(200);
  const auto packets = mold_packets(whole);
  std::mt19937_64 random(5);
  for (int round = 0; round < 400; ++round) {
    for (const std::string framing : {"binary", "pcap", "soup", "units", "lines", "mold"}) {
      Data bytes = framing == "mold" ? packets[random() % packets.size()] : whole;
      bytes.resize(random() % (bytes.size() + 1));
      if (framing == "pcap" && bytes.size() > 200) {
        // A capture in form: its magic, and a packet header here and there.
        const std::uint32_t magic = random() % 2 ? 0xA1B2C3D4U : 0x0A0D0D0AU;
        std::memcpy(bytes.data(), &magic, 4);
        const std::uint32_t order = magic == 0x0A0D0D0AU ? 0x1A2B3C4DU : 1U;
        std::memcpy(bytes.data() + 8, &order, 4);
        bytes[20] = 1;
        const std::uint32_t length = static_cast<std::uint32_t>(random() % 150);
        std::memcpy(bytes.data() + 32, &length, 4);
        bytes[52] = 0x08;
        bytes[53] = 0x00;
      }
      for (auto flips = random() % 30; flips != 0 && !bytes.empty(); --flips) {
        bytes[random() % bytes.size()] = static_cast<std::uint8_t>(random());
      }
      std::vector<Data> pieces;
      if (bytes.size() > 10 && framing != "mold") {
        const auto middle = bytes.begin() + static_cast<std::ptrdiff_t>(random() % bytes.size());
        pieces = {Data(bytes.begin(), middle), Data(middle, bytes.end())};
      } else {
        pieces = {bytes};
      }
      const Outcome outcome = run(framing, pieces);
      CHECK(outcome.messages <= bytes.size());
    }
  }
}
