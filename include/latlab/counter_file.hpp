// Threads: everything public may be called from any thread at any time; claiming a slot takes a spin lock: it
// is start-up work.
//
// The counter file of this process: made, locked, grown, copied at fork and removed at exit. `counters.hpp`
// registers queues and stages in it. Where no file can be made (no shared memory, a full one, somebody else's
// folder) one line on stderr says why; the counts live in private memory then, and all goes on as before.
// LATLAB_COUNTERS=off asks for that, without a line.
//
// Over 400 lines: one file's life, whose steps must agree on what a killed process may leave.
#pragma once

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "clock.hpp"
#include "counter_layout.hpp"

namespace latlab {

// The folder of this user's counter files: $LATLAB_COUNTERS, or /dev/shm/latlab-UID.
inline std::string counter_folder() {
  const char* chosen = ::secure_getenv("LATLAB_COUNTERS");  // not what the caller of a setuid program says
  if (chosen != nullptr && *chosen != '\0') return chosen;
  return "/dev/shm/latlab-" + std::to_string(::geteuid());
}

namespace detail {

inline std::uint64_t process_start(pid_t pid) {
  char path[48];
  std::snprintf(path, sizeof path, "/proc/%d/stat", static_cast<int>(pid));
  std::FILE* file = std::fopen(path, "re");
  if (file == nullptr) return 0;
  char text[1024];
  const std::size_t size = std::fread(text, 1, sizeof text - 1, file);
  std::fclose(file);
  text[size] = '\0';
  // The name (field 2) may hold anything, so fields are counted from its closing parenthesis.
  const char* at = std::strrchr(text, ')');
  for (int field = 2; at != nullptr && field < 22; ++field) at = std::strchr(at + 1, ' ');
  return at == nullptr ? 0 : std::strtoull(at + 1, nullptr, 10);
}

inline std::array<std::uint8_t, 16> boot_id() {
  std::array<std::uint8_t, 16> id{};
  std::FILE* file = std::fopen("/proc/sys/kernel/random/boot_id", "re");
  if (file == nullptr) return id;
  char text[40] = {};
  const std::size_t size = std::fread(text, 1, sizeof text - 1, file);
  std::fclose(file);
  std::size_t nibble = 0;
  for (std::size_t i = 0; i < size && nibble < 32; ++i) {
    const char c = text[i];
    int value = -1;
    if (c >= '0' && c <= '9') value = c - '0';
    if (c >= 'a' && c <= 'f') value = c - 'a' + 10;
    if (value < 0) continue;
    id[nibble / 2] = static_cast<std::uint8_t>(id[nibble / 2] * 16 + value);
    ++nibble;
  }
  return id;
}

inline std::string application_name() {
  char text[64] = {};
  std::FILE* file = std::fopen("/proc/self/comm", "re");
  if (file == nullptr) return {};
  const std::size_t size = std::fread(text, 1, sizeof text - 1, file);
  std::fclose(file);
  return {text, size > 0 && text[size - 1] == '\n' ? size - 1 : size};
}

// Of the calling thread; 0 until it is asked for, and again in the child of a fork.
inline std::uint32_t& known_thread_id() noexcept {
  static thread_local std::uint32_t id = 0;
  return id;
}

inline std::uint32_t thread_id() noexcept {
  std::uint32_t& id = known_thread_id();
  if (id == 0) id = static_cast<std::uint32_t>(::gettid());
  return id;
}

class SpinLock {
 public:
  void lock() noexcept {
    while (flag_.test_and_set(std::memory_order_acquire)) ::usleep(1);
  }
  void unlock() noexcept { flag_.clear(std::memory_order_release); }

 private:
  std::atomic_flag flag_ = ATOMIC_FLAG_INIT;
};

// The header's part that says where everything lies: hot lines behind descriptors, queues before stages.
struct CounterPlaces {
  std::uint64_t queue_descriptors;
  std::uint64_t stage_descriptors;
  std::uint64_t queue_hot;
  std::uint64_t stage_hot;
  std::uint64_t bytes;
};

inline void lay_out(FileHeader& head, std::uint32_t queues, std::uint32_t stages,
                    const CounterPlaces& places) {
  head.version = kCounterVersion;
  head.header_bytes = sizeof(FileHeader);
  head.queue_capacity = queues;
  head.stage_capacity = stages;
  head.queue_descriptor_bytes = sizeof(QueueDescriptor);
  head.stage_descriptor_bytes = sizeof(StageDescriptor);
  head.queue_hot_bytes = sizeof(QueueHot);
  head.stage_hot_bytes = sizeof(StageHot);
  head.queue_descriptor_offset = places.queue_descriptors;
  head.stage_descriptor_offset = places.stage_descriptors;
  head.queue_hot_offset = places.queue_hot;
  head.stage_hot_offset = places.stage_hot;
  head.file_bytes = places.bytes;
}

}  // namespace detail

struct QueueInfo;
struct StageInfo;
class QueueSlot;
class StageSlot;
namespace detail {
template <class Descriptor, class Hot>
class Slot;
}

// Default visibility, so that every shared object of a process shares one file; where a process ends up with
// several all the same, each has a number of its own and a reader joins them by process.
class __attribute__((visibility("default"))) CounterFile {
 public:
  static constexpr std::uint32_t kQueues = 16384;
  static constexpr std::uint32_t kStages = 2048;

