// Threads: a CounterReader is read by any number of threads at once; open, move and destroy it from one. What
// it reads may change at any time under it, and may have been written by anybody.
//
// The reading side of the counter file: maps it read-only, and returns a state, never a crash, for whatever
// it finds; a file that is cut short while it is read gives zeros from then on, and cut() says so. Nothing
// that it does can be noticed by the application, except that its lock is asked about.
//
// Over 400 lines: every check of what others may have written stands where it is read.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>

#include "counters.hpp"
#include "guarded_map.hpp"
#include "shared_door.hpp"

namespace latlab {

enum class ReadState : std::uint32_t {
  ready = 0,
  absent = 1,         // no such file, or no right to read it
  too_short = 2,      // shorter than a header
  not_ready = 3,      // being made: look again
  foreign = 4,        // not a counter file
  other_version = 5,  // of another version of the format
  bad_geometry = 6,   // offsets or sizes that don't fit the file
  other_boot = 7,     // left from before the machine started: readable, dead
  dead = 8,           // its process has ended or runs another program: readable
  refused = 9,        // not this user's, writable by others, or reached by a link: shared_door.hpp
};

inline const char* to_text(ReadState state) noexcept {
  constexpr const char* kTexts[] = {"ready",         "absent",       "too short",  "not ready", "foreign",
                                    "other version", "bad geometry", "other boot", "dead",      "refused"};
  const auto number = static_cast<std::size_t>(state);
  return number < std::size(kTexts) ? kTexts[number] : "unknown";
}

// What a queue's counts were at one look. The fill at the moment that `in` was read lies in
// [fill_low(), fill_high()]: what was out before is out, and what is out after may have been.
struct QueueCounts {
  std::uint64_t in = 0;
  std::uint64_t out_low = 0;   // read before `in`
  std::uint64_t out_high = 0;  // read after it
  std::uint64_t dropped = 0;
  std::uint64_t blocked = 0;
  std::uint64_t empty = 0;

