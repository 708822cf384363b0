#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <latlab/stub.hpp>
#include <string>
#include <thread>

#include "check.hpp"

namespace stub = latlab::stub;

namespace {
constexpr long kMostKib = 16L * 1024;
struct Plain {
  std::array<long, 8> values{};
};
std::string path() {
  return "stub-" + std::to_string(getpid()) + ".trace";
}
struct Removed {
  ~Removed() {
    stub::stop();
    std::remove(path().c_str());
  }
};
// A trace of one state, 5.
void record_one() {
  stub::record(path().c_str());
  const int value = 5;
  stub::save_state("n", "int", &value);
  stub::stop();
}
bool refused() {
  try {
    stub::replay(path().c_str());
  } catch (const stub::StateError&) {
    return true;
  }
  return false;
}
}  // namespace

TEST("recorded states are loaded in order, in place, and NULL as NULL") {
  const Removed removed;
  stub::record(path().c_str());
  for (long i = 0; i < 10'000; ++i) {
    Plain value;
    value.values[7] = i;
    stub::save_state("plain", "Plain", &value);
  }
  stub::save_state<Plain>("nothing", "Plain", nullptr);
  stub::stop();
  stub::replay(path().c_str());
  Plain loaded;
  for (long i = 0; i < 10'000; ++i) {
    CHECK_EQUAL(&loaded, stub::load_state("plain", &loaded));
    CHECK_EQUAL(i, loaded.values[7]);
  }
  Plain* none = nullptr;
  CHECK(stub::load_state("nothing", none) == nullptr);
}

TEST("a missing object is made, and one that is given where NULL was recorded is refused") {
  const Removed removed;
  const std::map<std::string, std::vector<int>> map{{"a", {1, 2}}};
  stub::record(path().c_str());
  stub::save_state("map", "map", &map);
  stub::save_state<int>("null", "int", nullptr);
  stub::stop();
  stub::replay(path().c_str());
  const std::unique_ptr<std::map<std::string, std::vector<int>>> made(
      stub::load_state<std::map<std::string, std::vector<int>>>("map", nullptr));
  CHECK(*made == map);
  int given = 3;
  bool refused = false;
  try {
    stub::load_state("null", &given);
  } catch (const stub::StateError&) {
    refused = true;
  }
  CHECK(refused);
}

TEST("each thread has its own sequence") {
  const Removed removed;
  stub::record(path().c_str());
  const auto save = [](int base) {
    for (int i = base; i < base + 100; ++i) stub::save_state("n", "int", &i);
  };
  std::thread(save, 0).join();
  std::thread(save, 1000).join();
  stub::stop();
  stub::replay(path().c_str());
  bool right = true;
  const auto load = [&right](int base) {
    for (int i = base; i < base + 100; ++i) {
      int value = 0;
      stub::load_state("n", &value);
      right = right && value == i;
    }
  };
  std::thread(load, 0).join();
  std::thread(load, 1000).join();
  CHECK(right);
}

TEST("a trace that was cut short is refused") {
  const Removed removed;
  record_one();
  CHECK_EQUAL(0, truncate(path().c_str(), 60));
  CHECK(refused());
}

// Before the next one: the peak of a process never falls.
TEST("a trace behind whose end there is a gigabyte is replayed without it in memory") {
  const Removed removed;
  record_one();
  CHECK_EQUAL(0, truncate(path().c_str(), 1 << 30));
  rusage before{};
  rusage after{};
  getrusage(RUSAGE_SELF, &before);
  stub::replay(path().c_str());
  int loaded = 0;
  stub::load_state("n", &loaded);
  getrusage(RUSAGE_SELF, &after);
  CHECK_EQUAL(5, loaded);
  CHECK(after.ru_maxrss - before.ru_maxrss < kMostKib);
}

TEST("a sparse trace of a gigabyte is refused without its bytes in memory") {
  const auto peak_kib = [] {
    rusage used{};
    getrusage(RUSAGE_SELF, &used);
    return used.ru_maxrss;
  };
  for (const std::uint8_t tag : {0, 1, 2}) {
    const Removed removed;
    record_one();
    const int file = open(path().c_str(), O_WRONLY | O_CLOEXEC);
    CHECK(file >= 0);
    if (file < 0) continue;
    stub::detail::Head head;
    head.tag = tag;
    head.size = (1U << 30U) - (1U << 20U);
    const off_t end = lseek(file, -static_cast<off_t>(sizeof head), SEEK_END);
    CHECK_EQUAL(static_cast<ssize_t>(sizeof head), pwrite(file, &head, sizeof head, end));
    CHECK_EQUAL(0, ftruncate(file, 1 << 30));
    close(file);
    const auto before = peak_kib();
    CHECK(refused());
    CHECK(peak_kib() - before < kMostKib);
  }
}

TEST("a lazy replay hands out the same values without holding them in memory") {
  const Removed removed;
  stub::record(path().c_str());
  for (long i = 0; i < 1000; ++i) {
    Plain value;
    value.values[0] = i;
    stub::save_state("plain", "Plain", &value);
  }
  stub::stop();
  stub::replay(path().c_str());
  CHECK_EQUAL(1000 * sizeof(Plain), stub::loaded_bytes());
  stub::replay(path().c_str(), true);
  CHECK_EQUAL(std::size_t{0}, stub::loaded_bytes());
  bool right = true;
  Plain loaded;
  for (long i = 0; i < 1000; ++i) {
    stub::load_state("plain", &loaded);
    right = right && loaded.values[0] == i;
  }
  CHECK(right);
}

TEST("values of one name that differ in size come back as they were, a NULL between them too") {
  const Removed removed;
  stub::record(path().c_str());
  const std::string short_one = "a";
  const std::string long_one(5000, 'b');
  stub::save_state("text", "string", &short_one);
  stub::save_state<std::string>("text", "string", nullptr);
  stub::save_state("text", "string", &long_one);
  stub::stop();
  stub::replay(path().c_str());
  std::string text;
  CHECK_EQUAL(short_one, *stub::load_state("text", &text));
  std::string* none = nullptr;
  CHECK(stub::load_state("text", none) == nullptr);
  CHECK_EQUAL(long_one, *stub::load_state("text", &text));
}

TEST("more calls than were recorded, and a file that is not a trace, are refused") {
  const Removed removed;
  record_one();
  stub::replay(path().c_str());
  int loaded = 0;
  stub::load_state("n", &loaded);
  const auto refused = [](auto&& action) {
    try {
      action();
    } catch (const stub::StateError&) {
      return true;
    }
    return false;
  };
  CHECK(refused([&] { stub::load_state("n", &loaded); }));
  CHECK(refused([] { stub::replay("/dev/null"); }));
  CHECK(!stub::replaying());
}

TEST("a measured scope is divided into CPU, ready and blocked time") {
  stub::ScopeTime found;
  {
    stub::measure scope("slept");
    const timespec length{0, 20'000'000};
    nanosleep(&length, nullptr);
    found = scope.stop();
  }
  CHECK_EQUAL(found.wall_ns, found.cpu_ns + found.ready_ns + found.blocked_ns);
  CHECK(found.wall_ns >= 20'000'000);
  CHECK(found.blocked_ns > found.cpu_ns);
  CHECK_EQUAL(std::size_t{1}, stub::scopes()["slept"].size());
}
