// Over 400 lines: one ring of samples from its opening to its last, read without allocation.
#include "system/stack_sampler.hpp"

#include <linux/perf_event.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <latlab/clock.hpp>
#include <mutex>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "system/drainer.hpp"
#include "system/process_log.hpp"
#include "system/stack_events.hpp"
#include "system/switch_gate.hpp"

namespace latlab::system {
namespace {

constexpr std::uint64_t kGap = 20'000'000;  // between two samples of one thread where it blocks
constexpr std::uint64_t kLongestGap = 2'000'000'000;
constexpr int kDrainMs = 50;
// An event of a switch costs some two microseconds even where the gate lets no sample pass: of a busier CPU
// only every n-th switch is one. Primes, so that threads that take turns are not always met at the same one.
constexpr double kMostSwitchesHz = 6000.0;
constexpr std::array<std::uint64_t, 12> kPeriods = {1, 3, 5, 7, 11, 17, 23, 37, 53, 79, 113, 167};

struct Ring {
  int descriptor = -1;  // of the CPU's clock
  int switches = -1;
  int output = -1;  // to take the place of `switches`
  int cpu = -1;
  std::uint64_t clock_id = 0, switches_id = 0;
  std::uint8_t* base = nullptr;
  std::uint64_t side_tail = 0;            // up to where forks, execs and maps were read
  std::uint64_t counted = 0, period = 1;  // switches so far; of how many one is an event
  unsigned turn = 0;
};

std::size_t page_bytes() {
  return static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

void copy_out(const std::uint8_t* data, std::size_t size, std::uint64_t from, void* to, std::size_t count) {
  const std::size_t offset = from & (size - 1);
  const std::size_t first = std::min(count, size - offset);
  std::memcpy(to, data + offset, first);
  std::memcpy(static_cast<std::uint8_t*>(to) + first, data, count - first);
}

// What is kept of a sample, in the arena; the stack follows, and the next one begins at a multiple of 8.
struct Kept {
  std::uint64_t time_ns;
  std::int32_t pid, tid;
  std::uint32_t stack_bytes;
  std::uint32_t running;
  std::uint64_t registers[kStackRegisters == 0 ? 1 : kStackRegisters];

  std::size_t whole() const { return sizeof(Kept) + ((stack_bytes + 7U) & ~7U); }
};

}  // namespace

struct StackSampler::State {
  StackRequest request;
  std::vector<Ring> rings;
  SwitchGate gate;
  bool is_shared = false;  // a program on the scheduler's tracepoint says which switch is sampled
  std::unordered_set<pid_t> strangers;  // that the gate was told of
  std::uint64_t gap_ns = kGap;
  std::mutex lock;
  std::uint8_t* arena = nullptr;
  std::size_t used = 0;
  std::uint32_t stride = 1;
  std::unordered_map<std::int32_t, std::uint32_t> seen;  // samples of a thread since the arena was thinned
  ProcessLog processes{[this](pid_t pid) { no_stranger(pid); }};
  std::uint64_t lost = 0, switches_taken = 0;
  std::vector<std::uint8_t> record;
  std::thread drainer;
  int wake = -1;
  std::atomic<bool> running{false};

  ~State() {
    for (const Ring& ring : rings) {
      if (ring.base != nullptr) munmap(ring.base, page_bytes() + request.ring_bytes);
      if (ring.switches >= 0) close(ring.switches);
      if (ring.output >= 0) close(ring.output);
      if (ring.descriptor >= 0) close(ring.descriptor);
    }
    if (wake >= 0) close(wake);
    if (arena != nullptr) munmap(arena, request.arena_bytes);
  }

  void no_stranger(pid_t pid) {
    if (strangers.erase(pid) > 0) gate.set_stranger(static_cast<std::uint32_t>(pid), false);
  }

  // Half of the samples of each thread go; the first one stays.
  void thin() {
    std::unordered_map<std::int32_t, std::uint32_t> count;
    std::size_t to = 0;
    for (std::size_t from = 0; from < used;) {
      const std::size_t whole = at<Kept>(arena, from).whole();
      if (count[at<Kept>(arena, from).tid]++ % 2 == 0) {
        std::memmove(arena + to, arena + from, whole);
        to += whole;
      }
      from += whole;
    }
    used = to;
    stride *= 2;
    seen.clear();
  }

