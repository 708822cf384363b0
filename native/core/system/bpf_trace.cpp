#include "system/bpf_trace.hpp"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "system/bpf_program.hpp"
#include "system/bpf_scheduler.hpp"
#include "system/btf.hpp"
#include "system/cpu_rings.hpp"
#include "system/descriptor.hpp"

namespace latlab::system {
namespace {

constexpr std::uint32_t kBusy = 1U << 31U;     // BPF_RINGBUF_BUSY_BIT
constexpr std::uint32_t kDiscard = 1U << 30U;  // BPF_RINGBUF_DISCARD_BIT
constexpr std::size_t kRecordHeader = 8;       // BPF_RINGBUF_HDR_SZ
constexpr std::uint64_t kAll = 1ULL << 32U;
constexpr auto kLook = std::chrono::milliseconds(5);

[[noreturn]] void fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

// The registers that a row keeps, from those that were copied.
void keep_registers(const std::uint8_t* from, std::vector<std::int64_t>& to) {
  std::int64_t row[kBpfRegisters] = {-1, 0, 0};
#if defined(__x86_64__)
  std::int64_t all[bpf::kRegisterBytes / 8];
  std::memcpy(all, from, sizeof(all));
  row[kBpfCall] = all[8];
  row[kBpfFirst] = all[7];
  row[kBpfFourth] = all[0];
#elif defined(__aarch64__)
  std::int64_t all[bpf::kRegisterBytes / 8];
  std::memcpy(all, from, sizeof(all));
  row[kBpfCall] = static_cast<std::int32_t>(all[34]);
  row[kBpfFirst] = all[33];
  row[kBpfFourth] = all[2];
#else
  static_cast<void>(from);
#endif
  to.insert(to.end(), row, row + kBpfRegisters);
}

}  // namespace

struct BpfTrace::State {
  std::size_t ring_bytes = 0;
  std::size_t most_bytes = 0;
  std::vector<BpfEvent> events;
  Descriptor ring, counters, processes, sampling, contexts;
  std::uint64_t* sampled = nullptr;  // one page: the threshold and the salt
  std::uint64_t salt = 0;
  std::vector<Descriptor> programs, typed_programs, tracepoints;
  CpuRings rings;                    // of the events in `typed`
  std::vector<std::size_t> typed;    // their indices
  std::uint8_t* consumer = nullptr;  // one page: how far we have read
  std::uint8_t* producer = nullptr;  // one page: how far was written; then the data, twice
  bool with_registers = true;
  bpf::StackGate stacks;
  bool takes_stacks = false;

  std::mutex lock;  // over what was drained
  std::vector<BpfSamples> kept;
  std::size_t kept_bytes = 0;
  std::uint64_t dropped = 0;

  std::mutex sleeping;
  std::condition_variable wake;
  bool running = false;
  std::thread drainer;

  bool ended = false;      // stopped: what comes while the programs are detached is left out
  std::uint64_t lost = 0;  // until then

  static std::size_t page() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

  ~State() {
    if (sampled != nullptr) munmap(sampled, page());
    if (consumer != nullptr) munmap(consumer, page());
    if (producer != nullptr) munmap(producer, page() + 2 * ring_bytes);
  }

  void map_ring() {
    void* first = mmap(nullptr, page(), PROT_READ | PROT_WRITE, MAP_SHARED, ring.get(), 0);
    if (first == MAP_FAILED) fail("mapping the ring of the BPF programs");
    consumer = static_cast<std::uint8_t*>(first);
    void* second =
        mmap(nullptr, page() + 2 * ring_bytes, PROT_READ, MAP_SHARED, ring.get(), static_cast<off_t>(page()));
    if (second == MAP_FAILED) fail("mapping the ring of the BPF programs");
    producer = static_cast<std::uint8_t*>(second);
  }

