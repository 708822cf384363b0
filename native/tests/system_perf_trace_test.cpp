#include <linux/perf_event.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "check.hpp"
#include "system/perf_trace.hpp"

namespace {

// A ring of 256 bytes whose writer starts anywhere, so that records wrap.
struct Ring {
  std::vector<std::uint8_t> data = std::vector<std::uint8_t>(256);
  std::uint64_t head;
  explicit Ring(std::uint64_t start) : head(start) {}

  void put(std::uint32_t type, const std::vector<std::uint8_t>& body) {
    const perf_event_header header{
        .type = type, .misc = 0, .size = static_cast<std::uint16_t>(8 + body.size())};
    std::vector<std::uint8_t> record(8);
    std::memcpy(record.data(), &header, 8);
    record.insert(record.end(), body.begin(), body.end());
    for (const std::uint8_t byte : record) data[head++ & 255U] = byte;
  }
};

std::vector<std::uint8_t> sample(std::uint8_t fill) {
  return std::vector<std::uint8_t>(latlab::system::kSampleHeadBytes + 12, fill);
}

}  // namespace

TEST("a record that wraps round the end of a ring is read whole") {
  for (std::uint64_t start = 0; start < 256; start += 8) {
    Ring ring(start);
    ring.put(PERF_RECORD_SAMPLE, sample(7));
    ring.put(PERF_RECORD_SAMPLE, sample(9));
    std::vector<std::uint8_t> samples;
    std::uint64_t lost = 0;
    CHECK_EQUAL(ring.head, latlab::system::read_ring(ring.data.data(), 256, start, ring.head, samples, lost));
    CHECK_EQUAL(std::size_t{128}, samples.size());
    CHECK_EQUAL(7, samples[8]);
    CHECK_EQUAL(7, samples[8 + 55]);
    CHECK_EQUAL(9, samples[64 + 8 + 55]);
    CHECK_EQUAL(std::uint64_t{0}, lost);
  }
}

TEST("what the kernel lost is added up") {
  Ring ring(200);
  std::vector<std::uint8_t> body(16);
  body[8] = 5;
  ring.put(PERF_RECORD_LOST, body);
  ring.put(PERF_RECORD_LOST, body);
  std::vector<std::uint8_t> samples;
  std::uint64_t lost = 0;
  latlab::system::read_ring(ring.data.data(), 256, 200, ring.head, samples, lost);
  CHECK_EQUAL(std::uint64_t{10}, lost);
  CHECK(samples.empty());
}

TEST("a record of impossible length ends the reading instead of running out of the ring") {
  Ring ring(0);
  ring.put(PERF_RECORD_SAMPLE, sample(1));
  ring.data[6] = 255;  // the size's low byte: more than was written
  std::vector<std::uint8_t> samples;
  std::uint64_t lost = 0;
  CHECK_EQUAL(ring.head, latlab::system::read_ring(ring.data.data(), 256, 0, ring.head, samples, lost));
  CHECK(samples.empty());
}