  void sample(const Ring& ring, const std::uint8_t* body, std::size_t bytes) {
    // id, pid, tid, time, abi, registers, stack size, stack, bytes copied
    constexpr std::size_t kRegisters = 32;
    if (bytes < kRegisters) return;
    const auto id = at<std::uint64_t>(body, 0);
    const auto pid = at<std::int32_t>(body, 8);
    const auto tid = at<std::int32_t>(body, 12);
    if (!processes.tracks(pid)) {
      // Once: many of its samples are under way, and each call may cost the kernel some of our events.
      if (strangers.insert(pid).second) gate.set_stranger(static_cast<std::uint32_t>(pid), true);
      return;
    }
    if (id == ring.switches_id) ++switches_taken;
    if (at<std::uint64_t>(body, 24) != PERF_SAMPLE_REGS_ABI_64) return;  // a kernel's thread, or 32 bit
    constexpr std::size_t kStack = kRegisters + (std::size_t{kStackRegisters} * 8) + 8;
    if (bytes < kStack) return;
    const auto room = at<std::uint64_t>(body, kStack - 8);
    std::uint64_t copied = 0;
    if (room > 0 && bytes >= kStack + room + 8) copied = at<std::uint64_t>(body, kStack + room);
    if (seen[tid]++ % stride != 0) return;
    Kept kept{};
    kept.time_ns = at<std::uint64_t>(body, 16);
    kept.pid = pid;
    kept.tid = tid;
    kept.stack_bytes = static_cast<std::uint32_t>(std::min(copied, room));
    kept.running = id == ring.clock_id ? 1 : 0;
    for (unsigned i = 0; i < kStackRegisters; ++i)
      kept.registers[i] = at<std::uint64_t>(body, kRegisters + (place_of(i) * std::size_t{8}));
    if (used + kept.whole() > request.arena_bytes) thin();
    std::memcpy(arena + used, &kept, sizeof(kept));
    std::memcpy(arena + used + sizeof(kept), body + kStack, kept.stack_bytes);
    used += kept.whole();
  }

  // Reads records from `tail` to `head`; of samples if `samples`, else of processes.
  void read(const Ring& ring, std::uint64_t tail, std::uint64_t head, bool samples) {
    const std::uint8_t* data = ring.base + page_bytes();
    while (head - tail >= sizeof(perf_event_header)) {
      perf_event_header header;
      copy_out(data, request.ring_bytes, tail, &header, sizeof(header));
      if (header.size < sizeof(header) || header.size > head - tail) return;
      const std::size_t bytes = header.size - sizeof(header);
      const bool wanted = (header.type == PERF_RECORD_SAMPLE) == samples;
      if (wanted) {
        // In place, unless it goes round the ring's end: it has a stack, which is copied once more.
        const std::size_t begin = (tail + sizeof(header)) & (request.ring_bytes - 1);
        const std::uint8_t* body = data + begin;
        if (bytes > request.ring_bytes - begin) {
          copy_out(data, request.ring_bytes, tail + sizeof(header), record.data(), bytes);
          body = record.data();
        }
        if (samples)
          sample(ring, body, bytes);
        else if (header.type == PERF_RECORD_LOST && bytes >= 16)
          lost += at<std::uint64_t>(body, 8);
        else
          processes.add(header, body, bytes);
      }
      tail += header.size;
    }
  }

  static std::uint64_t head_of(const Ring& ring) {
    auto* control = reinterpret_cast<perf_event_mmap_page*>(ring.base);
    // Acquire: the records that the head covers were written before it.
    return __atomic_load_n(&control->data_head, __ATOMIC_ACQUIRE);
  }

  void drain() {
    const std::scoped_lock held(lock);
    std::vector<std::uint64_t> heads;
    heads.reserve(rings.size());
    for (const Ring& ring : rings) heads.push_back(head_of(ring));
    // A child's sample may stand on another CPU's ring than its fork: the forks are read first, up to a later
    // head, so that none is missing of a sample below.
    for (Ring& ring : rings) {
      const std::uint64_t head = head_of(ring);
      read(ring, ring.side_tail, head, false);
      ring.side_tail = head;
    }
    for (std::size_t i = 0; i < rings.size(); ++i) {
      auto* control = reinterpret_cast<perf_event_mmap_page*>(rings[i].base);
      read(rings[i], control->data_tail, heads[i], true);
      // Release: our reads are done before the kernel may write there again.
      __atomic_store_n(&control->data_tail, heads[i], __ATOMIC_RELEASE);
    }
  }