  void map_sampling() {
    void* mapped = mmap(nullptr, page(), PROT_READ | PROT_WRITE, MAP_SHARED, sampling.get(), 0);
    if (mapped == MAP_FAILED) fail("mapping the sampling of the BPF programs");
    sampled = static_cast<std::uint64_t*>(mapped);
    // Chance decides which connections are sampled; where there is none, the clock's last digits do.
    if (getrandom(&salt, sizeof(salt), GRND_NONBLOCK) != sizeof(salt))
      salt = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
    sampled[1] = salt;
    sampled[0] = kAll;
  }

  void keep(const std::uint8_t* record, std::size_t bytes) {
    bpf::RecordHead head{};
    if (bytes < sizeof(head)) return;
    std::memcpy(&head, record, sizeof(head));
    if (head.event >= events.size()) return;
    const BpfEvent& event = events[head.event];
    const bool has_registers = event.registers && with_registers;
    const std::size_t payload = has_registers && event.payload_bytes > 0 ? event.payload_bytes + 8U : 0;
    const std::size_t before = sizeof(head) + (has_registers ? bpf::kRegisterBytes : 0) + payload;
    if (bytes < before + event.raw_bytes) return;
    const std::size_t room =
        sizeof(head) + event.raw_bytes + payload + (has_registers ? kBpfRegisters * 8 : 0);
    if (!has_room(room)) return;
    BpfSamples& samples = kept[head.event];
    samples.time_ns.push_back(head.time_ns);
    samples.cpu.push_back(static_cast<std::int32_t>(head.cpu));
    samples.pid.push_back(static_cast<std::int32_t>(head.pid_tgid >> 32U));
    samples.tid.push_back(static_cast<std::int32_t>(head.pid_tgid & 0xFFFFFFFFU));
    samples.raw_bytes.push_back(event.raw_bytes);
    samples.raw.insert(samples.raw.end(), record + before, record + before + event.raw_bytes);
    if (event.reports > 0) samples.context.push_back(static_cast<std::int64_t>(head.context));
    if (has_registers) keep_registers(record + sizeof(head), samples.registers);
    if (payload > 0)
      samples.payload.insert(samples.payload.end(), record + before - payload, record + before);
  }

  bool has_room(std::size_t bytes) {
    if (kept_bytes + bytes > most_bytes) {
      ++dropped;
      return false;
    }
    kept_bytes += bytes;
    return true;
  }

  void keep(std::int32_t cpu, const bpf::Slot& slot) {
    // A record that no program of ours wrote: who else has the memory may spoil it, and not end us.
    if (slot.event >= events.size() ||
        (slot.bytes == sizeof(bpf::SwitchSlot)) != (events[slot.event].places.size() == kSwitchPlaces)) {
      ++dropped;
      return;
    }
    const BpfEvent& event = events[slot.event];
    if (has_room(sizeof(bpf::RecordHead) + event.raw_bytes + (event.registers ? kBpfRegisters * 8 : 0)))
      append(slot, cpu, event, kept[slot.event]);
  }

  // Attaches a program to the kernel's own tracepoint, where this kernel lets us: perf's cost a program more.
  void attach_typed(std::uint32_t index) {
    const BpfEvent& event = events[index];
    const btf::Scheduler* task = event.typed.empty() ? nullptr : btf::scheduler();
    if (task == nullptr) return;
    const auto found = task->tracepoints.find(event.typed);
    if (found == task->tracepoints.end()) return;
    const bpf::Typed what = bpf::typed(found->first, found->second.arguments);
    const bool interrupt = what == bpf::Typed::kInterrupt;
    if (interrupt ? event.keeps_at < 0 : !fits(what, event)) return;
    try {
      Descriptor program(interrupt ? load_interrupt(event, found->second.type)
                                   : load_scheduler(what, index, *task, found->second.type));
      Descriptor attached(bpf::attach(program.get()));
      typed_programs.push_back(std::move(program));
      tracepoints.push_back(std::move(attached));
      typed.push_back(index);
    } catch (const std::system_error&) {
      if (what == bpf::Typed::kSwitch) takes_stacks = false;
    }
  }
  int load_interrupt(const BpfEvent& event, std::uint32_t type) const {
    return bpf::load({.contexts = contexts.get(),
                      .keeps_at = event.keeps_at,
                      .word_at = event.word_at,
                      .clears = event.clears,
                      .untimed = event.untimed,
                      .type = type});
  }

