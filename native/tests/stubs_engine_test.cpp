// Threads: run by main.cpp, one after another.
//
// The stub engine on clocks that only move when a test moves them, and the plan's text.
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <latlab/stub.hpp>
#include <string>
#include <thread>
#include <vector>

#include "check.hpp"

namespace engine = latlab::stub::detail;

namespace {

struct Clocks {
  std::int64_t now = 0;
  std::int64_t cpu = 0;
  std::int64_t slept = 0;
  std::int64_t worked = 0;
  std::vector<engine::CallTime> rows;
  std::size_t next = 0;
};
Clocks clocks;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): a Host's clocks are static

struct FakeHost {
  using Stamp = std::int64_t;
  static Stamp now() { return clocks.now; }
  static Stamp resumed(Stamp) { return clocks.now; }
  static std::int64_t between(Stamp begin, Stamp end) { return end - begin; }
  static std::int64_t cpu_ns() { return clocks.cpu; }
  static std::int64_t now_cost_ns() { return 0; }
  static std::int64_t cpu_cost_ns() { return 0; }
  static engine::CallTime next_row() { return clocks.rows[clocks.next++ % clocks.rows.size()]; }
  static void sleep(std::int64_t ns) {
    clocks.slept += ns;
    clocks.now += ns;
  }
  static void run(std::int64_t ns) {
    clocks.worked += ns;
    clocks.now += ns;
    clocks.cpu += ns;
  }
  static void spin_since(Stamp begin, std::int64_t ns) { run(begin + ns - clocks.now); }
  static void spin_cpu_until(std::int64_t end) { run(end - clocks.cpu); }
  static void work(std::int64_t ns, double) { run(ns); }
};
static_assert(engine::StubHost<FakeHost>);

// One call with these rows; `own_ns` passes between its begin and its end.
Clocks played(const std::vector<engine::CallTime>& rows, const engine::Policy& policy,
              std::int64_t own_ns = 0) {
  clocks = {};
  clocks.rows = rows;
  FakeHost host;
  engine::StubCall<FakeHost> call(host, policy, clocks.now);
  clocks.now += own_ns;
  clocks.cpu += own_ns;
  call.close();
  return clocks;
}

constexpr std::int64_t kMs = 1'000'000;

// A plan in a file, for as long as the object lives.
class PlanFile {
 public:
  explicit PlanFile(const std::string& text)
      : path_((std::filesystem::temp_directory_path() / "latlab engine test").string()) {
    std::ofstream(path_) << text;
    setenv("LATLAB_STUBS_PLAN", path_.c_str(), 1);
  }
  ~PlanFile() {
    unsetenv("LATLAB_STUBS_PLAN");
    std::filesystem::remove(path_);
  }
  PlanFile(const PlanFile&) = delete;
  PlanFile& operator=(const PlanFile&) = delete;

 private:
  std::string path_;
};

std::string refusal(const std::string& text) {
  const PlanFile file(text);
  try {
    engine::plan_entries();
  } catch (const engine::PlanError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST("a stub waits first and then works, and what it costs itself is part of its work") {
  const Clocks whole = played({{5 * kMs, 3 * kMs}}, {}, kMs);
  CHECK_EQUAL(3 * kMs, whole.slept);
  CHECK_EQUAL(4 * kMs, whole.worked);
  CHECK_EQUAL(8 * kMs, whole.now);
}

TEST("work and waits are made shorter each by its own factor") {
  CHECK_EQUAL(2 * kMs + 3 * kMs, played({{4 * kMs, 3 * kMs}}, {.factor = 0.5}).now);
  CHECK_EQUAL(4 * kMs + 1 * kMs, played({{4 * kMs, 2 * kMs}}, {.wait = 0.5}).now);
  CHECK_EQUAL(0L, played({{4 * kMs, 2 * kMs}}, {.factor = 0.0, .wait = 0.0}).now);
}

TEST("an idle stub sleeps where it would have worked") {
  const Clocks found = played({{4 * kMs, 0}}, {.idle = true});
  CHECK_EQUAL(4 * kMs, found.slept);
  CHECK_EQUAL(0L, found.worked);
}

TEST("working periods of one call follow each other, and a factor is of the chosen one alone") {
  const std::vector<engine::CallTime> rows{{kMs, -2 * kMs}, {4 * kMs, 0}};
  const Clocks whole = played(rows, {});
  CHECK_EQUAL(2 * kMs, whole.slept);
  CHECK_EQUAL(5 * kMs, whole.worked);
  CHECK_EQUAL(kMs + 2 * kMs, played(rows, {.factor = 0.5, .period = 2}).worked);
  CHECK_EQUAL(std::size_t{2}, played(rows, {}).next);
}

TEST("a call's time is its work, its wait where it let go of its CPU, and else lost") {
  const engine::Timed waited = engine::timed(10 * kMs, 2 * kMs, kMs, true);
  CHECK_EQUAL(2 * kMs, waited.call.busy_ns);
  CHECK_EQUAL(7 * kMs, waited.call.blocked_ns);
  CHECK_EQUAL(kMs, waited.lost_ns);
  const engine::Timed preempted = engine::timed(10 * kMs, 2 * kMs, 0, false);
  CHECK_EQUAL(0L, preempted.call.blocked_ns);
  CHECK_EQUAL(8 * kMs, preempted.lost_ns);
  CHECK_EQUAL(500L, engine::timed(500, 100, 0, false).call.busy_ns);
}

TEST("a plan's line names the mode, the flags and a folder with spaces") {
  const PlanFile file(std::string(engine::kPlanHead) +
                      "\nbusy\t0.25\t0\tshared,wait=0.5,period=2\t/tmp/a b/state\tmy name\n");
  const auto entries = engine::plan_entries();
  CHECK_EQUAL(std::size_t{1}, entries.size());
  CHECK_EQUAL(std::string("/tmp/a b/state"), entries[0].state);
  CHECK_EQUAL(std::string("my name"), entries[0].name);
  CHECK_EQUAL(0.25, entries[0].policy.factor);
  CHECK_EQUAL(0.5, entries[0].policy.wait);
  CHECK_EQUAL(2L, entries[0].policy.period);
  CHECK_EQUAL(true, entries[0].shared);
}

TEST("a plan of another version or with a line that is none is refused") {
  CHECK_EQUAL(true, refusal("latlab-stubs-plan 2\n").find("another version") != std::string::npos);
  CHECK_EQUAL(true, refusal("").find("can't be read") != std::string::npos);
  const std::string head(engine::kPlanHead);
  CHECK_EQUAL(true, refusal(head + "\nbusy 1 0 - x y\n").find("not an entry") != std::string::npos);
  CHECK_EQUAL(std::string(), refusal(head + "\n"));
}

TEST("a component's site is told by name, place and the type of its result, from several threads") {
  const auto one = std::source_location::current();
  const auto other = std::source_location::current();
  const void* type = &engine::kTypeMark<int>;
  engine::Sites found;
  std::vector<const engine::Site*> seen(4);
  {
    std::vector<std::jthread> threads;
    threads.reserve(seen.size());
    for (auto& mine : seen) threads.emplace_back([&] { mine = &found.of("parse", one, type); });
  }
  for (const auto* site : seen) CHECK_EQUAL(seen[0], site);
  CHECK_EQUAL(false, seen[0] == &found.of("book", one, type));
  CHECK_EQUAL(false, seen[0] == &found.of("parse", other, type));
  CHECK_EQUAL(false, seen[0] == &found.of("parse", one, &engine::kTypeMark<long>));
}
