#include "system/perf_trace.hpp"

#include <fcntl.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <mutex>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>

#include "system/drainer.hpp"

namespace latlab::system {
namespace {

constexpr std::uint64_t kFormatLost = 1U << 4U;  // PERF_FORMAT_LOST, Linux 6.0; older headers lack the name

constexpr unsigned kGone = unsigned{POLLHUP} + unsigned{POLLERR};
constexpr std::uint64_t kSampleType = std::uint64_t{PERF_SAMPLE_IDENTIFIER} + PERF_SAMPLE_TID +
                                      PERF_SAMPLE_TIME + PERF_SAMPLE_CPU + PERF_SAMPLE_PERIOD +
                                      PERF_SAMPLE_RAW;

struct Ring {
  int leader = -1;
  int cpu = 0;
  std::uint8_t* base = nullptr;
  std::size_t bytes = 0;  // of data, without the control page

  perf_event_mmap_page* control() const { return reinterpret_cast<perf_event_mmap_page*>(base); }
};

int open_event(perf_event_attr& attributes, pid_t pid, int cpu) {
  return static_cast<int>(syscall(SYS_perf_event_open, &attributes, pid, cpu, -1,
                                  static_cast<unsigned long>(PERF_FLAG_FD_CLOEXEC)));
}

perf_event_attr attributes_of(const TraceRequest& request, std::uint64_t id) {
  perf_event_attr attributes{};
  attributes.size = sizeof(attributes);
  attributes.type = PERF_TYPE_TRACEPOINT;
  attributes.config = id;
  attributes.sample_period = 1;
  attributes.sample_type = kSampleType;
  attributes.read_format = PERF_FORMAT_ID | kFormatLost;
  attributes.disabled = 1;
  attributes.inherit = request.inherit ? 1 : 0;
  attributes.use_clockid = 1;
  attributes.clockid = CLOCK_MONOTONIC;
  attributes.watermark = 1;
  attributes.wakeup_watermark = static_cast<std::uint32_t>(request.ring_bytes / 2);
  return attributes;
}

[[noreturn]] void fail(int error, const std::string& what) {
  throw std::system_error(error, std::generic_category(), what);
}

void copy_out(const std::uint8_t* data, std::size_t size, std::uint64_t at, void* to, std::size_t count) {
  const std::size_t offset = at & (size - 1);
  const std::size_t first = std::min(count, size - offset);
  std::memcpy(to, data + offset, first);
  std::memcpy(static_cast<std::uint8_t*>(to) + first, data, count - first);
}

}  // namespace

std::uint64_t read_ring(const std::uint8_t* data, std::size_t size, std::uint64_t tail, std::uint64_t head,
                        std::vector<std::uint8_t>& samples, std::uint64_t& lost) {
  while (head - tail >= sizeof(perf_event_header)) {
    perf_event_header header;
    copy_out(data, size, tail, &header, sizeof(header));
    if (header.size < sizeof(header) || header.size > head - tail) return head;
    const std::size_t body = header.size - sizeof(header);
    if (header.type == PERF_RECORD_SAMPLE && body >= kSampleHeadBytes) {
      const std::uint64_t length = body;
      const std::size_t at = samples.size();
      samples.resize(at + sizeof(length) + ((body + 7) & ~std::size_t{7}));
      std::memcpy(&samples[at], &length, sizeof(length));
      copy_out(data, size, tail + sizeof(header), &samples[at + sizeof(length)], body);
    } else if (header.type == PERF_RECORD_LOST && body >= 16) {
      std::uint64_t values[2];  // id, lost
      copy_out(data, size, tail + sizeof(header), values, sizeof(values));
      lost += values[1];
    }
    tail += header.size;
  }
  return tail;
}

struct PerfTrace::State {
  std::vector<Ring> rings;
  std::vector<int> descriptors;
  std::unordered_map<std::uint64_t, std::size_t> event_of;  // kernel's event id -> index in the request
  std::size_t events = 0;
  bool kernel_counts_lost = true;
  std::mutex lock;
  std::vector<std::vector<std::uint8_t>> drained;
  std::uint64_t lost_records = 0;
  std::thread drainer;
  int wake = -1;
  std::atomic<bool> running{false};