  int load_scheduler(bpf::Typed what, std::uint32_t index, const btf::Scheduler& task, std::uint32_t type) {
    rings.open(ring_bytes);
    bpf::SchedulerProgram wanted{
        what,           rings.map(),           rings.bytes(), counters.get(), index, events[index].registers,
        contexts.get(), events[index].reports, stacks};
    try {
      const int program = bpf::load(bpf::scheduler_program(wanted, task), type);
      takes_stacks |= what == bpf::Typed::kSwitch && stacks.outputs >= 0;
      return program;
    } catch (const std::system_error&) {
      if (stacks.outputs < 0) throw;
      wanted.stacks = {};
      return bpf::load(bpf::scheduler_program(wanted, task), type);
    }
  }

  void drain() {
    const std::scoped_lock held(lock);
    rings.drain([this](std::int32_t cpu, const bpf::Slot& slot) { keep(cpu, slot); });
    const std::uint8_t* data = producer + page();
    auto* read_to = reinterpret_cast<unsigned long*>(consumer);
    const auto* written_to = reinterpret_cast<const unsigned long*>(producer);
    unsigned long at = *read_to;
    // Acquire: the records below the producer's position were reserved before it moved.
    const unsigned long end = __atomic_load_n(written_to, __ATOMIC_ACQUIRE);
    while (at < end) {
      const std::uint8_t* header = data + (at & (ring_bytes - 1));
      // Acquire: a record whose busy bit is off was filled before.
      const std::uint32_t length =
          __atomic_load_n(reinterpret_cast<const std::uint32_t*>(header), __ATOMIC_ACQUIRE);
      if ((length & kBusy) != 0) break;  // still being written; those behind it wait
      const std::size_t bytes = length & ~(kBusy | kDiscard);
      if ((length & kDiscard) == 0) keep(header + kRecordHeader, bytes);
      at += (bytes + kRecordHeader + 7) & ~std::size_t{7};
      // Release: we have read it before the kernel may write there again.
      __atomic_store_n(read_to, at, __ATOMIC_RELEASE);
    }
  }

  void drain_until_stopped() {
    prctl(PR_SET_NAME, "latlab-drain");
    std::unique_lock held(sleeping);
    while (running) {
      wake.wait_for(held, kLook);
      held.unlock();
      drain();
      held.lock();
    }
  }

