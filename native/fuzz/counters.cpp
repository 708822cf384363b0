// A fuzzer of the reader of counter files: whatever lies in one, and whenever it is cut, is a state.
//
// The input is the file. Its last byte says whether and where it is cut short while it is read.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <latlab/counter_reader.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "standalone.hpp"

namespace {

using namespace latlab;

// Of a file that this process alone can open, in a folder of its own.
class Scratch {
 public:
  Scratch() {
    if (::mkdtemp(folder_.data()) == nullptr) std::abort();
    path_ = std::string(folder_.data()) + "/a.counters";
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    ::unlink(path_.c_str());
    ::rmdir(folder_.data());
  }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  void write(const std::uint8_t* data, std::size_t size) const {
    const int fd = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || ::write(fd, data, size) != static_cast<ssize_t>(size)) std::abort();
    ::close(fd);
  }

 private:
  std::array<char, 32> folder_{"/tmp/latlab-fuzz-XXXXXX"};
  std::string path_;
};

void read_all(const CounterReader& reader) {
  if (!reader.readable()) return;
  (void)reader.alive();
  (void)reader.header().application.load();
  for (std::uint32_t slot = 0; slot < reader.queue_count(); ++slot) {
    QueueView view;
    if (reader.describe(slot, view) && view.name.size() > 48) std::abort();
    const QueueHot& hot = reader.counts(slot);
    const QueueCounts counts = read_counts(hot.producer, hot.consumer, 3);
    if (counts.fill_low() > counts.fill_high()) std::abort();
  }
  for (std::uint32_t slot = 0; slot < reader.stage_count(); ++slot) {
    StageView view;
    StageTimes times;
    if (reader.describe(slot, view) && view.name.size() > 48) std::abort();
    (void)reader.read_times(slot, times);
  }
}

}  // namespace

latlab::fuzz::Input latlab::fuzz::valid_input() {
  constexpr std::uint32_t kSlots = 8;
  const std::size_t stages = sizeof(FileHeader) + kSlots * sizeof(QueueDescriptor);
  const std::size_t queue_hot = stages + kSlots * sizeof(StageDescriptor);
  const std::size_t stage_hot = queue_hot + kSlots * sizeof(QueueHot);
  Input file(stage_hot + kSlots * sizeof(StageHot));
  const auto put = [&file](std::size_t at, auto value) {
    std::memcpy(file.data() + at, &value, sizeof value);
  };
  put(offsetof(FileHeader, magic), kCounterMagic);
  put(offsetof(FileHeader, version), kCounterVersion);
  put(offsetof(FileHeader, header_bytes), std::uint32_t{sizeof(FileHeader)});
  put(offsetof(FileHeader, queue_capacity), kSlots);
  put(offsetof(FileHeader, stage_capacity), kSlots);
  put(offsetof(FileHeader, queue_descriptor_bytes), std::uint32_t{sizeof(QueueDescriptor)});
  put(offsetof(FileHeader, stage_descriptor_bytes), std::uint32_t{sizeof(StageDescriptor)});
  put(offsetof(FileHeader, queue_hot_bytes), std::uint32_t{sizeof(QueueHot)});
  put(offsetof(FileHeader, stage_hot_bytes), std::uint32_t{sizeof(StageHot)});
  put(offsetof(FileHeader, queue_descriptor_offset), std::uint64_t{sizeof(FileHeader)});
  put(offsetof(FileHeader, stage_descriptor_offset), std::uint64_t{stages});
  put(offsetof(FileHeader, queue_hot_offset), std::uint64_t{queue_hot});
  put(offsetof(FileHeader, stage_hot_offset), std::uint64_t{stage_hot});
  put(offsetof(FileHeader, file_bytes), std::uint64_t{file.size()});
  put(offsetof(FileHeader, pid), static_cast<std::uint32_t>(::getpid()));
  put(offsetof(FileHeader, process_start), detail::process_start(::getpid()));
  put(offsetof(FileHeader, boot_id), detail::boot_id());
  put(offsetof(FileHeader, queue_count), kSlots);
  put(offsetof(FileHeader, stage_count), kSlots);
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
    const std::size_t at = sizeof(FileHeader) + slot * sizeof(QueueDescriptor);
    put(at + offsetof(QueueDescriptor, state), static_cast<std::uint32_t>(SlotState::live));
    std::memset(file.data() + at + offsetof(QueueDescriptor, name), 'q', 40);
  }
  return file;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Scratch scratch;
  scratch.write(data, size);
  {
    const CounterReader reader(scratch.path());
    read_all(reader);
    if (size > 0 && data[size - 1] != 0) {
      if (::truncate(scratch.path().c_str(), static_cast<off_t>(data[size - 1] * size / 256)) != 0)
        std::abort();
      read_all(reader);
    }
  }
  return 0;
}
