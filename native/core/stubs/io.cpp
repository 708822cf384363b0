#include "stubs/io.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <stdexcept>

#include "stubs/sleep.hpp"
#include "stubs/spin.hpp"

namespace latlab::stubs {
namespace {

// What a memory load walks at the least, and at a time.
constexpr std::int64_t kSmallestSet = 1 << 20;

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

class Descriptor {
 public:
  explicit Descriptor(int fd) noexcept : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const noexcept { return fd_; }

 private:
  int fd_;
};

// Holds whoever moves bytes to a rate. A lag is made good later unless it is longer than kForgiven_ns: a load
// that the machine couldn't hold for long must not come as a burst afterwards.
class Pace {
 public:
  explicit Pace(double bytes_per_s) noexcept : bytes_per_s_(bytes_per_s), due_ns_(now_ns()) {}
  void moved(std::int64_t bytes) noexcept {
    if (bytes_per_s_ <= 0.0) return;
    due_ns_ += static_cast<std::int64_t>(static_cast<double>(bytes) / bytes_per_s_ * 1e9);
    const auto now = now_ns();
    if (due_ns_ > now) {
      thread_sleeper().sleep_until(due_ns_, SleepMode::kCorrected);
    } else if (now - due_ns_ > kForgiven_ns) {
      due_ns_ = now;
    }
  }

