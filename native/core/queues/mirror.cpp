#include "queues/mirror.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>
#include <latlab/counted.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <system_error>

namespace latlab::queues {

namespace {

constexpr std::size_t kMostPieces = 1023;  // of one call: IOV_MAX is 1024, and a queue takes three

std::string name_of(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/comm";
  std::FILE* const file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return {};
  char text[64] = {};
  const std::size_t size = std::fread(text, 1, sizeof text - 1, file);
  std::fclose(file);
  return {text, size > 0 && text[size - 1] == '\n' ? size - 1 : size};
}

}  // namespace

Mirror::Mirror(pid_t pid, const std::vector<RemoteQueue>& queues)
    : pid_(pid), indices_(queues.size()), watched_(queues.size()) {
  for (std::size_t i = 0; i < queues.size(); ++i) {
    const RemoteQueue& queue = queues[i];
    const auto piece = [&](std::uint64_t& to, std::uint64_t from) {
      local_.push_back({&to, queue.index_bytes});
      // NOLINTNEXTLINE(performance-no-int-to-ptr): an address in another process is not a pointer of ours
      remote_.push_back({reinterpret_cast<void*>(from), queue.index_bytes});
    };
    piece(indices_[i].out_before, queue.out_address);
    piece(indices_[i].in, queue.in_address);
    piece(indices_[i].out_after, queue.out_address);
    const std::uint64_t whole = queue.index_bytes == 4 ? 1ULL << 32U : 0;
    watched_[i].modulus = queue.modulus != 0 ? queue.modulus : whole;
  }
  if (!copy()) {
    throw std::runtime_error("the memory of process " + std::to_string(pid) +
                             " can't be read: " + std::generic_category().message(errno));
  }
  for (std::size_t i = 0; i < queues.size(); ++i) {
    // What is in the queue now has come in since it was empty, wherever its indices began. They are read one
    // after the other: `in` can't be behind what `out` was before it, and may be behind what `out` is after
    // it.
    const std::uint64_t out = indices_[i].out_before;
    watched_[i].in = watched_[i].modulus == 0
                         ? indices_[i].in
                         : out + (indices_[i].in + watched_[i].modulus - out) % watched_[i].modulus;
    watched_[i].out = detail::advanced(out, indices_[i].out_after, watched_[i].modulus);
  }
  make_file(queues);
  refresh();
}

Mirror::~Mirror() {
  if (base_ != nullptr) ::munmap(base_, bytes_);
  if (fd_ >= 0) ::close(fd_);
}

void Mirror::make_file(const std::vector<RemoteQueue>& queues) {
  const std::size_t count = queues.size();
  const std::size_t descriptors = sizeof(FileHeader);
  const std::size_t hot_lines = descriptors + count * sizeof(QueueDescriptor);
  bytes_ = hot_lines + count * sizeof(QueueHot);
  fd_ = ::memfd_create("latlab-mirror", MFD_CLOEXEC);
  // The lock says to readers what it says of an application's own file: its maker still looks after it.
  if (fd_ < 0 || ::ftruncate(fd_, static_cast<off_t>(bytes_)) != 0 || ::flock(fd_, LOCK_EX) != 0) {
    throw std::runtime_error("no memory for the counts");
  }
  void* const memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("no memory for the counts");
  base_ = static_cast<std::byte*>(memory);
  path_ = "/proc/self/fd/" + std::to_string(fd_);
  auto& head = *reinterpret_cast<FileHeader*>(base_);
  detail::lay_out(head, static_cast<std::uint32_t>(count), 0,
                  {descriptors, descriptors, hot_lines, hot_lines, bytes_});
  head.pid = static_cast<std::uint32_t>(pid_);
  head.file_number = 0;
  head.process_start = detail::process_start(pid_);
  head.boot_id = detail::boot_id();
  const ClockReference now = clock_reference();
  head.clock_ticks = now.ticks;
  head.clock_ns = now.ns;
  head.phase.store(static_cast<std::uint32_t>(Phase::running), std::memory_order_relaxed);
  head.queue_count.store(static_cast<std::uint32_t>(count), std::memory_order_relaxed);
  head.application.store(name_of(pid_));
  for (std::size_t i = 0; i < count; ++i) {
    const RemoteQueue& from = queues[i];
    auto& to = *reinterpret_cast<QueueDescriptor*>(base_ + descriptors + i * sizeof(QueueDescriptor));
    to.generation.store(1, std::memory_order_relaxed);
    const QueueKind kind = from.capacity == 0 ? QueueKind::unbounded : QueueKind::bounded;
    to.kind.store(static_cast<std::uint32_t>(kind), std::memory_order_relaxed);
    to.capacity.store(from.capacity, std::memory_order_relaxed);
    to.sides.store(kBothSides, std::memory_order_relaxed);
    to.created_ticks.store(now.ticks, std::memory_order_relaxed);
    to.name.store(from.name);
    to.source_type.store(from.source_type);
    to.source_name.store(from.source_name);
    to.drain_type.store(from.drain_type);
    to.drain_name.store(from.drain_name);
    to.implementation.store("by address");
    to.state.store(static_cast<std::uint32_t>(SlotState::live), std::memory_order_release);
  }
  head.magic.store(kCounterMagic, std::memory_order_release);
}

QueueHot& Mirror::hot(std::size_t queue) noexcept {
  const auto& head = *reinterpret_cast<const FileHeader*>(base_);
  return *reinterpret_cast<QueueHot*>(base_ + head.queue_hot_offset + queue * sizeof(QueueHot));
}

bool Mirror::copy() noexcept {
  for (std::size_t from = 0; from < local_.size(); from += kMostPieces) {
    const std::size_t count = std::min(kMostPieces, local_.size() - from);
    std::size_t wanted = 0;
    for (std::size_t i = from; i < from + count; ++i) wanted += local_[i].iov_len;
    const ssize_t got = ::process_vm_readv(pid_, &local_[from], count, &remote_[from], count, 0);
    if (got != static_cast<ssize_t>(wanted)) {
      if (got >= 0) errno = EFAULT;  // it stops at the first address that isn't there
      return false;
    }
  }
  return true;
}

bool Mirror::refresh() noexcept {
  if (busy_.test_and_set(std::memory_order_acquire)) return true;  // somebody else just does
  const bool good = copy();
  for (std::size_t i = 0; good && i < watched_.size(); ++i) {
    Watched& watched = watched_[i];
    const std::uint64_t lap = watched.modulus;
    std::uint64_t out_before = detail::advanced(watched.out, indices_[i].out_before, lap);
    if (lap == 0) {
      watched.in = detail::advanced(watched.in, indices_[i].in, lap);
    } else {
      // Between two looks an index may have gone round unseen, and the other not: the fill is what `in` is
      // ahead of `out`, whatever either was before. Both have gone round if `in` were behind itself.
      const std::uint64_t fill = (indices_[i].in % lap + lap - indices_[i].out_before % lap) % lap;
      if (out_before + fill < watched.in) out_before += lap;
      watched.in = out_before + fill;
    }
    watched.out = detail::advanced(out_before, indices_[i].out_after, watched.modulus);
    QueueHot& line = hot(i);
    line.consumer.cached_in = out_before;
    line.producer.in.store(watched.in, std::memory_order_release);
    line.consumer.out.store(watched.out, std::memory_order_release);
  }
  busy_.clear(std::memory_order_release);
  return good;
}

}  // namespace latlab::queues
