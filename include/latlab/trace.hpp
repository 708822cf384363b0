// Threads: each lane has one writing thread; the file may be read at any time, by any process.
//
// The event trace: for one event in N, when it was put into each queue and when it was taken out. It is the
// ground truth that samples are checked against. The push time travels with the event; the stage that takes
// the event out writes one 32-byte record, into memory that was reserved at the start.
//
//   0        4096                                + lanes * lane_bytes
//   +--------+----------------+----------------+-----
//   | header | lane 0: 64-byte head, records[] | lane 1 …
//   +--------+----------------+----------------+-----
//
// Version history: 1 (2026-11) the first.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <utility>

#include "clock.hpp"

namespace latlab {

inline constexpr std::uint64_t kTraceMagic = 0x315341525454414CULL;  // "LATTRAS1"
inline constexpr std::uint32_t kTraceVersion = 1;
inline constexpr std::uint32_t kNoQueue = 0xFFFFFFFFU;

// What became of the event at this record.
enum class TraceEnd : std::uint32_t {
  none = 0,      // it went on
  finished = 1,  // it reached the end of the pipeline
  filtered = 2,  // it was used up here, as most are, and nothing went on
};

struct TraceRecord {
  std::uint64_t event;       // the same in every record of one event
  std::uint64_t push_ticks;  // put into the queue …
  std::uint64_t pop_ticks;   // … and taken out; both are the end's time in a record that ends an event
  std::uint32_t queue;       // the queue's slot in this process's counter file, or kNoQueue in an end
  std::uint16_t end;         // TraceEnd
  std::uint16_t tag;         // the application's
};
static_assert(sizeof(TraceRecord) == 32);

struct TraceHeader {
  std::atomic<std::uint64_t> magic;  // stored last
  std::uint32_t version;
  std::uint32_t lanes;
  std::uint64_t lane_bytes;
  std::uint64_t lane_records;
  std::uint32_t pid;
  std::uint32_t every;  // one event in so many is traced
  std::uint64_t clock_ticks;
  std::uint64_t clock_ns;
  std::uint8_t reserved[4096 - 56];
};
static_assert(sizeof(TraceHeader) == 4096);

struct alignas(64) TraceLaneHead {
  std::atomic<std::uint64_t> written;  // records that a reader may read
  std::atomic<std::uint64_t> lost;     // records that found no room
};
static_assert(sizeof(TraceLaneHead) == 64);

class TraceLane {
 public:
  TraceLane() = default;
  TraceLane(TraceLaneHead* head, TraceRecord* records, std::uint64_t capacity)
      : head_(head), records_(records), capacity_(capacity) {}

  // The event was in `queue` from `push` to `pop`.
  void hop(std::uint64_t event, std::uint32_t queue, std::uint64_t push, std::uint64_t pop,
           std::uint16_t tag = 0) noexcept {
    write({event, push, pop, queue, static_cast<std::uint16_t>(TraceEnd::none), tag});
  }
  void end(std::uint64_t event, TraceEnd how, std::uint64_t at, std::uint16_t tag = 0) noexcept {
    write({event, at, at, kNoQueue, static_cast<std::uint16_t>(how), tag});
  }

 private:
  void write(const TraceRecord& record) noexcept {
    if (head_ == nullptr) return;
    const std::uint64_t at = head_->written.load(std::memory_order_relaxed);
    if (at == capacity_) {
      head_->lost.store(head_->lost.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      return;
    }
    records_[at] = record;
    head_->written.store(at + 1, std::memory_order_release);  // the record before its count
  }

  TraceLaneHead* head_ = nullptr;
  TraceRecord* records_ = nullptr;
  std::uint64_t capacity_ = 0;
};

class TraceFile {
 public:
  TraceFile() = default;
  // Makes the file at `path`, all of it backed by memory. Where that can't be, no lane records anything.
  TraceFile(const std::string& path, std::uint32_t lanes, std::uint64_t records, std::uint32_t every)
      : lanes_(lanes), records_(records) {
    lane_bytes_ = sizeof(TraceLaneHead) + records * sizeof(TraceRecord);
    bytes_ = sizeof(TraceHeader) + lanes * lane_bytes_;
    ::unlink(path.c_str());
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return;
    void* memory = MAP_FAILED;
    if (::posix_fallocate(fd, 0, static_cast<off_t>(bytes_)) == 0) {
      memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    }
    ::close(fd);
    if (memory == MAP_FAILED) {
      ::unlink(path.c_str());
      return;
    }
    base_ = static_cast<std::byte*>(memory);
    auto* const header = reinterpret_cast<TraceHeader*>(base_);
    const ClockReference now = clock_reference();
    header->version = kTraceVersion;
    header->lanes = lanes;
    header->lane_bytes = lane_bytes_;
    header->lane_records = records;
    header->pid = static_cast<std::uint32_t>(::getpid());
    header->every = every;
    header->clock_ticks = now.ticks;
    header->clock_ns = now.ns;
    header->magic.store(kTraceMagic, std::memory_order_release);
  }
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;
  ~TraceFile() {
    if (base_ != nullptr) ::munmap(base_, bytes_);  // the file stays: it is the result
  }

  [[nodiscard]] bool ready() const noexcept { return base_ != nullptr; }

  // The lane of one thread. Each is given out once, by the caller's own numbering.
  [[nodiscard]] TraceLane lane(std::uint32_t number) noexcept {
    if (base_ == nullptr || number >= lanes_) return {};
    std::byte* const at = base_ + sizeof(TraceHeader) + number * lane_bytes_;
    return {reinterpret_cast<TraceLaneHead*>(at), reinterpret_cast<TraceRecord*>(at + sizeof(TraceLaneHead)),
            records_};
  }

 private:
  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
  std::uint32_t lanes_ = 0;
  std::uint64_t records_ = 0;
  std::uint64_t lane_bytes_ = 0;
};

}  // namespace latlab
