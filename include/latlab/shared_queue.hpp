// Threads: any number on each side, in one process a side. One process creates, one attaches.
//
// A bounded queue between two processes. Each side's ticket lies in that process's own counter file, so each
// process publishes the side that it knows, both under one identity, and no event is counted twice. The
// segment itself holds the cells, whose turns carry all that the sides must know of each other.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "counters.hpp"
#include "wait.hpp"

namespace latlab {

template <class T>
class SharedRing {
  static_assert(std::is_trivially_copyable_v<T>, "an event between processes is bytes");

 public:
  // Creates the segment at `path` (a file in shared memory; an old one is replaced) and is its producer.
  // Throws std::runtime_error, with the path, where that can't be.
  static SharedRing create(const std::string& path, std::size_t capacity, QueueInfo info,
                           CounterFile& file = CounterFile::process()) {
    const std::size_t cells = std::bit_ceil(capacity < 2 ? 2 : capacity);
    const std::size_t bytes = sizeof(Header) + cells * sizeof(Cell);
    ::unlink(path.c_str());
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) throw std::runtime_error(path + ": the queue's segment can't be made");
    if (::posix_fallocate(fd, 0, static_cast<off_t>(bytes)) != 0) {
      ::close(fd);
      ::unlink(path.c_str());
      throw std::runtime_error(path + ": no room for the queue's segment");
    }
    Header* const header = map(fd, bytes, path);
    header->version = kVersion;
    header->event_bytes = sizeof(T);
    header->cells = cells;
    header->identity = (static_cast<std::uint64_t>(::getpid()) << 32U) ^ ticks();
    for (std::size_t i = 0; i < cells; ++i) header->cell(i).turn.store(i, std::memory_order_relaxed);
    header->magic.store(kMagic, std::memory_order_release);
    info.sides = kProducerSide;
    return SharedRing(header, bytes, path, info, file);
  }

