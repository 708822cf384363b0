// Threads: plain layout. Each atomic has one writer, named beside it; any number of readers, in any process.
//
// The counter file, version 1: what an application publishes and an observer reads, without a lock, a system
// call or a thread of ours in the application. All numbers are little-endian; all offsets are in bytes.
//
//   0            4096               + queues * 512     + stages * 256     + queues * 128      + stages * 64
//   +------------+------------------+------------------+------------------+-------------------+
//   | FileHeader | QueueDescriptor[]| StageDescriptor[]| QueueHot[]       | StageHot[]        |
//   +------------+------------------+------------------+------------------+-------------------+
//     cold         cold, by queue     cold, by stage     producer line +     hot, by stage
//                                                        consumer line
//
// Offsets, strides and capacities stand in the header, and a reader takes them from there. The file is sparse
// and never remapped. In and out never share a cache line: that alone costs 74 % of a queue's speed.
//
// Version history: 1 (2026-11) the first.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace latlab {

inline constexpr std::uint64_t kCounterMagic = 0x3152544E4354414CULL;  // "LATCNTR1"
inline constexpr std::uint32_t kCounterVersion = 1;
inline constexpr std::size_t kCacheLine = 64;

enum class QueueKind : std::uint32_t {
  bounded = 1,
  unbounded = 2,      // no capacity: growth instead of fill
  pool = 3,           // empty is the critical state: `in` counts returns, `out` counts takings
  shared_memory = 4,  // two processes, one identity: each publishes its own side
  bidirectional = 5,  // one direction of a pair; `pair` names the other descriptor's slot + 1
  socket = 6,
};

enum class SlotState : std::uint32_t { free = 0, init = 1, live = 2, retired = 3 };
enum class Phase : std::uint32_t { starting = 0, running = 1, stopping = 2, ended = 3 };
enum class StageState : std::uint32_t { idle = 0, busy = 1, blocked = 2 };
enum class WaitPolicy : std::uint32_t { poll = 0, block = 1, hybrid = 2, unknown = 3 };

// Which ends of a queue this process publishes.
inline constexpr std::uint32_t kProducerSide = 1;
inline constexpr std::uint32_t kConsumerSide = 2;
inline constexpr std::uint32_t kBothSides = 3;
// A queue between processes whose every process counts its own share: a reader adds them up. Without it the
// counts of such a queue are tickets of the queue itself, and a reader takes the largest of a side.
inline constexpr std::uint32_t kSharedCount = 4;

// A short text that one thread may write while others read: words, so that no access is a data race. What is
// too long is cut at a UTF-8 boundary.
template <std::size_t Bytes>
struct SharedText {
  static_assert(Bytes % 8 == 0);
  std::array<std::atomic<std::uint64_t>, Bytes / 8> words;

  void store(std::string_view text) noexcept {
    std::size_t size = text.size() < Bytes ? text.size() : Bytes - 1;
    if (size < text.size()) {
      while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0U) == 0x80U) --size;
    }
    std::array<char, Bytes> bytes{};
    if (size > 0) text.copy(bytes.data(), size);
    for (std::size_t i = 0; i < words.size(); ++i) {
      std::uint64_t word;
      std::memcpy(&word, bytes.data() + i * 8, 8);
      words[i].store(word, std::memory_order_release);  // not before the descriptor's odd version
    }
  }

  [[nodiscard]] std::string load() const {
    std::array<char, Bytes + 1> bytes{};
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::uint64_t word =
          words[i].load(std::memory_order_acquire);  // before the version is read again
      std::memcpy(bytes.data() + i * 8, &word, 8);
    }
    return {bytes.data()};
  }
};

struct FileHeader {
  std::atomic<std::uint64_t> magic;  // stored last, with release: a reader that sees it sees the rest
  std::uint32_t version;
  std::uint32_t header_bytes;
  std::uint32_t queue_capacity;
  std::uint32_t stage_capacity;
  std::uint32_t queue_descriptor_bytes;
  std::uint32_t stage_descriptor_bytes;
  std::uint32_t queue_hot_bytes;
  std::uint32_t stage_hot_bytes;
  std::uint64_t queue_descriptor_offset;
  std::uint64_t stage_descriptor_offset;
  std::uint64_t queue_hot_offset;
  std::uint64_t stage_hot_offset;
  std::uint64_t file_bytes;
  std::uint32_t pid;
  std::uint32_t file_number;    // several images in one process may each have a file: 0, 1, …
  std::uint64_t process_start;  // field 22 of /proc/PID/stat: with pid and boot id, a process for ever
  std::array<std::uint8_t, 16> boot_id;
  std::uint64_t clock_ticks;  // the counter and CLOCK_MONOTONIC at one instant, when the file was made
  std::uint64_t clock_ns;
  std::uint64_t clock_hz;                  // nominal rate; an observer measures its own over what it recorded
  std::atomic<std::uint32_t> phase;        // Phase; written by the application
  std::atomic<std::uint32_t> queue_count;  // slots ever used: a reader need look no further
  std::atomic<std::uint32_t> stage_count;
  std::uint32_t reserved0;
  std::atomic<std::uint64_t> topology_version;  // odd while any descriptor is being written
  SharedText<64> application;
  std::array<std::uint8_t, 3872> reserved;
};