  // The process's own, made at first use and never destroyed: queues of static lifetime may outlive main.
  static CounterFile& process() {
    static CounterFile* const file = new CounterFile();
    return *file;
  }

  CounterFile(const CounterFile&) = delete;
  CounterFile& operator=(const CounterFile&) = delete;

  [[nodiscard]] bool published() const noexcept { return fd_ >= 0; }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] const std::string& reason() const noexcept { return reason_; }  // why it is not published

  void set_application(std::string_view name) noexcept { header().application.store(name); }

  // Start-up and shutdown are marked, so that an analysis can leave them out.
  // Which threads use a queue is noted anew from `running` on: who sets things up is not who runs them.
  void set_phase(Phase phase) noexcept {
    header().phase.store(static_cast<std::uint32_t>(phase), std::memory_order_release);
    if (phase == Phase::running) forget_threads();
  }

  QueueSlot add_queue(const QueueInfo& info);
  StageSlot add_stage(const StageInfo& info);

 private:
  friend class QueueSlot;
  friend class StageSlot;
  template <class Descriptor, class Hot>
  friend class detail::Slot;

  static constexpr std::size_t kQueueDescriptors = sizeof(FileHeader);
  static constexpr std::size_t kStageDescriptors = kQueueDescriptors + kQueues * sizeof(QueueDescriptor);
  static constexpr std::size_t kQueueHot = kStageDescriptors + kStages * sizeof(StageDescriptor);
  static constexpr std::size_t kStageHot = kQueueHot + kQueues * sizeof(QueueHot);
  static constexpr std::size_t kBytes = kStageHot + kStages * sizeof(StageHot);

  CounterFile() {
    base_ = static_cast<std::byte*>(make_file());
    if (base_ == nullptr) base_ = static_cast<std::byte*>(make_private());
    fill_header();
    instance() = this;
    pthread_atfork([] { instance()->lock_.lock(); }, [] { instance()->lock_.unlock(); },
                   [] { instance()->after_fork(); });
    std::atexit([] { instance()->at_exit(); });
  }

  static CounterFile*& instance() {
    static CounterFile* one = nullptr;
    return one;
  }

  template <class T>
  T* at(std::size_t offset) noexcept {
    return std::launder(reinterpret_cast<T*>(base_ + offset));
  }
  FileHeader& header() noexcept { return *at<FileHeader>(0); }
  QueueDescriptor* queues() noexcept { return at<QueueDescriptor>(kQueueDescriptors); }
  StageDescriptor* stages() noexcept { return at<StageDescriptor>(kStageDescriptors); }
  QueueHot* queue_hot() noexcept { return at<QueueHot>(kQueueHot); }
  StageHot* stage_hot() noexcept { return at<StageHot>(kStageHot); }

  void forget_threads() noexcept {
    const std::uint32_t count = header().queue_count.load(std::memory_order_acquire);
    for (std::uint32_t i = 0; i < count; ++i) {
      queue_hot()[i].producer.tid.store(0, std::memory_order_relaxed);
      queue_hot()[i].consumer.tid.store(0, std::memory_order_relaxed);
    }
  }

  static void* make_private() {
    void* memory =
        ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    return memory;
  }

