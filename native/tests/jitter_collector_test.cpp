#include <array>
#include <cstdint>
#include <numeric>
#include <string>

#include "check.hpp"
#include "jitter/collector.hpp"
#include "jitter/core_to_core.hpp"

#include <sched.h>
#include <unistd.h>

namespace {

int a_cpu() {
  return sched_getcpu();
}

latlab::jitter::CoreResult run(const latlab::jitter::CoreRequest& request) {
  latlab::jitter::Collector collector({request});
  collector.start();
  return collector.join().front();
}

}  // namespace

TEST("every delta lies in the bin of its size") {
  for (std::uint64_t delta = latlab::jitter::kLinear; delta < (1ULL << 62U); delta += delta / 3) {
    const std::size_t bin = latlab::jitter::log_bin(delta);
    CHECK(delta <= latlab::jitter::log_bin_upper(bin));
    CHECK(bin == 0 || delta > latlab::jitter::log_bin_upper(bin - 1));
  }
}

TEST("pure, bridge and gap time are the wall time to the tick, and every delta is counted") {
  const auto result = run({.cpu = a_cpu(),
                           .duration_ns = 30'000'000,
                           .threshold_ticks = 1000,
                           .ring = 16,
                           .pause_ns = 0,
                           .fifo_priority = 0});
  CHECK_EQUAL(0, result.affinity_error);
  CHECK_EQUAL(result.last_ticks - result.first_ticks,
              result.pure_ticks + result.bridge_ticks + result.gap_ticks);
  std::uint64_t counted = std::accumulate(result.linear.begin(), result.linear.end(), std::uint64_t{0});
  counted = std::accumulate(result.log.begin(), result.log.end(), counted);
  CHECK(counted >= result.deltas);  // gaps between blocks are counted too
  CHECK(counted <= result.deltas + result.gaps);
  CHECK(result.ring.size() <= 16);
  for (std::size_t i = 1; i < result.ring.size(); ++i)
    CHECK(result.ring[i].end_ticks > result.ring[i - 1].end_ticks);
}

TEST("a gap over the limit ends the run of every core, and marks and stops the kernel's trace") {
  std::array<int, 2> ends{};
  CHECK_EQUAL(0, pipe(ends.data()));
  // Every delta is a gap over a threshold of one tick.
  latlab::jitter::CoreRequest request{
      .cpu = a_cpu(), .duration_ns = 60'000'000'000, .threshold_ticks = 1, .ring = 4, .stop_ticks = 1};
  latlab::jitter::Collector collector({request}, {.marker_fd = ends[1], .on_fd = ends[1]});
  collector.start();
  const auto result = collector.join().front();
  CHECK(result.stopped);
  std::array<char, 128> said{};
  const auto length = read(ends[0], said.data(), said.size());
  close(ends[0]);
  close(ends[1]);
  CHECK(std::string(said.data(), static_cast<std::size_t>(length)) ==
        "latlab: a gap over the threshold on CPU " + std::to_string(result.cpu) + "\n0");
}

TEST("a pause is accounted for as a pause") {
  const auto result = run({.cpu = a_cpu(),
                           .duration_ns = 10'000'000,
                           .threshold_ticks = 1000,
                           .ring = 0,
                           .pause_ns = 1'000'000,
                           .fifo_priority = 0});
  CHECK(result.paused_ticks > 0);
  CHECK_EQUAL(result.last_ticks - result.first_ticks,
              result.pure_ticks + result.bridge_ticks + result.gap_ticks + result.paused_ticks);
}

TEST("a CPU that is not there is an error of that core alone") {
  const auto result = run({.cpu = 4000,
                           .duration_ns = 1'000'000,
                           .threshold_ticks = 1000,
                           .ring = 0,
                           .pause_ns = 0,
                           .fifo_priority = 0});
  CHECK(result.affinity_error != 0);
  CHECK_EQUAL(std::uint64_t{0}, result.deltas);
}

TEST("a stop ends the measurement and keeps what was measured") {
  latlab::jitter::Collector collector({{.cpu = a_cpu(),
                                        .duration_ns = 60'000'000'000,
                                        .threshold_ticks = 1000,
                                        .ring = 0,
                                        .pause_ns = 0,
                                        .fifo_priority = 0}});
  collector.start();
  collector.stop();
  const auto result = collector.join().front();
  CHECK(collector.finished());
  CHECK_EQUAL(result.last_ticks - result.first_ticks,
              result.pure_ticks + result.bridge_ticks + result.gap_ticks);
}

TEST("a cache line's way is measured for each pair of cores") {
  cpu_set_t allowed;
  sched_getaffinity(0, sizeof(allowed), &allowed);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE && cpus.size() < 2; ++cpu)
    if (CPU_ISSET(cpu, &allowed)) cpus.push_back(cpu);
  const auto pairs = latlab::jitter::core_to_core(cpus, 2, 4, 2'000'000'000);
  CHECK_EQUAL(cpus.size() - 1, pairs.size());
  for (const auto& pair : pairs)
    for (const double ns : pair.one_way_ns) CHECK(ns > 0);
}