  ~State() {
    for (const Ring& ring : rings)
      if (ring.base != nullptr)
        munmap(ring.base, ring.bytes + static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
    for (const int descriptor : descriptors) close(descriptor);
    if (wake >= 0) close(wake);
  }

  void drain() {
    const std::scoped_lock held(lock);
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    std::vector<std::uint8_t> samples;
    for (const Ring& ring : rings) {
      perf_event_mmap_page* control = ring.control();
      // Acquire: the records that the head covers were written before it.
      const std::uint64_t head = __atomic_load_n(&control->data_head, __ATOMIC_ACQUIRE);
      const std::uint64_t tail =
          read_ring(ring.base + page, ring.bytes, control->data_tail, head, samples, lost_records);
      // Release: our reads are done before the kernel may write there again.
      __atomic_store_n(&control->data_tail, tail, __ATOMIC_RELEASE);
    }
    if (!samples.empty()) drained.push_back(std::move(samples));
  }

  void drain_until_stopped() {
    prctl(PR_SET_NAME, "latlab-drain");
    std::vector<pollfd> waiting;
    waiting.push_back({.fd = wake, .events = POLLIN, .revents = 0});
    for (const Ring& ring : rings) waiting.push_back({.fd = ring.leader, .events = POLLIN, .revents = 0});
    while (running.load(std::memory_order_acquire)) {  // acquire: pairs with stop()
      if (poll(waiting.data(), waiting.size(), -1) < 0 && errno != EINTR) return;
      // A task that has ended hangs up for ever, and would make poll spin; stop() drains what its ring holds.
      for (pollfd& one : waiting)
        if ((static_cast<unsigned>(one.revents) & kGone) != 0) one.fd = -1;
      drain();
    }
  }

  void every_descriptor(unsigned long request, const char* what) const {
    for (const int descriptor : descriptors)
      if (ioctl(descriptor, request, 0) != 0) fail(errno, what);
  }
};

PerfTrace::PerfTrace(const TraceRequest& request) : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.events = request.event_ids.size();
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  if (request.ring_bytes < page || (request.ring_bytes & (request.ring_bytes - 1)) != 0)
    throw std::invalid_argument("ring_bytes must be a power of two of at least a page");
  for (const int cpu : request.cpus) {
    Ring ring{.leader = -1, .cpu = cpu, .base = nullptr, .bytes = request.ring_bytes};
    for (std::size_t i = 0; i < request.event_ids.size(); ++i) {
      perf_event_attr attributes = attributes_of(request, request.event_ids[i]);
      if (!state.kernel_counts_lost) attributes.read_format = PERF_FORMAT_ID;
      int descriptor = open_event(attributes, request.pid, cpu);
      if (descriptor < 0 && errno == EINVAL && state.kernel_counts_lost) {
        attributes.read_format = PERF_FORMAT_ID;
        descriptor = open_event(attributes, request.pid, cpu);
        if (descriptor >= 0) state.kernel_counts_lost = false;
      }
      const std::string where = "event " + std::to_string(i) + " on CPU " + std::to_string(cpu);
      if (descriptor < 0) fail(errno, where);
      state.descriptors.push_back(descriptor);
      std::uint64_t id = 0;
      if (ioctl(descriptor, PERF_EVENT_IOC_ID, &id) != 0) fail(errno, where);
      state.event_of[id] = i;
      if (i < request.filters.size() && !request.filters[i].empty() &&
          ioctl(descriptor, PERF_EVENT_IOC_SET_FILTER, request.filters[i].c_str()) != 0)
        fail(errno, where + ", filter " + request.filters[i]);
      if (ring.leader < 0) {
        ring.leader = descriptor;
        void* base =
            mmap(nullptr, page + request.ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
        if (base == MAP_FAILED) fail(errno, "the ring of CPU " + std::to_string(cpu));
        ring.base = static_cast<std::uint8_t*>(base);
        state.rings.push_back(ring);
      } else if (ioctl(descriptor, PERF_EVENT_IOC_SET_OUTPUT, ring.leader) != 0) {
        fail(errno, where);
      }
    }
  }
  state.wake = wake_descriptor();
}

PerfTrace::~PerfTrace() {
  stop_at_last(*this, state_->drainer);
}

void PerfTrace::start() {
  if (state_->running.exchange(true)) return;
  state_->drainer = std::thread([state = state_.get()] { state->drain_until_stopped(); });
  state_->every_descriptor(PERF_EVENT_IOC_ENABLE, "enabling the tracepoints");
}

void PerfTrace::stop() {
  State& state = *state_;
  if (!state.running.exchange(false)) return;
  wake(state.wake);
  state.drainer.join();
  state.every_descriptor(PERF_EVENT_IOC_DISABLE, "disabling the tracepoints");
  state.drain();
  std::uint64_t count = 0;
  while (read(state.wake, &count, sizeof(count)) < 0 && errno == EINTR) {
  }
}

std::uint64_t PerfTrace::lost() {
  State& state = *state_;
  std::uint64_t recorded = 0;
  {
    const std::scoped_lock held(state.lock);
    recorded = state.lost_records;
  }
  if (!state.kernel_counts_lost) return recorded;
  std::uint64_t sum = 0;
  for (const int descriptor : state.descriptors) {
    std::uint64_t values[3] = {};  // value, id, lost
    if (read(descriptor, values, sizeof(values)) == static_cast<ssize_t>(sizeof(values))) sum += values[2];
  }
  return std::max(sum, recorded);
}

std::vector<TraceSamples> PerfTrace::take() {
  State& state = *state_;
  state.drain();
  std::vector<std::vector<std::uint8_t>> chunks;
  {
    const std::scoped_lock held(state.lock);
    chunks.swap(state.drained);
  }
  std::vector<TraceSamples> out(state.events);
  const auto each = [&](const auto& visit) {
    for (const auto& chunk : chunks) {
      for (std::size_t at = 0; at < chunk.size();) {
        std::uint64_t length = 0;
        std::memcpy(&length, &chunk[at], sizeof(length));
        const std::uint8_t* body = &chunk[at + sizeof(length)];
        SampleHead head{};
        std::memcpy(&head, body, kSampleHeadBytes);
        const std::size_t room = length - kSampleHeadBytes;
        const auto event = state.event_of.find(head.id);
        if (event != state.event_of.end())
          visit(out[event->second], head, body + kSampleHeadBytes,
                std::min<std::size_t>(head.raw_bytes, room));
        at += sizeof(length) + ((length + 7) & ~std::uint64_t{7});
      }
    }
  };
  std::vector<std::size_t> counts(state.events);
  each([&](TraceSamples& samples, const SampleHead&, const std::uint8_t*, std::size_t raw) {
    samples.stride = std::max(samples.stride, raw);
    ++counts[static_cast<std::size_t>(&samples - out.data())];
  });
  for (std::size_t i = 0; i < out.size(); ++i) {
    TraceSamples& samples = out[i];
    samples.time_ns.reserve(counts[i]);
    samples.raw.resize(counts[i] * samples.stride);
  }
  each([&](TraceSamples& samples, const SampleHead& head, const std::uint8_t* raw, std::size_t bytes) {
    if (bytes > 0) std::memcpy(&samples.raw[samples.time_ns.size() * samples.stride], raw, bytes);
    samples.time_ns.push_back(head.time_ns);
    samples.cpu.push_back(static_cast<std::int32_t>(head.cpu));
    samples.pid.push_back(static_cast<std::int32_t>(head.pid));
    samples.tid.push_back(static_cast<std::int32_t>(head.tid));
    samples.raw_bytes.push_back(static_cast<std::uint32_t>(bytes));
  });
  return out;
}

}  // namespace latlab::system