struct QueueDescriptor {
  std::atomic<std::uint32_t> version;  // odd while the descriptor is being written
  std::atomic<std::uint32_t> state;    // SlotState; live is stored last, with release
  std::atomic<std::uint32_t>
      generation;                   // grows each time the slot is taken: (slot, generation) is never reused
  std::atomic<std::uint32_t> kind;  // QueueKind
  std::atomic<std::uint64_t> capacity;  // 0: unbounded
  std::atomic<std::uint64_t> identity;  // equal on both sides of a queue between processes, else 0
  std::atomic<std::uint32_t> sides;     // kProducerSide | kConsumerSide, kSharedCount
  std::atomic<std::uint32_t> pair;      // bidirectional: the other direction's slot + 1, else 0
  std::atomic<std::uint64_t> created_ticks;
  SharedText<48> name;
  SharedText<48> source_type;
  SharedText<48> source_name;
  SharedText<48> drain_type;
  SharedText<48> drain_name;
  SharedText<48> group;           // worker pool, partition set or shared thread that the queue belongs to
  SharedText<48> implementation;  // the class, for the reader of a report
  std::array<std::uint8_t, 128> reserved;
};

struct StageDescriptor {
  std::atomic<std::uint32_t> version;
  std::atomic<std::uint32_t> state;
  std::atomic<std::uint32_t> generation;
  std::atomic<std::uint32_t> wait;  // WaitPolicy: a polling thread burns its core and may yet be idle
  std::atomic<std::uint32_t> tid;   // the thread that runs it; several stages may share one
  std::atomic<std::int32_t> cpu;    // pinned to, or -1
  SharedText<48> type;
  SharedText<48> name;
  SharedText<48> group;
  std::array<std::uint8_t, 88> reserved;
};

// Written by producers alone.
struct alignas(kCacheLine) ProducerLine {
  std::atomic<std::uint64_t> in;       // events put in, ever
  std::atomic<std::uint64_t> dropped;  // events refused because the queue was full, and lost
  std::atomic<std::uint64_t> blocked;  // times that a producer found the queue full and had to wait
  std::atomic<std::uint32_t> tid;      // first user, or 0: fills blanks of the topology
  std::uint32_t reserved0;
  std::uint64_t cached_out;  // the queue's own business
  std::array<std::uint64_t, 3> reserved;
};

// Written by consumers alone.
struct alignas(kCacheLine) ConsumerLine {
  std::atomic<std::uint64_t> out;    // events taken out, ever
  std::atomic<std::uint64_t> empty;  // times that a consumer found the queue empty
  std::atomic<std::uint32_t> tid;
  std::uint32_t reserved0;
  std::uint64_t cached_in;  // the queue's own business
  std::array<std::uint64_t, 4> reserved;
};

struct QueueHot {
  ProducerLine producer;
  ConsumerLine consumer;
};

// Written by the stage's thread alone, at transitions and not per event.
struct alignas(kCacheLine) StageHot {
  std::atomic<std::uint64_t> version;  // odd while the line is being written
  std::atomic<std::uint64_t> since_ticks;
  std::atomic<std::uint64_t> busy_ticks;  // completed stretches; the current one is now - since
  std::atomic<std::uint64_t> blocked_ticks;
  std::atomic<std::uint64_t> idle_ticks;
  std::atomic<std::uint64_t> events;
  std::atomic<std::uint32_t> state;  // StageState
  std::atomic<std::uint32_t> transitions;
  std::uint64_t reserved;
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(sizeof(std::atomic<std::uint64_t>) == 8 && sizeof(std::atomic<std::uint32_t>) == 4);
static_assert(sizeof(FileHeader) == 4096 && offsetof(FileHeader, pid) == 80);
static_assert(offsetof(FileHeader, boot_id) == 96 && offsetof(FileHeader, phase) == 136);
static_assert(offsetof(FileHeader, topology_version) == 152 && offsetof(FileHeader, application) == 160);
static_assert(sizeof(QueueDescriptor) == 512 && offsetof(QueueDescriptor, name) == 48);
static_assert(sizeof(StageDescriptor) == 256 && offsetof(StageDescriptor, type) == 24);
static_assert(sizeof(QueueHot) == 128 && offsetof(QueueHot, consumer) == 64);
static_assert(sizeof(StageHot) == 64);

}  // namespace latlab
