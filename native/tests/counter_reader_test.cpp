// Over 400 lines: one writer of counter files, and a test of each way to spoil them.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <latlab/counter_reader.hpp>
#include <latlab/queue.hpp>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "check.hpp"
#include "queues/sampler.hpp"

using namespace latlab;

namespace {

namespace fs = std::filesystem;

// A folder of this user's alone, until the tests end: in another no counter file is read.
struct PrivateFolder {
  const fs::path path = fs::temp_directory_path() / ("latlab-reader-" + std::to_string(::getpid()));
  PrivateFolder() {
    fs::create_directory(path);
    fs::permissions(path, fs::perms::owner_all);
  }
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;
  ~PrivateFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

const fs::path& private_folder() {
  static const PrivateFolder folder;
  return folder.path;
}

// A copy of this process's file, whose bytes a test may spoil.
fs::path copied() {
  const fs::path to = private_folder() / "copy.counters";
  fs::remove(to);
  fs::copy_file(CounterFile::process().path(), to);
  return to;
}

template <class T>
void poke(const fs::path& path, std::size_t offset, T value) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(offset));
  file.write(reinterpret_cast<const char*>(&value), sizeof value);
}

ReadState state_of(const fs::path& path) {
  return CounterReader(path.string()).state();
}

queues::Target target(std::uint32_t number, std::uint32_t slot, std::uint32_t generation) {
  return {number, false, {{0, slot, generation}}, {{0, slot, generation}}};
}

}  // namespace

TEST("a live process's counter file is ready, and its queues are what was registered") {
  SpscRing<int> ring(8,
                     {.name = "orders", .source = {"feed", "feed-1"}, .drain = {"book", ""}, .group = "g"});
  const CounterReader reader(CounterFile::process().path());
  CHECK(reader.state() == ReadState::ready);
  CHECK(reader.alive());
  QueueView view;
  CHECK(reader.describe(ring.slot().slot(), view));
  CHECK_EQUAL(std::string("orders"), view.name);
  CHECK_EQUAL(std::string("feed-1"), view.source_name);
  CHECK_EQUAL(std::string("book"), view.drain_type);
  CHECK_EQUAL(8U, view.capacity);
  CHECK(view.state == SlotState::live);
}

TEST("a counter file that nobody holds the lock of is dead, and readable") {
  const fs::path copy = copied();
  const CounterReader reader(copy.string());
  CHECK(reader.state() == ReadState::dead);
  CHECK(reader.readable());
  fs::remove(copy);
}

TEST("a file that is not a counter file gets a state, each its own") {
  CHECK(state_of("/nowhere/at/all") == ReadState::absent);
  CHECK(state_of("/dev") == ReadState::foreign);
  const fs::path copy = copied();
  poke(copy, 0, std::uint64_t{0});
  CHECK(state_of(copy) == ReadState::not_ready);
  poke(copy, 0, std::uint64_t{42});
  CHECK(state_of(copy) == ReadState::foreign);
  poke(copy, 0, kCounterMagic);
  poke(copy, 8, std::uint32_t{99});
  CHECK(state_of(copy) == ReadState::other_version);
  poke(copy, 8, kCounterVersion);
  poke(copy, 16, std::uint32_t{0xFFFFFFFF});
  CHECK(state_of(copy) == ReadState::bad_geometry);
  poke(copy, 16, CounterFile::kQueues);
  poke(copy, offsetof(FileHeader, boot_id), std::uint64_t{7});
  CHECK(state_of(copy) == ReadState::other_boot);
  fs::resize_file(copy, 100);
  CHECK(state_of(copy) == ReadState::too_short);
  fs::resize_file(copy, 0);
  CHECK(state_of(copy) == ReadState::not_ready);
  fs::remove(copy);
}

