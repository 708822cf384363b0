// Threads: one creates and destroys it; refresh() may be called from any thread, and does nothing while
// another is in it.
//
// Queues of a process that was not built with latlab: a counter file in memory of ours, whose counts are
// copied from the other process's own indices, at addresses that the user gave (process_vm_readv(2)).
// Whatever reads counter files reads it.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>
#include <latlab/counter_layout.hpp>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace latlab::queues {

// Where the indices of a queue are in the other process, and what they mean.
struct RemoteQueue {
  std::string name, source_type, source_name, drain_type, drain_name;
  std::uint64_t in_address = 0;
  std::uint64_t out_address = 0;
  std::uint32_t index_bytes = 8;  // 4 or 8
  std::uint64_t modulus = 0;  // an index starts again at 0 after so many steps; 0: at the end of its width
  std::uint64_t capacity = 0;
};

class Mirror {
 public:
  // Throws std::runtime_error where the memory can't be read; the text says why.
  Mirror(pid_t pid, const std::vector<RemoteQueue>& queues);
  ~Mirror();
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;

  // Of the counter file, for a CounterReader in this process.
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

  // Copies the indices, in the order out, in, out: one system call for up to 341 queues. What was out before
  // `in` was read stands in the consumer line's `cached_in`. False where the process can't be read any more.
  bool refresh() noexcept;

 private:
  struct Indices {
    std::uint64_t out_before;
    std::uint64_t in;
    std::uint64_t out_after;
  };
  struct Watched {
    std::uint64_t modulus;
    std::uint64_t in;  // totals at the last look
    std::uint64_t out;
  };

  void make_file(const std::vector<RemoteQueue>& queues);
  bool copy() noexcept;
  QueueHot& hot(std::size_t queue) noexcept;

  pid_t pid_;
  int fd_ = -1;
  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
  std::string path_;
  std::vector<Indices> indices_;
  std::vector<Watched> watched_;
  std::vector<iovec> local_;
  std::vector<iovec> remote_;
  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
};

}  // namespace latlab::queues
