#include "stats/hdr.hpp"

#include <random>
#include <stdexcept>

#include "check.hpp"

using latlab::stats::HdrBins;
using latlab::stats::HdrRecorder;

namespace {

bool refused(std::uint64_t lowest, std::uint64_t highest, unsigned digits) {
  try {
    const HdrBins bins(lowest, highest, digits);
    return false;
  } catch (const std::invalid_argument&) {
    return true;
  }
}

}  // namespace

TEST("an hour of nanoseconds at three digits has HdrHistogram's number of bins") {
  CHECK_EQUAL(33792U, HdrBins(1, 3'600'000'000'000U, 3).size());
  CHECK_EQUAL(3072U, HdrBins(1, 4095, 3).size());
}

TEST("a bin begins where the one before it ends, and holds its own lower bound") {
  for (const std::uint64_t lowest : {1U, 7U, 1000U}) {
    const HdrBins bins(lowest, 10'000'000'000U, 2);
    for (std::size_t i = 0; i < bins.size(); ++i) {
      CHECK_EQUAL(i, bins.index(bins.lower(i)));
      if (i > 0) CHECK_EQUAL(i - 1, bins.index(bins.lower(i) - 1));
    }
  }
}

TEST("no bin is wider than its value's last significant digit") {
  const HdrBins bins(1, 3'600'000'000'000U, 3);
  std::mt19937_64 dice(1);
  for (int i = 0; i < 100'000; ++i) {
    const std::uint64_t value = dice() >> (22 + dice() % 42);
    if (value > bins.highest()) continue;
    const std::size_t index = bins.index(value);
    const std::uint64_t width = bins.lower(index + 1) - bins.lower(index);
    CHECK(bins.lower(index) <= value && value < bins.lower(index) + width);
    CHECK(width == 1 || static_cast<double>(width) <= 1e-3 * static_cast<double>(value));
  }
}

TEST("the largest range has a bin for its highest value") {
  const auto highest = static_cast<std::uint64_t>(INT64_MAX);
  HdrRecorder recorder(1, highest, 5);
  recorder.record(highest);
  recorder.record(0);
  CHECK_EQUAL(1U, recorder.counts().back());
  CHECK_EQUAL(1U, recorder.counts().front());
  CHECK_EQUAL(0U, recorder.beyond());
}

TEST("a value beyond the highest is counted and its size kept") {
  HdrRecorder recorder(1, 1000, 2);
  recorder.record(1000);
  recorder.record(1001, 3);
  recorder.record(UINT64_MAX);
  CHECK_EQUAL(4U, recorder.beyond());
  CHECK_EQUAL(UINT64_MAX, recorder.largest_beyond());
  CHECK_EQUAL(5U, recorder.total());
}

TEST("a corrected value brings the waits of the events that were due behind it") {
  HdrRecorder recorder(1, 100'000, 3);
  recorder.record_corrected(1000, 300);
  CHECK_EQUAL(3U, recorder.total());
  for (const std::uint64_t wait : {1000U, 700U, 400U})
    CHECK_EQUAL(1U, recorder.counts()[recorder.bins().index(wait)]);
}

TEST("merged recorders hold the sum of both") {
  HdrRecorder a(1, 1000, 2);
  HdrRecorder b(1, 1000, 2);
  a.record(5);
  b.record(5, 2);
  b.record(5000);
  a.merge(b);
  CHECK_EQUAL(3U, a.counts()[5]);
  CHECK_EQUAL(1U, a.beyond());
  CHECK_EQUAL(5000U, a.largest_beyond());
}

TEST("bins that make no sense are refused") {
  CHECK(refused(0, 100, 3));
  CHECK(refused(1, 1, 3));
  CHECK(refused(1, 100, 6));
  CHECK(refused(1, UINT64_MAX, 3));
  CHECK(refused(1ULL << 60U, INT64_MAX, 5));
}
