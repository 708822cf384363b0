// Threads: the functions are re-entrant; a GlobalLoad is started and stopped by one thread.
//
// I/O, network and global stubs: reads and writes of given sizes, bytes at a rate over loopback, and load on
// the whole system for as long as a run.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace latlab::stubs {

enum class IoPattern { kSequential, kRandom };

struct IoPlan {
  std::string path;
  std::int64_t read_bytes = 0;
  std::int64_t write_bytes = 0;
  std::int64_t block_bytes = 4096;
  IoPattern pattern = IoPattern::kSequential;
  std::int64_t fsync_every = 0;  // writes; 0: never
  std::int64_t delay_ns = 0;  // asleep after the transfers, as a device that is so much slower would have it
  std::uint64_t seed = 1;
};

struct IoResult {
  std::int64_t wall_ns = 0;
  std::int64_t reads = 0;
  std::int64_t writes = 0;
  std::int64_t fsyncs = 0;
  std::int64_t read_bytes = 0;
  std::int64_t written_bytes = 0;
};

// The file is made where it is missing and grows to what is read; it isn't removed. Throws
// std::runtime_error.
IoResult run_io(const IoPlan& plan);

struct NetworkResult {
  std::int64_t wall_ns = 0;  // from the first send to the last byte received
  std::int64_t bytes = 0;
  std::int64_t first_byte_ns = 0;  // until the first byte arrived
};

// Sends `bytes` over a loopback TCP connection at `bytes_per_s` (0: as fast as it goes), each chunk
// `delay_ns` late.
NetworkResult run_network(std::int64_t bytes, double bytes_per_s, std::int64_t delay_ns,
                          std::int64_t chunk_bytes);

struct LoadPlan {
  std::vector<int> cpus;  // one busy thread is pinned to each
  double duty = 1.0;      // part of each period that is busy
  std::int64_t period_ns = 10'000'000;
  int memory_threads = 0;  // each streams through a set that no cache holds
  std::int64_t memory_bytes = 67'108'864;
  double memory_bytes_per_s = 0.0;  // of all threads together; 0: as fast as it goes
  std::string disk_path;            // written and synced over and over; empty: no disk load
  double disk_bytes_per_s = 0.0;    // 0: as fast as it goes
};

class GlobalLoad {
 public:
  explicit GlobalLoad(LoadPlan plan);
  ~GlobalLoad();
  GlobalLoad(const GlobalLoad&) = delete;
  GlobalLoad& operator=(const GlobalLoad&) = delete;
  void start();
  void stop() noexcept;
  [[nodiscard]] std::int64_t busy_ns() const noexcept { return busy_ns_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::int64_t memory_bytes() const noexcept {
    return streamed_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::int64_t disk_bytes() const noexcept { return written_.load(std::memory_order_relaxed); }
  // Why the disk's load ended before stop(); empty where it didn't. Read it after stop().
  [[nodiscard]] const std::string& disk_error() const noexcept { return disk_error_; }

 private:
  void burn(int cpu) noexcept;
  void stream(std::vector<std::uint64_t>& data) noexcept;
  void write() noexcept;

  LoadPlan plan_;
  std::vector<std::vector<std::uint64_t>> walked_;  // one a memory thread, touched before the load begins
  std::vector<std::thread> threads_;
  // relaxed everywhere: a stop that is seen one period late does no harm, and the counts are only statistics
  std::atomic<bool> stopping_{false};
  std::atomic<std::int64_t> busy_ns_{0};
  std::atomic<std::int64_t> streamed_{0};
  std::atomic<std::int64_t> written_{0};
  std::string disk_error_;  // written by the disk's thread, which stop() joins
};

}  // namespace latlab::stubs