  [[nodiscard]] std::uint64_t fill_low() const noexcept { return in > out_high ? in - out_high : 0; }
  [[nodiscard]] std::uint64_t fill_high() const noexcept { return in > out_low ? in - out_low : 0; }
};

// Reads out, in, out until both outs agree, at most 1 + `retries` times. What is left is an interval.
inline QueueCounts read_counts(const ProducerLine& producer, const ConsumerLine& consumer,
                               int retries) noexcept {
  QueueCounts counts;
  // acquire, each: the three are read in this order
  counts.out_high = consumer.out.load(std::memory_order_acquire);
  for (int i = 0; i <= retries; ++i) {
    counts.out_low = counts.out_high;
    counts.in = producer.in.load(std::memory_order_acquire);
    counts.out_high = consumer.out.load(std::memory_order_acquire);
    if (counts.out_low == counts.out_high) break;
  }
  counts.dropped = producer.dropped.load(std::memory_order_relaxed);
  counts.blocked = producer.blocked.load(std::memory_order_relaxed);
  counts.empty = consumer.empty.load(std::memory_order_relaxed);
  return counts;
}

struct SlotView {
  std::uint32_t slot = 0;
  std::uint32_t version = 0;
  std::uint32_t generation = 0;
  SlotState state = SlotState::free;
};

struct QueueView : SlotView {
  QueueKind kind = QueueKind::bounded;
  std::uint64_t capacity = 0;
  std::uint64_t identity = 0;
  std::uint32_t sides = 0;
  std::uint32_t pair = 0;
  std::uint64_t created_ticks = 0;
  std::string name, source_type, source_name, drain_type, drain_name, group, implementation;
  std::uint32_t producer_tid = 0;
  std::uint32_t consumer_tid = 0;
};

struct StageView : SlotView {
  WaitPolicy wait = WaitPolicy::unknown;
  std::uint32_t tid = 0;
  std::int32_t cpu = -1;
  std::string type, name, group;
};

struct StageTimes {
  std::uint64_t at_ticks = 0;
  std::uint64_t busy_ticks = 0;  // each with the current stretch, up to at_ticks
  std::uint64_t blocked_ticks = 0;
  std::uint64_t idle_ticks = 0;
  std::uint64_t events = 0;
  StageState state = StageState::idle;
  std::uint32_t transitions = 0;
};

class CounterReader {
 public:
  CounterReader() = default;
  // A file in a folder of this user's alone; for root every user's, where it asks for that (shared_door.hpp).
  explicit CounterReader(std::string path) : path_(std::move(path)) { state_ = enter(); }
  // A file that this process made itself, wherever it is.
  static CounterReader of_own(std::string path) {
    CounterReader reader;
    reader.path_ = std::move(path);
    reader.fd_ = ::open(reader.path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat status{};
    const bool found = reader.fd_ >= 0 && ::fstat(reader.fd_, &status) == 0;
    reader.owner_ = ::geteuid();
    reader.mirror_ = true;
    reader.state_ = found ? reader.open(static_cast<std::size_t>(status.st_size)) : ReadState::absent;
    return reader;
  }
  CounterReader(CounterReader&& other) noexcept { swap(other); }
  CounterReader& operator=(CounterReader&& other) noexcept {
    swap(other);
    return *this;
  }
  ~CounterReader() {
    if (fd_ >= 0) ::close(fd_);
  }

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  // As it was found; alive() looks again.
  [[nodiscard]] ReadState state() const noexcept { return state_; }
  // Counts can be read: also those that a dead process left.
  [[nodiscard]] bool readable() const noexcept { return base_ != nullptr; }
  // The file became shorter under the reader: what it says since can't be believed.
  [[nodiscard]] bool cut() const noexcept { return map_.cut(); }
  [[nodiscard]] uid_t owner() const noexcept { return owner_; }

  // The process still runs the program that made the file. All of these must hold, since each alone can lie:
  // a process id comes again, a boot forgets, and the lock passes to a child that was made without fork().
  [[nodiscard]] bool alive() const noexcept {
    if (base_ == nullptr || cut() || header().boot_id != detail::boot_id()) return false;
    const std::uint32_t pid = header().pid;  // once: it may change between two looks
    const std::uint64_t start = detail::process_start(static_cast<pid_t>(pid));
    if (start == 0 || start != header().process_start) return false;
    if (!mirror_ && !runs_as(pid, owner_)) return false;    // another user's process can't be claimed
    if (::flock(fd_, LOCK_SH | LOCK_NB) != 0) return true;  // the owner holds it
    ::flock(fd_, LOCK_UN);
    return false;
  }

  [[nodiscard]] const FileHeader& header() const noexcept { return *at<FileHeader>(0); }
  [[nodiscard]] std::uint32_t queue_count() const noexcept {
    return std::min(header().queue_count.load(std::memory_order_acquire), queue_capacity_);
  }
  [[nodiscard]] std::uint32_t stage_count() const noexcept {
    return std::min(header().stage_count.load(std::memory_order_acquire), stage_capacity_);
  }
  // Slots that may be read, whatever the counts say later.
  [[nodiscard]] std::uint32_t queue_room() const noexcept { return queue_capacity_; }
  [[nodiscard]] std::uint32_t stage_room() const noexcept { return stage_capacity_; }
  [[nodiscard]] const QueueDescriptor& queue(std::uint32_t slot) const noexcept {
    return *at<QueueDescriptor>(queues_ + slot * std::size_t{queue_stride_});
  }
  [[nodiscard]] const StageDescriptor& stage(std::uint32_t slot) const noexcept {
    return *at<StageDescriptor>(stages_ + slot * std::size_t{stage_stride_});
  }
  [[nodiscard]] const QueueHot& counts(std::uint32_t slot) const noexcept {
    return *at<QueueHot>(queue_hot_ + slot * std::size_t{queue_hot_stride_});
  }
  [[nodiscard]] const StageHot& times(std::uint32_t slot) const noexcept {
    return *at<StageHot>(stage_hot_ + slot * std::size_t{stage_hot_stride_});
  }

  // A queue's descriptor as it stood at one moment. False where it is being written for too long (its writer
  // was killed while writing): then nothing of it can be believed.
  bool describe(std::uint32_t slot, QueueView& view) const {
    return describe_slot(queue(slot), slot, view, [&](const QueueDescriptor& from) {
      view.kind = static_cast<QueueKind>(from.kind.load(std::memory_order_acquire));
      view.capacity = from.capacity.load(std::memory_order_acquire);
      view.identity = from.identity.load(std::memory_order_acquire);
      view.sides = from.sides.load(std::memory_order_acquire);
      view.pair = from.pair.load(std::memory_order_acquire);
      view.created_ticks = from.created_ticks.load(std::memory_order_acquire);
      view.source_type = from.source_type.load();
      view.source_name = from.source_name.load();
      view.drain_type = from.drain_type.load();
      view.drain_name = from.drain_name.load();
      view.implementation = from.implementation.load();
      view.producer_tid = counts(slot).producer.tid.load(std::memory_order_acquire);
      view.consumer_tid = counts(slot).consumer.tid.load(std::memory_order_acquire);
    });
  }
  bool describe(std::uint32_t slot, StageView& view) const {
    return describe_slot(stage(slot), slot, view, [&](const StageDescriptor& from) {
      view.wait = static_cast<WaitPolicy>(from.wait.load(std::memory_order_acquire));
      view.tid = from.tid.load(std::memory_order_acquire);
      view.cpu = from.cpu.load(std::memory_order_acquire);
      view.type = from.type.load();
    });
  }

  // Whoever writes without this library (an interpreter) may count in nanoseconds of CLOCK_MONOTONIC.
  [[nodiscard]] bool counts_ns() const noexcept {
    constexpr std::uint64_t kSecond = 1'000'000'000;
    return header().clock_hz == kSecond && header().clock_ticks == header().clock_ns;
  }

  // A stage's times, with the stretch that it is in. False where its thread stands in the middle of writing.
  bool read_times(std::uint32_t slot, StageTimes& result) const noexcept {
    const StageHot& line = times(slot);
    const bool in_ns = counts_ns();
    for (int i = 0; i < kAttempts; ++i) {
      const std::uint64_t version = line.version.load(std::memory_order_acquire);
      if (version % 2 != 0) continue;
      const std::uint64_t since = line.since_ticks.load(std::memory_order_acquire);
      result.busy_ticks = line.busy_ticks.load(std::memory_order_acquire);
      result.blocked_ticks = line.blocked_ticks.load(std::memory_order_acquire);
      result.idle_ticks = line.idle_ticks.load(std::memory_order_acquire);
      result.events = line.events.load(std::memory_order_acquire);
      result.state = static_cast<StageState>(line.state.load(std::memory_order_acquire));
      result.transitions = line.transitions.load(std::memory_order_acquire);
      result.at_ticks = in_ns ? monotonic_ns() : ticks_ordered();
      if (line.version.load(std::memory_order_relaxed) != version) continue;
      const std::uint64_t current = result.at_ticks > since ? result.at_ticks - since : 0;
      (result.state == StageState::idle   ? result.idle_ticks
       : result.state == StageState::busy ? result.busy_ticks
                                          : result.blocked_ticks) += current;
      return true;
    }
    return false;
  }

 private:
  // What both kinds have; `more` reads the rest of the descriptor.
  template <class Descriptor, class View, class More>
  bool describe_slot(const Descriptor& from, std::uint32_t slot, View& view, More&& more) const {
    return consistent(from.version, [&](std::uint32_t version) {
      view.slot = slot;
      view.version = version;
      view.generation = from.generation.load(std::memory_order_acquire);
      view.state = static_cast<SlotState>(from.state.load(std::memory_order_acquire));
      view.name = from.name.load();
      view.group = from.group.load();
      more(from);
    });
  }
  static constexpr int kAttempts = 64;
  static constexpr std::size_t kMostBytes = std::size_t{64} << 20U;
  static constexpr std::uint64_t kMostSlots = 65536;
  static constexpr std::uint64_t kMostStride = 4096;

  template <class T>
  const T* at(std::size_t offset) const noexcept {
    return reinterpret_cast<const T*>(base_ + offset);
  }

  template <class Read>
  static bool consistent(const std::atomic<std::uint32_t>& version, Read&& read) {
    for (int i = 0; i < kAttempts; ++i) {
      const std::uint32_t before = version.load(std::memory_order_acquire);
      if (before % 2 != 0) continue;
      read(before);  // acquire loads only, so that none of them passes the second look at the version
      if (version.load(std::memory_order_relaxed) == before) return true;
    }
    return false;
  }

  // Whether a process is this user's: who made it, or what it may do as now.
  static bool runs_as(std::uint32_t pid, uid_t user) noexcept {
    char path[48];
    std::snprintf(path, sizeof path, "/proc/%u/status", pid);
    std::FILE* const file = std::fopen(path, "re");
    if (file == nullptr) return false;
    char line[256];
    unsigned long real = 0;
    unsigned long effective = 0;
    bool found = false;
    while (!found && std::fgets(line, sizeof line, file) != nullptr) {
      if (std::strncmp(line, "Uid:", 4) != 0) continue;
      char* after = nullptr;
      real = std::strtoul(line + 4, &after, 10);
      effective = std::strtoul(after, nullptr, 10);
      found = true;
    }
    std::fclose(file);
    return found && (real == user || effective == user);
  }

  ReadState enter() {
    const Door door = open_shared_file(path_);
    fd_ = door.fd;
    owner_ = door.owner;
    switch (door.state) {
      case DoorState::open:
        return open(door.bytes);
      case DoorState::absent:
        return ReadState::absent;
      case DoorState::not_a_file:
        return ReadState::foreign;
      case DoorState::refused:
        break;
    }
    return ReadState::refused;
  }

  ReadState open(std::size_t bytes) {
    bytes_ = bytes;
    if (bytes_ < sizeof(FileHeader)) return bytes_ == 0 ? ReadState::not_ready : ReadState::too_short;
    // Looking at a hole of a sparse file in shared memory costs memory: what is larger than any counter
    // file isn't mapped.
    if (bytes_ > kMostBytes) return ReadState::bad_geometry;
    if (!map_.map(fd_, bytes_)) return ReadState::absent;
    base_ = map_.data();
    const ReadState state = check();
    if (state == ReadState::ready && !cut()) {
      if (header().boot_id != detail::boot_id()) return ReadState::other_boot;
      return alive() ? ReadState::ready : ReadState::dead;
    }
    const bool short_now = cut();
    map_.unmap();
    base_ = nullptr;
    return short_now ? ReadState::too_short : state;
  }

  // Takes the geometry over, so that what the file says later can't lead outside the mapping.
  ReadState check() noexcept {
    const FileHeader& head = header();
    const std::uint64_t magic = head.magic.load(std::memory_order_acquire);
    if (magic == 0) return ReadState::not_ready;
    if (magic != kCounterMagic) return ReadState::foreign;
    if (head.version != kCounterVersion) return ReadState::other_version;
    if (head.file_bytes != bytes_) return ReadState::bad_geometry;
    queue_capacity_ = head.queue_capacity;
    stage_capacity_ = head.stage_capacity;
    queue_stride_ = head.queue_descriptor_bytes;
    stage_stride_ = head.stage_descriptor_bytes;
    queue_hot_stride_ = head.queue_hot_bytes;
    stage_hot_stride_ = head.stage_hot_bytes;
    queues_ = head.queue_descriptor_offset;
    stages_ = head.stage_descriptor_offset;
    queue_hot_ = head.queue_hot_offset;
    stage_hot_ = head.stage_hot_offset;
    const bool fits = inside<QueueDescriptor>(queues_, queue_stride_, queue_capacity_) &&
                      inside<StageDescriptor>(stages_, stage_stride_, stage_capacity_) &&
                      inside<QueueHot>(queue_hot_, queue_hot_stride_, queue_capacity_) &&
                      inside<StageHot>(stage_hot_, stage_hot_stride_, stage_capacity_);
    return fits ? ReadState::ready : ReadState::bad_geometry;
  }

  template <class T>
  [[nodiscard]] bool inside(std::uint64_t offset, std::uint64_t stride, std::uint64_t count) const noexcept {
    if (stride < sizeof(T) || stride > kMostStride || count > kMostSlots || stride % alignof(T) != 0 ||
        offset % alignof(T) != 0)
      return false;
    return offset >= sizeof(FileHeader) && offset <= bytes_ && count <= (bytes_ - offset) / stride;
  }

  void swap(CounterReader& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(state_, other.state_);
    std::swap(fd_, other.fd_);
    std::swap(map_, other.map_);
    std::swap(owner_, other.owner_);
    std::swap(mirror_, other.mirror_);
    std::swap(base_, other.base_);
    std::swap(bytes_, other.bytes_);
    std::swap(queue_capacity_, other.queue_capacity_);
    std::swap(stage_capacity_, other.stage_capacity_);
    std::swap(queue_stride_, other.queue_stride_);
    std::swap(stage_stride_, other.stage_stride_);
    std::swap(queue_hot_stride_, other.queue_hot_stride_);
    std::swap(stage_hot_stride_, other.stage_hot_stride_);
    std::swap(queues_, other.queues_);
    std::swap(stages_, other.stages_);
    std::swap(queue_hot_, other.queue_hot_);
    std::swap(stage_hot_, other.stage_hot_);
  }

  std::string path_;
  ReadState state_ = ReadState::absent;
  int fd_ = -1;
  uid_t owner_ = 0;
  bool mirror_ = false;  // made by this process for another: whose process it is says nothing
  GuardedMap map_;
  const std::byte* base_ = nullptr;  // of the map, while the file is readable
  std::size_t bytes_ = 0;
  std::uint32_t queue_capacity_ = 0;
  std::uint32_t stage_capacity_ = 0;
  std::uint32_t queue_stride_ = 0;
  std::uint32_t stage_stride_ = 0;
  std::uint32_t queue_hot_stride_ = 0;
  std::uint32_t stage_hot_stride_ = 0;
  std::uint64_t queues_ = 0;
  std::uint64_t stages_ = 0;
  std::uint64_t queue_hot_ = 0;
  std::uint64_t stage_hot_ = 0;
};

}  // namespace latlab
