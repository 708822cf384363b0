#include <algorithm>
#include <cstdint>
#include <memory_resource>
#include <random>

#include "check.hpp"
#include "market/rates.hpp"

using namespace latlab::market;

TEST("a log of the latest events has the bins of a histogram of each, before and behind every folding") {
  std::pmr::monotonic_buffer_resource memory;
  std::mt19937_64 random(5);
  EventHistogram logged(&memory);
  EventHistogram others(&memory);
  LogHistogram<std::uint32_t> plain(&memory);
  const auto same = [&] {
    const auto found = logged.bins();
    const auto& wanted = plain.bins();
    std::size_t differ = 0;
    for (std::size_t at = 0; at < std::max(found.size(), wanted.size()); ++at)
      differ += (at < found.size() ? found[at] : 0U) != (at < wanted.size() ? wanted[at] : 0U);
    return differ == 0 && logged.min() == plain.min() && logged.max() == plain.max();
  };
  CHECK(same());  // of nothing
  for (std::size_t n = 1; n <= 3 * 2048 + 1; ++n) {
    const std::uint64_t value = random() >> (random() % 64);  // of all magnitudes
    logged.record(value);
    plain.record(value, 1);
    if (n % 2048 <= 1 || n == 1000) CHECK(same());
  }
  for (std::size_t n = 0; n < 2500; ++n) {
    const std::uint64_t value = random() >> (random() % 64);
    others.record(value);
    plain.record(value, 1);
  }
  logged.add(others);
  CHECK(same());
  logged.add(EventHistogram(&memory));
  CHECK(same());
}
