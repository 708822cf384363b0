#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <stdexcept>
#include <vector>

#include "check.hpp"
#include "messaging/series.hpp"

namespace lm = latlab::messaging;

namespace {

std::vector<std::int64_t> random_walk(std::size_t count, std::int64_t widest, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::int64_t> values;
  values.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    values.push_back(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(widest)) - widest / 3);
  }
  return values;
}

}  // namespace

TEST("counted differences are the differences, however long or wide the series") {
  for (const std::size_t count : {0U, 1U, 999U, 1000U, 20000U}) {
    for (const std::int64_t widest : {1LL, 50LL, 1LL << 22, 1LL << 40}) {
      const auto to = random_walk(count, widest, 1);
      const auto from = random_walk(count, widest, 2);
      std::map<std::int64_t, std::int64_t> expected;
      for (std::size_t i = 0; i < count; ++i) ++expected[to[i] - from[i]];
      const auto actual = lm::count_differences(to, from);
      CHECK_EQUAL(expected.size(), actual.values.size());
      std::size_t at = 0;
      for (const auto& [value, times] : expected) {
        CHECK_EQUAL(value, actual.values[at]);
        CHECK_EQUAL(times, actual.counts[at]);
        ++at;
      }
    }
  }
}

TEST("steps tell rising from falling, a broken identity and stamps that run backwards") {
  const std::vector<std::int64_t> sent{0, 10, 20, 15};
  const std::vector<std::int64_t> received{5, 18, 24, 14};
  std::vector<std::int64_t> latency{5, 8, 4, -1};
  auto found = lm::steps(sent, received, latency);
  CHECK_EQUAL(1U, found.rising);
  CHECK_EQUAL(2U, found.falling);
  CHECK_EQUAL(0U, found.violations);
  CHECK_EQUAL(2U, found.backwards);  // 15 after 20, and 14 received before 15 sent
  latency[1] = 9;
  CHECK_EQUAL(2U, lm::steps(sent, received, latency).violations);
}

TEST("series of different lengths are refused") {
  const std::vector<std::int64_t> two{1, 2};
  const std::vector<std::int64_t> three{1, 2, 3};
  bool refused = false;
  try {
    lm::count_differences(two, three);
  } catch (const std::invalid_argument&) {
    refused = true;
  }
  CHECK(refused);
}