TEST("a counter file that is cut short while it is read gives zeros, and is no longer believed") {
  SpscRing<int> ring(8, {.name = "cut"});
  ring.try_push(1);
  const fs::path copy = copied();
  const CounterReader reader(copy.string());
  CHECK(reader.readable());
  CHECK(!reader.cut());
  CHECK_EQUAL(1U, read_counts(reader.counts(ring.slot().slot()).producer,
                              reader.counts(ring.slot().slot()).consumer, 1)
                      .in);
  fs::resize_file(copy, 0);
  CHECK_EQUAL(0U, reader.counts(ring.slot().slot()).producer.in.load());
  QueueView view;
  static_cast<void>(reader.describe(ring.slot().slot(), view));
  CHECK(reader.cut());
  CHECK(!reader.alive());
  fs::remove(copy);
}

TEST("a sampler outlives the truncation of what it samples") {
  SpscRing<int> ring(8, {.name = "sampled"});
  const fs::path copy = copied();
  const auto reader = std::make_shared<const CounterReader>(copy.string());
  QueueView view;
  CHECK(reader->describe(ring.slot().slot(), view));
  queues::Sampler sampler({.period_ns = 50'000, .chunk_samples = 64, .chunks = 2});
  sampler.set_plan({reader}, {reader->header().topology_version.load()},
                   {target(0, view.slot, view.generation)});
  sampler.start();
  while (sampler.statistics().sweeps < 10) ::usleep(1000);
  fs::resize_file(copy, 0);
  const std::uint64_t before = sampler.statistics().sweeps;
  while (sampler.statistics().sweeps < before + 10) ::usleep(1000);
  sampler.stop();
  CHECK(reader->cut());
  fs::remove(copy);
}

TEST("a counter file larger than any that an application makes is not touched") {
  const fs::path copy = copied();
  fs::resize_file(copy, std::uintmax_t{1} << 30U);
  poke(copy, offsetof(FileHeader, file_bytes), std::uint64_t{1} << 30U);
  CHECK(state_of(copy) == ReadState::bad_geometry);
  fs::remove(copy);
}

TEST("a counter file whose size is not what its header says is refused") {
  const fs::path copy = copied();
  fs::resize_file(copy, fs::file_size(copy) + 4096);
  CHECK(state_of(copy) == ReadState::bad_geometry);
  fs::remove(copy);
}

TEST("a counter file behind a link, a second name, or in a folder that others write to is refused") {
  const fs::path copy = copied();
  const fs::path folder = copy.parent_path();
  const fs::path link = folder / "link.counters";
  fs::remove(link);
  fs::create_symlink(copy, link);
  CHECK(state_of(link) == ReadState::refused);
  fs::remove(link);
  const fs::path way = fs::temp_directory_path() / ("latlab-way-" + std::to_string(::getpid()));
  fs::create_directory_symlink(folder, way);
  CHECK(state_of(way / copy.filename()) == ReadState::refused);
  fs::remove(way);
  fs::create_hard_link(copy, link);
  CHECK(state_of(link) == ReadState::refused);
  fs::remove(link);
  CHECK(state_of(copy) == ReadState::dead);
  fs::permissions(copy, fs::perms::others_write, fs::perm_options::add);
  CHECK(state_of(copy) == ReadState::refused);
  fs::permissions(copy, fs::perms::others_write, fs::perm_options::remove);
  fs::permissions(folder, fs::perms::others_write, fs::perm_options::add);
  CHECK(state_of(copy) == ReadState::refused);
  fs::permissions(folder, fs::perms::owner_all);
  fs::remove(copy);
}

TEST("another user's counter file is refused, and read by root where it asks for it") {
  if (::geteuid() != 0) return;  // only root can make one
  const fs::path copy = copied();
  CHECK_EQUAL(0, ::chown(copy.parent_path().c_str(), 12345, 12345));
  CHECK(state_of(copy) == ReadState::refused);  // its folder is somebody else's
  CHECK_EQUAL(0, ::chown(copy.c_str(), 12345, 12345));
  CHECK(state_of(copy) == ReadState::refused);
  CHECK_EQUAL(0, ::setenv("LATLAB_ALL_USERS", "1", 1));  // NOLINT(concurrency-mt-unsafe): no other thread
  CHECK(state_of(copy) == ReadState::dead);
  CHECK_EQUAL(0, ::chown(copy.c_str(), 12346, 12346));
  CHECK(state_of(copy) == ReadState::refused);     // smuggled into the folder of another
  CHECK_EQUAL(0, ::unsetenv("LATLAB_ALL_USERS"));  // NOLINT(concurrency-mt-unsafe): likewise
  CHECK_EQUAL(0, ::chown(copy.parent_path().c_str(), ::geteuid(), ::getegid()));
  fs::remove(copy);
}

TEST("another user's file that names a process of somebody else is not alive") {
  if (::geteuid() != 0) return;  // only root can make one
  const fs::path copy = copied();
  const int held = ::open(copy.c_str(), O_RDWR | O_CLOEXEC);
  CHECK_EQUAL(0, ::flock(held, LOCK_EX));
  CHECK(state_of(copy) == ReadState::ready);  // it says what this process's own file says
  CHECK_EQUAL(0, ::chown(copy.parent_path().c_str(), 12345, 12345));
  CHECK_EQUAL(0, ::chown(copy.c_str(), 12345, 12345));
  CHECK_EQUAL(0, ::setenv("LATLAB_ALL_USERS", "1", 1));  // NOLINT(concurrency-mt-unsafe): no other thread
  CHECK(state_of(copy) == ReadState::dead);
  CHECK_EQUAL(0, ::unsetenv("LATLAB_ALL_USERS"));  // NOLINT(concurrency-mt-unsafe): likewise
  CHECK_EQUAL(0, ::chown(copy.parent_path().c_str(), ::geteuid(), ::getegid()));
  ::close(held);
  fs::remove(copy);
}

TEST("a pipe in a counter file's place is refused without waiting for its other end") {
  const fs::path pipe = private_folder() / "pipe.counters";
  CHECK_EQUAL(0, ::mkfifo(pipe.c_str(), 0600));
  CHECK(state_of(pipe) == ReadState::foreign);
  fs::remove(pipe);
}

TEST("a counter file with any header is read or refused, and never crashes the reader") {
  const fs::path copy = copied();
  std::mt19937_64 random(3);  // NOLINT(bugprone-random-generator-seed): repeatable
  for (int round = 0; round < 300; ++round) {
    const std::size_t offset = 8 + random() % 152;
    std::uint32_t old = 0;
    {
      std::ifstream file(copy, std::ios::binary);
      file.seekg(static_cast<std::streamoff>(offset));
      file.read(reinterpret_cast<char*>(&old), sizeof old);
    }
    poke(copy, offset, static_cast<std::uint32_t>(random()) >> (random() % 32));
    const CounterReader reader(copy.string());
    if (reader.readable()) {
      QueueView view;
      StageView stage;
      const std::uint32_t queues = std::min(reader.queue_count(), 64U);
      for (std::uint32_t i = 0; i < queues; ++i) static_cast<void>(reader.describe(i, view));
      if (reader.stage_count() > 0) static_cast<void>(reader.describe(reader.stage_count() - 1, stage));
    }
    poke(copy, offset, old);
  }
  fs::remove(copy);
}

TEST("a fill that is read while the queue runs lies within its bounds, and is never negative") {
  SpscRing<std::uint64_t> ring(64);
  std::atomic<bool> stop{false};
  std::thread worker([&] {
    std::uint64_t value = 0;
    while (!stop.load()) {
      ring.try_push(value);
      ring.try_pop(value);
    }
  });
  bool sound = true;
  for (int i = 0; i < 20000; ++i) {
    const QueueCounts counts = read_counts(ring.slot().producer(), ring.slot().consumer(), 1);
    // One thread puts in and takes out by turns: 0 or 1 is in the queue, and nothing else.
    sound = sound && counts.fill_low() <= 1 && counts.fill_low() <= counts.fill_high() &&
            counts.out_low <= counts.in;
  }
  stop = true;
  worker.join();
  CHECK(sound);
}

TEST("a sampler stores what has changed, and nothing else") {
  SpscRing<int> busy(8);
  SpscRing<int> idle(8);
  const auto reader = std::make_shared<const CounterReader>(CounterFile::process().path());
  queues::Sampler sampler({.chunk_samples = 64, .chunks = 4});
  QueueView a;
  QueueView b;
  CHECK(reader->describe(busy.slot().slot(), a) && reader->describe(idle.slot().slot(), b));
  sampler.set_plan({reader}, {reader->header().topology_version.load()},
                   {target(0, a.slot, a.generation), target(1, b.slot, b.generation)});
  sampler.sweep();  // both: the first look is stored
  busy.try_push(1);
  sampler.sweep();  // one
  sampler.sweep();  // none
  sampler.flush();
  const queues::Chunk* chunk = sampler.front();
  CHECK(chunk != nullptr);
  CHECK_EQUAL(3U, chunk->sample_count);
  CHECK_EQUAL(3U, chunk->sweep_count);
  CHECK_EQUAL(0U, chunk->samples[2].queue);
  CHECK_EQUAL(1U, chunk->samples[2].in);
  CHECK(chunk->samples[2].begin_ticks <= chunk->samples[2].end_ticks);
}

TEST("samples of a slot that was taken again are thrown away") {
  auto ring = std::make_unique<SpscRing<int>>(8);
  const auto reader = std::make_shared<const CounterReader>(CounterFile::process().path());
  queues::Sampler sampler({.chunk_samples = 64, .chunks = 4});
  QueueView view;
  CHECK(reader->describe(ring->slot().slot(), view));
  // The plan is of the slot's next generation, as if the slot had been taken again since.
  sampler.set_plan({reader}, {reader->header().topology_version.load() + 2},
                   {target(0, view.slot, view.generation + 1)});
  sampler.sweep();
  CHECK_EQUAL(1U, sampler.statistics().discarded);
  CHECK_EQUAL(0U, sampler.statistics().samples);
  CHECK(sampler.stale());
}

TEST("periods that find no chunk are noted when there is one again") {
  SpscRing<int> ring(1U << 12U);
  const auto reader = std::make_shared<const CounterReader>(CounterFile::process().path());
  queues::Sampler sampler({.chunk_samples = 64, .chunks = 2});
  QueueView view;
  CHECK(reader->describe(ring.slot().slot(), view));
  sampler.set_plan({reader}, {reader->header().topology_version.load()},
                   {target(0, view.slot, view.generation)});
  for (int i = 0; i < 200; ++i) {
    ring.try_push(i);
    sampler.sweep();
  }
  CHECK_EQUAL(128U, sampler.statistics().samples);
  CHECK_EQUAL(72U, sampler.statistics().lost_periods);
  while (sampler.front() != nullptr) sampler.release();
  sampler.sweep();
  sampler.flush();
  const queues::Chunk* chunk = sampler.front();
  CHECK(chunk != nullptr && chunk->gap_count == 1);
  CHECK_EQUAL(72U, chunk->gaps[0].periods);
  CHECK(chunk->gaps[0].cause == queues::GapCause::no_room);
}

TEST("a queue without activity is looked at less often, and one that wakes up is stored") {
  SpscRing<int> ring(8);
  const auto reader = std::make_shared<const CounterReader>(CounterFile::process().path());
  queues::Sampler sampler({.longest_skip = 7, .chunk_samples = 64, .chunks = 2});
  QueueView view;
  CHECK(reader->describe(ring.slot().slot(), view));
  sampler.set_plan({reader}, {reader->header().topology_version.load()},
                   {target(0, view.slot, view.generation)});
  for (int i = 0; i < 100; ++i) sampler.sweep();
  CHECK(sampler.statistics().reads < 30);
  ring.try_push(1);
  for (int i = 0; i < 8; ++i) sampler.sweep();
  CHECK_EQUAL(2U, sampler.statistics().samples);
}

TEST("a running sampler drains chunks while queues come, go and change hands") {
  const auto reader = std::make_shared<const CounterReader>(CounterFile::process().path());
  queues::Sampler sampler({.period_ns = 50'000, .chunk_samples = 256, .chunks = 8});
  sampler.start();
  std::uint64_t stored = 0;
  for (int round = 0; round < 20; ++round) {
    SpscRing<int> ring(16);
    QueueView view;
    CHECK(reader->describe(ring.slot().slot(), view));
    sampler.set_plan({reader}, {reader->header().topology_version.load()},
                     {target(static_cast<std::uint32_t>(round), view.slot, view.generation)});
    for (int i = 0; i < 20; ++i) {
      int value = 0;
      ring.try_push(i);
      ::usleep(100);
      ring.try_pop(value);
    }
    while (const queues::Chunk* chunk = sampler.front()) {
      for (std::size_t i = 0; i < chunk->sample_count; ++i) CHECK(chunk->samples[i].in <= 20);
      stored += chunk->sample_count;
      sampler.release();
    }
  }
  sampler.stop();
  while (const queues::Chunk* chunk = sampler.front()) {
    stored += chunk->sample_count;
    sampler.release();
  }
  CHECK(stored > 0);
  CHECK_EQUAL(stored, sampler.statistics().samples);
}

TEST("the child of a fork does not publish the parent's side of a queue between processes again") {
  QueueSlot side =
      CounterFile::process().add_queue({.name = "between", .identity = 77, .sides = kProducerSide});
  const pid_t child = ::fork();
  if (child == 0) {
    const CounterReader reader(CounterFile::process().path());
    QueueView view;
    const bool retired =
        reader.readable() && reader.describe(side.slot(), view) && view.state == SlotState::retired;
    ::unlink(CounterFile::process().path().c_str());
    ::_exit(retired ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK_EQUAL(0, status);
}

TEST("with a stamp each every sample has a first stamp of its own, before the second") {
  std::vector<std::unique_ptr<SpscRing<int>>> rings;
  std::vector<queues::Target> targets;
  for (std::uint32_t i = 0; i < 20; ++i) {
    rings.push_back(std::make_unique<SpscRing<int>>(4, QueueInfo{.name = "stamped"}));
    rings.back()->try_push(1);
  }
  const auto reader = std::make_shared<const CounterReader>(CounterFile::process().path());
  for (std::uint32_t i = 0; i < 20; ++i) {
    QueueView view;
    CHECK(reader->describe(rings[i]->slot().slot(), view));
    targets.push_back(target(i, view.slot, view.generation));
  }
  queues::Sampler sampler({.stamp_every = 1, .chunk_samples = 64, .chunks = 2});
  sampler.set_plan({reader}, {reader->header().topology_version.load()}, targets);
  const std::uint64_t before = ticks_ordered();
  sampler.sweep();
  const std::uint64_t after = ticks_ordered();
  sampler.flush();
  const queues::Chunk* const chunk = sampler.front();
  CHECK(chunk != nullptr);
  CHECK_EQUAL(20U, chunk->sample_count);
  for (std::size_t i = 0; i < 20; ++i) {
    const queues::SampleRow& row = chunk->samples[i];
    CHECK(row.begin_ticks >= before && row.begin_ticks <= row.end_ticks && row.end_ticks <= after);
    if (i > 0) CHECK(row.begin_ticks >= chunk->samples[i - 1].begin_ticks);
  }
  sampler.release();
}

TEST("a plan that takes another's place knows what its queues were") {
  SpscRing<int> first(8, {.name = "kept"});
  SpscRing<int> second(8, {.name = "new"});
  const auto reader = std::make_shared<const CounterReader>(CounterFile::process().path());
  const auto of = [&](std::uint32_t number, SpscRing<int>& ring) {
    QueueView view;
    CHECK(reader->describe(ring.slot().slot(), view));
    return target(number, view.slot, view.generation);
  };
  const std::uint64_t version = reader->header().topology_version.load();
  queues::Sampler sampler({.chunk_samples = 64, .chunks = 2});
  sampler.set_plan({reader}, {version}, {of(5, first)});
  first.try_push(1);
  sampler.sweep();
  sampler.set_plan({reader}, {version}, {of(2, second), of(5, first)});
  sampler.sweep();  // the first has not changed, the second is seen for the first time
  sampler.flush();
  const queues::Chunk* const chunk = sampler.front();
  CHECK_EQUAL(2U, chunk->sample_count);
  CHECK_EQUAL(5U, chunk->samples[0].queue);
  CHECK_EQUAL(2U, chunk->samples[1].queue);
  sampler.release();
}