  // Attaches to a segment as its consumer. Throws std::runtime_error where there is none, or one that is not
  // ready or not of this type; the text says which.
  static SharedRing attach(const std::string& path, QueueInfo info,
                           CounterFile& file = CounterFile::process()) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (fd < 0) throw std::runtime_error(path + ": there is no such segment");
    struct stat status{};
    if (::fstat(fd, &status) != 0 || static_cast<std::size_t>(status.st_size) < sizeof(Header)) {
      ::close(fd);
      throw std::runtime_error(path + ": the segment is not ready");
    }
    const auto bytes = static_cast<std::size_t>(status.st_size);
    Header* const header = map(fd, bytes, path);
    const bool ready = header->magic.load(std::memory_order_acquire) == kMagic;
    if (!ready || header->version != kVersion || header->event_bytes != sizeof(T) ||
        !std::has_single_bit(header->cells) || bytes != sizeof(Header) + header->cells * sizeof(Cell)) {
      ::munmap(header, bytes);
      throw std::runtime_error(path +
                               (ready ? ": the segment is of another type" : ": the segment is not ready"));
    }
    info.sides = kConsumerSide;
    SharedRing ring(header, bytes, path, info, file);
    ring.slot_.consumer().out.store(ring.oldest(), std::memory_order_relaxed);
    return ring;
  }

  SharedRing(const SharedRing&) = delete;
  SharedRing& operator=(const SharedRing&) = delete;
  SharedRing(SharedRing&& other) noexcept
      : header_(std::exchange(other.header_, nullptr)),
        bytes_(other.bytes_),
        path_(std::move(other.path_)),
        owner_(other.owner_),
        slot_(std::move(other.slot_)) {}
  SharedRing& operator=(SharedRing&&) = delete;
  ~SharedRing() {
    if (header_ == nullptr) return;
    ::munmap(header_, bytes_);
    if (owner_) ::unlink(path_.c_str());
  }

  [[nodiscard]] QueueSlot& slot() noexcept { return slot_; }
  [[nodiscard]] std::size_t capacity() const noexcept { return header_->cells; }

  // False when the queue is full. A sleeping consumer is woken by flush(), once a batch.
  bool try_push(const T& value) noexcept {
    auto& in = slot_.producer().in;
    std::uint64_t ticket = in.load(std::memory_order_relaxed);
    for (;;) {
      Cell& cell = header_->cell(ticket & (header_->cells - 1));
      const auto ahead = static_cast<std::int64_t>(cell.turn.load(std::memory_order_acquire) - ticket);
      if (ahead < 0) return false;
      if (ahead > 0) {
        ticket = in.load(std::memory_order_relaxed);
      } else if (in.compare_exchange_weak(ticket, ticket + 1, std::memory_order_relaxed)) {
        slot_.note_producer();
        cell.value = value;
        cell.turn.store(ticket + 1, std::memory_order_release);  // the event before its turn
        return true;
      }
    }
  }
  void flush() noexcept { header_->arrivals.notify(); }
  [[nodiscard]] bool full() const noexcept {
    const std::uint64_t ticket = slot_.producer().in.load(std::memory_order_relaxed);
    const Cell& cell = header_->cell(ticket & (header_->cells - 1));
    return static_cast<std::int64_t>(cell.turn.load(std::memory_order_acquire) - ticket) < 0;
  }
  void count_blocked() noexcept { slot_.producer().blocked.fetch_add(1, std::memory_order_relaxed); }
  // Producer: nothing more will come.
  void close() noexcept {
    header_->closed.store(1, std::memory_order_release);
    header_->arrivals.notify();
  }

  bool try_pop(T& value) noexcept {
    auto& out = slot_.consumer().out;
    std::uint64_t ticket = out.load(std::memory_order_relaxed);
    for (;;) {
      Cell& cell = header_->cell(ticket & (header_->cells - 1));
      const auto ahead = static_cast<std::int64_t>(cell.turn.load(std::memory_order_acquire) - (ticket + 1));
      if (ahead < 0) return false;
      if (ahead > 0) {
        ticket = out.load(std::memory_order_relaxed);
      } else if (out.compare_exchange_weak(ticket, ticket + 1, std::memory_order_relaxed)) {
        slot_.note_consumer();
        value = cell.value;
        cell.turn.store(ticket + header_->cells, std::memory_order_release);  // free for the next round
        return true;
      }
    }
  }
  [[nodiscard]] bool empty() const noexcept {
    const std::uint64_t ticket = slot_.consumer().out.load(std::memory_order_relaxed);
    const Cell& cell = header_->cell(ticket & (header_->cells - 1));
    return static_cast<std::int64_t>(cell.turn.load(std::memory_order_acquire) - (ticket + 1)) < 0;
  }
  [[nodiscard]] bool closed() const noexcept { return header_->closed.load(std::memory_order_acquire) != 0; }
  // Consumer: sleeps until an event may have come.
  void wait(std::uint64_t timeout_ns) noexcept {
    header_->arrivals.wait([this] { return !empty() || closed(); }, timeout_ns);
  }
  void count_empty() noexcept { slot_.consumer().empty.fetch_add(1, std::memory_order_relaxed); }

 private:
  static constexpr std::uint64_t kMagic = 0x31474E495244484CULL;  // "LHDRING1"
  static constexpr std::uint32_t kVersion = 1;

  struct alignas(kCacheLine) Cell {
    std::atomic<std::uint64_t> turn;
    T value;
  };
  struct alignas(kCacheLine) Header {
    std::atomic<std::uint64_t> magic;  // stored last
    std::uint32_t version;
    std::uint32_t event_bytes;
    std::uint64_t cells;
    std::uint64_t identity;
    std::atomic<std::uint32_t> closed;
    alignas(kCacheLine) EventCount arrivals;

    Cell& cell(std::size_t i) noexcept { return reinterpret_cast<Cell*>(this + 1)[i]; }
    const Cell& cell(std::size_t i) const noexcept { return reinterpret_cast<const Cell*>(this + 1)[i]; }
  };

  SharedRing(Header* header, std::size_t bytes, std::string path, QueueInfo info, CounterFile& file)
      : header_(header), bytes_(bytes), path_(std::move(path)), owner_(info.sides == kProducerSide) {
    info.kind = QueueKind::shared_memory;
    info.capacity = header->cells;
    info.identity = header->identity;
    if (info.implementation.empty()) info.implementation = "latlab::SharedRing";
    slot_ = file.add_queue(info);
  }

  static Header* map(int fd, std::size_t bytes, const std::string& path) {
    void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    ::close(fd);
    if (memory == MAP_FAILED) throw std::runtime_error(path + ": the segment can't be mapped");
    return static_cast<Header*>(memory);
  }

  // The ticket of the oldest event that nobody has taken: where a consumer that attaches late goes on.
  [[nodiscard]] std::uint64_t oldest() const noexcept {
    std::uint64_t first = ~0ULL;
    for (std::size_t i = 0; i < header_->cells; ++i) {
      const std::uint64_t turn = header_->cell(i).turn.load(std::memory_order_acquire);
      const bool filled = (turn & (header_->cells - 1)) != i;  // a free cell's turn is its own place
      const std::uint64_t ticket = filled ? turn - 1 : turn;
      if (ticket < first) first = ticket;
    }
    return first;
  }

  Header* header_;
  std::size_t bytes_;
  std::string path_;
  bool owner_;
  QueueSlot slot_;
};

}  // namespace latlab