  // Makes the file and maps it, at `where` if that is not null. nullptr, and a reason, where that can't be.
  void* make_file(void* where = nullptr) {
    const std::string folder = counter_folder();
    if (folder == "off") return fail("LATLAB_COUNTERS=off");
    if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return fail(folder + ": can't be made");
    // No link is followed, so that nobody leads this process's counts elsewhere.
    const int at = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat status{};
    if (at < 0 || ::fstat(at, &status) != 0 || status.st_uid != ::geteuid() || (status.st_mode & 077U) != 0) {
      const bool other = at >= 0 && status.st_uid != ::geteuid();
      if (at >= 0) ::close(at);
      std::string why = folder;
      why += other ? ": belongs to user " : ": not a folder of this user's alone (mode 0700)";
      if (other) why.append(std::to_string(status.st_uid)).append("; name another folder by LATLAB_COUNTERS");
      return fail(std::move(why));
    }
    pid_ = ::getpid();
    start_ = detail::process_start(pid_);
    for (number_ = 0; number_ < 64; ++number_) {
      const std::string name =
          std::to_string(pid_) + '-' + std::to_string(start_) + '-' + std::to_string(number_) + ".counters";
      path_ = folder;
      path_.append("/").append(name);
      fd_ = ::openat(at, name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
      if (fd_ >= 0 || errno != EEXIST) break;
    }
    ::close(at);
    if (fd_ < 0) return fail(path_ + ": can't be made");
    // The lock tells an observer that this process still runs this program: it goes at exit and at exec.
    // It waits at most for an observer that looks whether it is held, which takes a microsecond.
    if (::flock(fd_, LOCK_EX) != 0 || ::ftruncate(fd_, kBytes) != 0 || !reserve(0, sizeof(FileHeader))) {
      ::unlink(path_.c_str());
      ::close(std::exchange(fd_, -1));
      return fail(folder + ": no room");
    }
    void* memory = ::mmap(where, kBytes, PROT_READ | PROT_WRITE,
                          MAP_SHARED | (where != nullptr ? MAP_FIXED : 0), fd_, 0);
    if (memory == MAP_FAILED) {
      ::unlink(path_.c_str());
      ::close(std::exchange(fd_, -1));
      return fail(path_ + ": can't be mapped");
    }
    return memory;
  }

  // Says why on stderr, once in a process and its forks: an observer that finds nothing can't say it.
  void* fail(std::string reason) {
    reason_ = std::move(reason);
    if (!std::exchange(said_, true) && reason_ != "LATLAB_COUNTERS=off") {
      std::fprintf(stderr, "latlab: this program's queues are not published: %s\n", reason_.c_str());
    }
    path_.clear();
    fd_ = -1;
    return nullptr;
  }

  // Backs a range of the sparse file with memory now: a page that shared memory has no room for later would
  // be a SIGBUS in the application.
  [[nodiscard]] bool reserve(std::size_t offset, std::size_t bytes) const noexcept {
    return fd_ < 0 || bytes == 0 ||
           ::posix_fallocate(fd_, static_cast<off_t>(offset), static_cast<off_t>(bytes)) == 0;
  }

  void fill_header() {
    FileHeader& head = header();
    const ClockReference now = clock_reference();
    detail::lay_out(head, kQueues, kStages,
                    {kQueueDescriptors, kStageDescriptors, kQueueHot, kStageHot, kBytes});
    head.pid = static_cast<std::uint32_t>(::getpid());
    head.file_number = static_cast<std::uint32_t>(number_);
    head.process_start = start_;
    head.boot_id = detail::boot_id();
    head.clock_ticks = now.ticks;
    head.clock_ns = now.ns;
    head.clock_hz = nominal_hz(now);
    if (head.application.load().empty()) head.application.store(detail::application_name());
    head.magic.store(kCounterMagic, std::memory_order_release);
  }

  // Good to 1e-4 over the millisecond that it takes once a process: for a first view. Whoever records
  // measures the rate over the recording.
  static std::uint64_t nominal_hz(const ClockReference& from) {
    ::usleep(1000);
    return static_cast<std::uint64_t>(ticks_hz(from, clock_reference()));
  }

  // The child of a fork has the parent's queues as copies. It gets a file of its own at the same address,
  // with the counts as they stood, so that no pointer moves and the parent's file never sees the child's
  // events.
  void after_fork() {
    lock_.unlock();
    const std::uint32_t queue_count = header().queue_count.load(std::memory_order_relaxed);
    const std::uint32_t stage_count = header().stage_count.load(std::memory_order_relaxed);
    void* copy =
        ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (copy == MAP_FAILED) std::abort();  // counting into the parent's file would be worse
    auto* to = static_cast<std::byte*>(copy);
    const auto each_used = [&](auto&& apply) {
      apply(0, sizeof(FileHeader));
      apply(kQueueDescriptors, queue_count * sizeof(QueueDescriptor));
      apply(kStageDescriptors, stage_count * sizeof(StageDescriptor));
      apply(kQueueHot, queue_count * sizeof(QueueHot));
      apply(kStageHot, stage_count * sizeof(StageHot));
    };
    each_used(
        [&](std::size_t offset, std::size_t bytes) { std::memcpy(to + offset, base_ + offset, bytes); });
    if (fd_ >= 0)
      ::close(fd_);  // the parent's lock stays: it belongs to the open file, which the parent holds
    fd_ = -1;
    bool reserved = make_file(base_) != nullptr;
    if (reserved)
      each_used(
          [&](std::size_t offset, std::size_t bytes) { reserved = reserved && reserve(offset, bytes); });
    if (!reserved) {
      if (fd_ >= 0) {
        ::unlink(path_.c_str());
        ::close(fd_);
        fail("no room for a copy after fork");
      }
      ::mremap(copy, kBytes, kBytes, MREMAP_MAYMOVE | MREMAP_FIXED, base_);
    } else {
      each_used([&](std::size_t offset, std::size_t bytes) {
        // The magic comes last, in fill_header.
        const std::size_t skip = offset == 0 ? sizeof(std::uint64_t) : 0;
        if (bytes > skip) std::memcpy(base_ + offset + skip, to + offset + skip, bytes - skip);
      });
      ::munmap(copy, kBytes);
    }
    reserved_queues_ = queue_count;
    reserved_stages_ = stage_count;
    detail::known_thread_id() = 0;  // the parent's threads are not ours
    forget_threads();
    // A side of a queue between processes was the parent's; the child's copy must not be taken for a second.
    for (std::uint32_t i = 0; i < queue_count; ++i) {
      if (queues()[i].identity.load(std::memory_order_relaxed) == 0) continue;
      queues()[i].state.store(static_cast<std::uint32_t>(SlotState::retired), std::memory_order_release);
    }
    fill_header();
  }

  void at_exit() noexcept {
    set_phase(Phase::ended);
    if (fd_ >= 0 && pid_ == ::getpid()) ::unlink(path_.c_str());  // who has it mapped goes on reading
  }

  // The slot that comes next, backed by memory: one that was never used if there is one, so that a late
  // reader still finds what retired ones counted. kNone where there is none, or no memory for it.
  static constexpr std::uint32_t kNone = ~0U;
  template <class Descriptor, class Hot>
  std::uint32_t claim(std::uint32_t used, std::uint32_t capacity, std::uint32_t& reserved) noexcept {
    auto* const descriptors = at<Descriptor>(offset_of<Descriptor>());
    if (used >= capacity) {
      for (std::uint32_t i = 0; i < capacity; ++i) {
        if (descriptors[i].state.load(std::memory_order_relaxed) ==
            static_cast<std::uint32_t>(SlotState::retired))
          return i;
      }
      return kNone;
    }
    if (used < reserved) return used;
    // In strides, since each reservation is a system call.
    const std::uint32_t upto = std::min(capacity, (used / 32 + 1) * 32);
    const std::uint32_t count = upto - used;
    if (!reserve(offset_of<Descriptor>() + used * sizeof(Descriptor), count * sizeof(Descriptor)) ||
        !reserve(offset_of<Hot>() + used * sizeof(Hot), count * sizeof(Hot))) {
      return kNone;
    }
    reserved = upto;
    return used;
  }

  template <class T>
  static constexpr std::size_t offset_of() noexcept {
    if constexpr (std::is_same_v<T, QueueDescriptor>) return kQueueDescriptors;
    if constexpr (std::is_same_v<T, StageDescriptor>) return kStageDescriptors;
    if constexpr (std::is_same_v<T, QueueHot>) return kQueueHot;
    if constexpr (std::is_same_v<T, StageHot>) return kStageHot;
  }

  // Holds the registration lock; the topology's version is odd for as long, so that an observer that read the
  // same even version before and after its sweep knows that no slot has changed hands meanwhile.
  class Change {
   public:
    explicit Change(CounterFile& file) noexcept : file_(file) {
      file_.lock_.lock();
      file_.header().topology_version.fetch_add(1, std::memory_order_acq_rel);
    }
    Change(const Change&) = delete;
    Change& operator=(const Change&) = delete;
    ~Change() {
      file_.header().topology_version.fetch_add(1, std::memory_order_release);
      file_.lock_.unlock();
    }

   private:
    CounterFile& file_;
  };

  std::byte* base_ = nullptr;
  int fd_ = -1;
  pid_t pid_ = 0;
  int number_ = 0;
  std::uint64_t start_ = 0;
  std::uint32_t reserved_queues_ = 0;
  std::uint32_t reserved_stages_ = 0;
  std::string path_;
  std::string reason_;
  bool said_ = false;
  detail::SpinLock lock_;
};

}  // namespace latlab