 private:
  static constexpr std::int64_t kForgiven_ns = 100'000'000;
  double bytes_per_s_;
  std::int64_t due_ns_;
};

// What is moved at a time: what the rate has in `turn_s`, in whole steps.
std::int64_t portion(double bytes_per_s, double turn_s, std::int64_t step, std::int64_t most) noexcept {
  if (bytes_per_s <= 0.0) return most;
  const auto wanted = static_cast<std::int64_t>(std::min(bytes_per_s * turn_s, 1e12));
  return std::clamp(wanted / step * step, step, most);
}

void set_no_delay(int fd) noexcept {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

IoResult run_io(const IoPlan& plan) {
  if (plan.block_bytes <= 0) throw std::invalid_argument("the block must be larger than 0 bytes");
  if (plan.read_bytes < 0 || plan.write_bytes < 0 || plan.delay_ns < 0 || plan.fsync_every < 0)
    throw std::invalid_argument("bytes, fsyncs and delays can't be negative");
  const Descriptor file(open(plan.path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (file.get() < 0) fail(plan.path);
  struct stat status{};
  if (fstat(file.get(), &status) != 0) fail(plan.path);
  if (S_ISREG(status.st_mode) && status.st_size < plan.read_bytes &&
      ftruncate(file.get(), plan.read_bytes) != 0) {
    fail(plan.path);
  }
  std::vector<char> block(static_cast<std::size_t>(plan.block_bytes), 'x');
  std::mt19937_64 random(plan.seed);
  const auto place = [&](std::int64_t index, std::int64_t total) {
    const std::int64_t blocks = std::max<std::int64_t>(total / plan.block_bytes, 1);
    const auto pick = plan.pattern == IoPattern::kRandom
                          ? static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(blocks))
                          : index % blocks;
    return pick * plan.block_bytes;
  };
  IoResult result;
  const auto start = now_ns();
  for (std::int64_t done = 0; done < plan.read_bytes; ++result.reads) {
    const auto size = std::min(plan.block_bytes, plan.read_bytes - done);
    const auto got =
        pread(file.get(), block.data(), static_cast<std::size_t>(size), place(result.reads, plan.read_bytes));
    if (got < 0) fail(plan.path);
    result.read_bytes += got;
    done += size;
  }
  for (std::int64_t done = 0; done < plan.write_bytes;) {
    const auto size = std::min(plan.block_bytes, plan.write_bytes - done);
    const auto put = pwrite(file.get(), block.data(), static_cast<std::size_t>(size),
                            place(result.writes, plan.write_bytes));
    if (put <= 0) fail(plan.path);
    result.written_bytes += put;
    done += put;
    ++result.writes;
    if (plan.fsync_every > 0 && result.writes % plan.fsync_every == 0) {
      if (fsync(file.get()) != 0) fail(plan.path);
      ++result.fsyncs;
    }
  }
  if (plan.delay_ns > 0) thread_sleeper().sleep(plan.delay_ns, SleepMode::kCorrected);
  result.wall_ns = now_ns() - start;
  return result;
}

NetworkResult run_network(std::int64_t bytes, double bytes_per_s, std::int64_t delay_ns,
                          std::int64_t chunk_bytes) {
  if (chunk_bytes <= 0) throw std::invalid_argument("the chunk must be larger than 0 bytes");
  const Descriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (listener.get() < 0 || bind(listener.get(), generic, length) != 0 || listen(listener.get(), 1) != 0 ||
      getsockname(listener.get(), generic, &length) != 0) {
    fail("loopback");
  }
  const Descriptor sender(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (sender.get() < 0 || connect(sender.get(), generic, length) != 0) fail("loopback");
  const Descriptor receiver(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (receiver.get() < 0) fail("loopback");
  set_no_delay(sender.get());
  NetworkResult result;
  const auto start = now_ns();
  std::atomic<bool> failed{false};
  std::thread sending([&] {
    const std::vector<char> chunk(static_cast<std::size_t>(chunk_bytes), 'x');
    for (std::int64_t sent = 0; sent < bytes;) {
      const double due = bytes_per_s > 0 ? static_cast<double>(sent) / bytes_per_s * 1e9 : 0.0;
      const auto at = start + delay_ns + static_cast<std::int64_t>(due);
      if (at > now_ns()) thread_sleeper().sleep_until(at, SleepMode::kCorrected);
      const auto size = std::min(chunk_bytes, bytes - sent);
      const auto put = send(sender.get(), chunk.data(), static_cast<std::size_t>(size), MSG_NOSIGNAL);
      if (put <= 0) {
        failed.store(true, std::memory_order_relaxed);  // join() below publishes it
        break;
      }
      sent += put;
    }
    shutdown(sender.get(), SHUT_WR);
  });
  std::vector<char> buffer(static_cast<std::size_t>(std::max<std::int64_t>(chunk_bytes, 65536)));
  for (;;) {
    const auto got = recv(receiver.get(), buffer.data(), buffer.size(), 0);
    if (got <= 0) break;
    if (result.bytes == 0) result.first_byte_ns = now_ns() - start;
    result.bytes += got;
    result.wall_ns = now_ns() - start;
  }
  sending.join();
  if (failed.load(std::memory_order_relaxed) || result.bytes != bytes)
    throw std::runtime_error("loopback broke off");
  return result;
}

GlobalLoad::GlobalLoad(LoadPlan plan) : plan_(std::move(plan)) {
  if (!(plan_.duty >= 0.0 && plan_.duty <= 1.0) || plan_.period_ns <= 0) {
    throw std::invalid_argument("a duty lies between 0 and 1, and a period above 0");
  }
  if (!(plan_.memory_bytes_per_s >= 0.0 && plan_.disk_bytes_per_s >= 0.0) || plan_.memory_threads < 0 ||
      plan_.memory_bytes < kSmallestSet) {
    throw std::invalid_argument("rates and numbers of threads can't be negative, nor a set below 1 MiB");
  }
  const auto cells = static_cast<std::size_t>(plan_.memory_bytes) / sizeof(std::uint64_t);
  for (int i = 0; i < plan_.memory_threads; ++i) walked_.emplace_back(cells, 1U);
}

GlobalLoad::~GlobalLoad() {
  stop();
}

void GlobalLoad::start() {
  if (!threads_.empty()) return;
  stopping_.store(false, std::memory_order_relaxed);
  disk_error_.clear();
  for (const int cpu : plan_.cpus) threads_.emplace_back([this, cpu] { burn(cpu); });
  for (auto& data : walked_) threads_.emplace_back([this, &data] { stream(data); });
  if (!plan_.disk_path.empty()) threads_.emplace_back([this] { write(); });
}

void GlobalLoad::stop() noexcept {
  stopping_.store(true, std::memory_order_relaxed);
  for (auto& thread : threads_) thread.join();
  threads_.clear();
}

void GlobalLoad::burn(int cpu) noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
  const auto busy = static_cast<std::int64_t>(static_cast<double>(plan_.period_ns) * plan_.duty);
  std::int64_t period = now_ns();
  while (!stopping_.load(std::memory_order_relaxed)) {
    busy_ns_.fetch_add(spin_cpu(busy).cpu_ns, std::memory_order_relaxed);
    period += plan_.period_ns;
    // A load that fell behind starts a new schedule: catching up would exceed the duty.
    if (now_ns() > period) period = now_ns();
    if (busy < plan_.period_ns) thread_sleeper().sleep_until(period, SleepMode::kCorrected);
  }
}

void GlobalLoad::stream(std::vector<std::uint64_t>& data) noexcept {
  const double rate = plan_.memory_bytes_per_s / plan_.memory_threads;
  const auto piece = static_cast<std::size_t>(portion(rate, 0.0001, 65'536, kSmallestSet)) / 16;
  Pace pace(rate);
  while (!stopping_.load(std::memory_order_relaxed)) {
    for (std::size_t from = 0; from < data.size() && !stopping_.load(std::memory_order_relaxed);
         from += piece) {
      const std::size_t to = std::min(data.size(), from + piece);
      for (std::size_t i = from; i < to; ++i) data[i] += 1;
      asm volatile("" : : "r"(data.data()) : "memory");                // the writes happen
      const auto moved = static_cast<std::int64_t>((to - from) * 16);  // read, and written back
      streamed_.fetch_add(moved, std::memory_order_relaxed);
      pace.moved(moved);
    }
  }
}

void GlobalLoad::write() noexcept {
  const auto bytes = portion(plan_.disk_bytes_per_s, 0.01, 4096, 1'048'576);
  Pace pace(plan_.disk_bytes_per_s);
  while (!stopping_.load(std::memory_order_relaxed)) {
    try {
      const IoResult done = run_io({.path = plan_.disk_path,
                                    .write_bytes = bytes,
                                    .block_bytes = std::min<std::int64_t>(bytes, 65'536),
                                    .fsync_every = (bytes + 65'535) / 65'536});
      written_.fetch_add(done.written_bytes, std::memory_order_relaxed);
      pace.moved(done.written_bytes);
    } catch (const std::exception& error) {
      disk_error_ = error.what();
      return;
    }
  }
}

}  // namespace latlab::stubs