  void clear() {
    kept.assign(events.size(), {});
    for (std::size_t i = 0; i < events.size(); ++i) {
      kept[i].stride = events[i].raw_bytes;
      kept[i].payload_stride = events[i].payload_bytes > 0 ? events[i].payload_bytes + 8U : 0;
    }
    kept_bytes = 0;
  }
};

BpfTrace::BpfTrace(const BpfRequest& request) : state_(std::make_unique<State>()) {
  State& state = *state_;
  if (request.ring_bytes < State::page() || (request.ring_bytes & (request.ring_bytes - 1)) != 0)
    throw std::invalid_argument("ring_bytes must be a power of two of at least a page");
  state.ring_bytes = request.ring_bytes;
  state.most_bytes = request.most_bytes;
  state.events = request.events;
  state.stacks = request.stacks;
  for (BpfEvent& event : state.events) {
    event.raw_bytes = (event.raw_bytes + 7U) & ~7U;
    event.payload_bytes = (event.payload_bytes + 7U) & ~7U;
  }
  state.processes = Descriptor(bpf::make_processes());
  state.contexts = Descriptor(bpf::make_contexts());
  state.sampling = Descriptor(bpf::make_sampling());
  state.map_sampling();
  state.with_registers = bpf::kRegisterBytes > 0;
  state.counters = Descriptor(bpf::make_counters(static_cast<std::uint32_t>(state.events.size())));
  for (std::uint32_t i = 0; i < state.events.size(); ++i) state.attach_typed(i);
  // What is left is rare, unless it has payloads.
  const bool rare = state.rings.map() >= 0 && std::ranges::none_of(state.events, &BpfEvent::payload_bytes);
  if (rare) state.ring_bytes = std::max(State::page(), request.ring_bytes / 8);
  state.ring = Descriptor(bpf::make_ring(state.ring_bytes));
  for (std::uint32_t i = 0; i < state.events.size(); ++i) {
    if (std::ranges::find(state.typed, i) != state.typed.end()) continue;
    const BpfEvent& event = state.events[i];
    bpf::Program wanted{state.ring.get(),
                        state.counters.get(),
                        i,
                        event.raw_bytes,
                        event.registers && state.with_registers,
                        event.payload_bytes,
                        event.length_at,
                        event.chosen ? state.processes.get() : -1,
                        event.key_at,
                        event.key_at > 0 ? state.sampling.get() : -1,
                        state.contexts.get(),
                        event.keeps_at,
                        event.word_at,
                        event.clears,
                        event.untimed,
                        event.adopts_at,
                        state.processes.get(),
                        event.reports,
                        0};
    int program = -1;
    try {
      program = bpf::load(wanted);
    } catch (const std::system_error&) {
      if (!wanted.registers) throw;
      // Linux before 5.15, or one without BTF: without the registers, then.
      state.with_registers = wanted.registers = false;
      program = bpf::load(wanted);
    }
    state.programs.emplace_back(program);
    state.tracepoints.emplace_back(bpf::attach(program, event.id));
  }
  state.map_ring();
  state.clear();
}

BpfTrace::~BpfTrace() {
  stop();
}

void BpfTrace::add_process(std::uint32_t pid) {
  bpf::add_process(state_->processes.get(), pid);
}

void BpfTrace::sample(std::uint64_t below) {
  // Relaxed: whichever record is the first for which it holds, the reader leaves out the others' too.
  __atomic_store_n(state_->sampled, below, __ATOMIC_RELAXED);
}

std::uint64_t BpfTrace::salt() const {
  return state_->salt;
}

void BpfTrace::start() {
  State& state = *state_;
  {
    const std::scoped_lock held(state.sleeping);
    if (std::exchange(state.running, true)) return;
  }
  // The programs run since they were attached; the perf events that hold them stay disabled, so that nothing
  // else is done for them.
  state.drainer = std::thread([&state] { state.drain_until_stopped(); });
}

void BpfTrace::stop() {
  State& state = *state_;
  {
    const std::scoped_lock held(state.sleeping);
    if (!std::exchange(state.running, false)) return;
  }
  state.wake.notify_all();
  state.drainer.join();
  state.drain();
  state.lost = lost();
  state.ended = true;
  // The programs go with their tracepoints. The kernel waits for every CPU at each of them, for a second in
  // all: by a thread of its own, while what was drained is looked at. What comes meanwhile is nobody's.
  try {
    std::thread([tracepoints = std::move(state.tracepoints)]() mutable { tracepoints.clear(); }).detach();
    state.tracepoints.clear();
  } catch (const std::system_error&) {
    // No thread is to be had: the closure that was to go to it has closed them here.
    state.tracepoints.clear();
  }
}

std::vector<BpfSamples> BpfTrace::take() {
  State& state = *state_;
  if (!state.ended) state.drain();
  const std::scoped_lock held(state.lock);
  std::vector<BpfSamples> out = std::move(state.kept);
  state.clear();
  return out;
}

std::uint64_t BpfTrace::lost() {
  State& state = *state_;
  if (state.ended) return state.lost;
  std::uint64_t sum = 0;
  for (std::uint32_t i = 0; i < state.events.size(); ++i) sum += bpf::read_counter(state.counters.get(), i);
  // One that came while the same program ran on that CPU, as an interrupt's.
  for (const Descriptor& program : state.typed_programs) sum += bpf::misses(program.get());
  const std::scoped_lock held(state.lock);
  return sum + state.rings.lost() + state.dropped;
}

bool BpfTrace::registers() const {
  return state_->with_registers;
}

bool BpfTrace::stacks() const {
  return state_->takes_stacks;
}

std::vector<std::size_t> BpfTrace::typed() const {
  return state_->typed;
}

}  // namespace latlab::system