  // Of a CPU that switches often only every n-th switch is an event; n changes, so that no rhythm is
  // followed.
  void space_out(Ring& ring, std::uint64_t elapsed_ns) const {
    if (ring.switches < 0 || !gate.is_open() || is_shared) return;
    std::uint64_t count = 0;
    if (::read(ring.switches, &count, sizeof(count)) != sizeof(count)) return;
    const double rate = static_cast<double>(count - ring.counted) * 1e9 / static_cast<double>(elapsed_ns);
    ring.counted = count;
    const auto* wanted = std::lower_bound(kPeriods.begin(), kPeriods.end() - 1, rate / kMostSwitchesHz);
    if (wanted != kPeriods.begin() && wanted != kPeriods.end() - 1 && (++ring.turn & 1U) != 0) ++wanted;
    std::uint64_t period = *wanted;
    if (period == ring.period) return;
    ring.period = period;
    ioctl(ring.switches, PERF_EVENT_IOC_PERIOD, &period);  // where it fails the old one holds
  }

  // Keeps the number of switches that are sampled near the rate asked for, whatever the number of threads.
  void steer(std::uint64_t elapsed_ns) {
    const std::uint64_t aim = std::max<std::uint64_t>(1, request.switches_hz * elapsed_ns / 1'000'000'000U);
    if (switches_taken > 2 * aim && gap_ns < kLongestGap)
      gap_ns *= 2;
    else if (switches_taken < aim / 2 && gap_ns > kGap)
      gap_ns /= 2;
    switches_taken = 0;
    gate.set_gap(gap_ns);
  }

  void drain_until_stopped() {
    prctl(PR_SET_NAME, "latlab-stacks");
    std::vector<pollfd> waiting{{.fd = wake, .events = POLLIN, .revents = 0}};
    for (const Ring& ring : rings) waiting.push_back({.fd = ring.descriptor, .events = POLLIN, .revents = 0});
    std::uint64_t steered = monotonic_ns();
    std::uint64_t spaced = steered;
    while (running.load(std::memory_order_acquire)) {  // acquire: pairs with stop()
      if (poll(waiting.data(), waiting.size(), kDrainMs) < 0 && errno != EINTR) return;
      drain();
      const std::uint64_t now = monotonic_ns();
      if (now - spaced > 20'000'000U) {
        for (Ring& ring : rings) space_out(ring, now - spaced);
        spaced = now;
      }
      if (now - steered > 250'000'000U) {
        const std::scoped_lock held(lock);
        steer(now - steered);
        steered = now;
      }
    }
  }

  void open_cpu(int cpu) {
    Ring& ring = rings.emplace_back();
    ring.cpu = cpu;
    const std::string where = "sampling stacks on CPU " + std::to_string(cpu);
    perf_event_attr clock = attributes_of(request, PERF_COUNT_SW_CPU_CLOCK);
    clock.sample_period = 1'000'000'000U / std::max(1U, request.running_hz);
    clock.mmap = clock.mmap2 = clock.comm = clock.comm_exec = clock.task = 1;
    ring.descriptor = open_event(clock, cpu);
    if (ring.descriptor < 0) fail(errno, where);
    ring.clock_id = id_of(ring.descriptor);
    if (gate.is_open() && !gate.attach_to_clock(ring.descriptor)) fail(errno, where);
    void* base = mmap(nullptr, page_bytes() + request.ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                      ring.descriptor, 0);
    if (base == MAP_FAILED) fail(errno, where);
    ring.base = static_cast<std::uint8_t*>(base);
    if (request.switches_hz == 0) return;
    perf_event_attr switches = attributes_of(request, PERF_COUNT_SW_CONTEXT_SWITCHES);
    switches.sample_period = 1;
    if (!gate.is_open()) {
      switches.freq = 1;
      switches.sample_freq = std::max<std::uint64_t>(1, request.switches_hz / request.cpus.size());
    }
    ring.switches = open_event(switches, cpu);
    if (ring.switches < 0) fail(errno, where);
    ring.switches_id = id_of(ring.switches);
    if (gate.is_open() && !gate.attach_to_switches(ring.switches)) fail(errno, where);
    if (ioctl(ring.switches, PERF_EVENT_IOC_SET_OUTPUT, ring.descriptor) != 0) fail(errno, where);
  }

  bool open_output(Ring& ring) const {
    perf_event_attr output = attributes_of(request, PERF_COUNT_SW_BPF_OUTPUT);
    output.sample_period = 1;
    ring.output = open_event(output, ring.cpu);
    return ring.output >= 0 && ioctl(ring.output, PERF_EVENT_IOC_SET_OUTPUT, ring.descriptor) == 0 &&
           gate.add_output(static_cast<std::uint32_t>(ring.cpu), ring.output);
  }

  void switch_all(unsigned long what) const {
    for (const Ring& ring : rings) {
      if (ioctl(ring.descriptor, what, 0) != 0) fail(errno, "sampling stacks");
      if (ring.switches >= 0 && ioctl(ring.switches, what, 0) != 0) fail(errno, "sampling stacks");
    }
  }
};

StackSampler::StackSampler(const StackRequest& request) : state_(std::make_unique<State>()) {
  State& state = *state_;
  if (kStackRegisters == 0) fail(ENOTSUP, "sampling stacks on this kind of CPU");
  if (request.cpus.empty() || request.ring_bytes < page_bytes() ||
      (request.ring_bytes & (request.ring_bytes - 1)) != 0 || request.stack_bytes % 8 != 0 ||
      request.arena_bytes < 1U << 20U)
    throw std::invalid_argument("rings are a power of two of bytes, stacks a multiple of 8, arenas of a MiB");
  state.request = request;
  state.record.resize(1U << 16U);  // a record's length has 16 bits
  void* arena = mmap(nullptr, request.arena_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (arena == MAP_FAILED) fail(errno, "memory for stacks");
  // One page fault instead of 512, where the kernel has such pages; where it hasn't, nothing is lost.
  static_cast<void>(madvise(arena, request.arena_bytes, MADV_HUGEPAGE));
  state.arena = static_cast<std::uint8_t*>(arena);
  state.gate.open(state.gap_ns);
  for (const int cpu : request.cpus) state.open_cpu(cpu);
  state.wake = wake_descriptor();
}

StackSampler::~StackSampler() {
  stop_at_last(*this, state_->drainer);
}

bpf::StackGate StackSampler::share() {
  State& state = *state_;
  if (state.request.switches_hz == 0) return {};
  const int last = *std::ranges::max_element(state.request.cpus);
  const bpf::StackGate gate = state.gate.share(static_cast<std::uint32_t>(last) + 1);
  const bool open = gate.outputs >= 0 &&
                    std::ranges::all_of(state.rings, [&](Ring& ring) { return state.open_output(ring); });
  return open ? gate : bpf::StackGate{};
}

void StackSampler::shared(bool taken) {
  State& state = *state_;
  state.is_shared = taken;
  for (Ring& ring : state.rings) {
    if (taken) {
      std::swap(ring.switches, ring.output);
      ring.switches_id = id_of(ring.switches);
    }
    if (ring.output >= 0) close(ring.output);
    ring.output = -1;
  }
}

void StackSampler::start() {
  State& state = *state_;
  if (state.running.exchange(true)) return;
  state.switch_all(PERF_EVENT_IOC_ENABLE);
  {
    // After enabling: a mapping that is made meanwhile is seen twice, never not at all.
    const std::scoped_lock held(state.lock);
    for (const pid_t pid : state.request.pids) state.processes.track(pid);
  }
  state.drainer = std::thread([owner = state_.get()] { owner->drain_until_stopped(); });
}

void StackSampler::stop() {
  State& state = *state_;
  if (!state.running.exchange(false)) return;
  wake(state.wake);
  state.drainer.join();
  state.switch_all(PERF_EVENT_IOC_DISABLE);
  state.drain();
}

void StackSampler::follow(pid_t pid) {
  const std::scoped_lock held(state_->lock);
  state_->processes.track(pid);
}

std::vector<StackSample> StackSampler::samples() const {
  const std::scoped_lock held(state_->lock);
  std::vector<StackSample> out;
  for (std::size_t from = 0; from < state_->used;) {
    const auto kept = at<Kept>(state_->arena, from);
    StackSample& one = out.emplace_back();
    one.time_ns = kept.time_ns;
    one.pid = kept.pid;
    one.tid = kept.tid;
    one.running = kept.running != 0;
    std::copy(std::begin(kept.registers), std::end(kept.registers), std::begin(one.registers));
    one.stack = state_->arena + from + sizeof(Kept);
    one.stack_bytes = kept.stack_bytes;
    from += kept.whole();
  }
  std::sort(out.begin(), out.end(),
            [](const StackSample& a, const StackSample& b) { return a.time_ns < b.time_ns; });
  return out;
}

const std::vector<ProcessEvent>& StackSampler::processes() const {
  return state_->processes.events();
}
std::uint64_t StackSampler::lost() const {
  return state_->lost;
}
bool StackSampler::every_thread() const {
  return state_->gate.is_open();
}
std::uint32_t StackSampler::thinned() const {
  return state_->stride;
}

}  // namespace latlab::system
