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

#include "system/bpf_calls.hpp"
#include "system/bpf_kept.hpp"
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
// Waking costs as much as reading what came in 3 ms of 20,000 requests a second.
constexpr auto kLook = std::chrono::milliseconds(10);

[[noreturn]] void fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace

struct BpfTrace::State {
  std::size_t ring_bytes = 0;
  std::vector<BpfEvent> events;
  Descriptor ring, counters, processes, few_processes, sampling, contexts, names;
  std::uint64_t* sampled = nullptr;  // one page: the threshold and the salt
  std::uint64_t salt = 0;
  std::vector<Descriptor> programs, typed_programs, tracepoints;
  CpuRings rings, call_rings;        // of the events in `typed`
  std::vector<std::size_t> typed;    // their indices
  std::vector<bpf::Typed> kinds;     // of each event, kNone for one that isn't; behind them, of names
  std::uint8_t* consumer = nullptr;  // one page: how far we have read
  std::uint8_t* producer = nullptr;  // one page: how far was written; then the data, twice
  bpf::StackGate stacks;
  bool takes_stacks = false;

  std::mutex lock;  // over what was drained
  BpfKept kept;

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
    const std::uint32_t type = found->second.type;
    try {
      Descriptor program(interrupt            ? load_interrupt(event, type)
                         : bpf::is_call(what) ? load_call(what, index, *task, type)
                                              : load_scheduler(what, index, *task, type));
      Descriptor attached(bpf::attach(program.get()));
      typed_programs.push_back(std::move(program));
      tracepoints.push_back(std::move(attached));
      typed.push_back(index);
      kinds[index] = what;
    } catch (const std::system_error&) {
      if (what == bpf::Typed::kSwitch) takes_stacks = false;
    }
  }
  // Once: names of threads, without which a switch is not read from the kernel's own tracepoint.
  void tell_names(const btf::Scheduler& task) {
    if (names.get() >= 0) return;
    Descriptor map(bpf::make_names());
    const auto attach = [&](const char* name, std::string_view arguments, bool renames) {
      const auto found = task.tracepoints.find(name);
      if (found == task.tracepoints.end() || found->second.arguments != arguments)
        throw std::system_error(ENOTSUP, std::generic_category(), "names of threads");
      Descriptor program(bpf::load(bpf::name_program(map.get(), renames, task), found->second.type));
      tracepoints.emplace_back(bpf::attach(program.get()));
      typed_programs.push_back(std::move(program));
    };
    attach("sched_process_fork", "tt", false);
    attach("task_rename", "tp", true);
    names = std::move(map);
  }

  int load_interrupt(const BpfEvent& event, std::uint32_t type) const {
    bpf::Program wanted;
    wanted.contexts = contexts.get();
    wanted.keeps_at = event.keeps_at;
    wanted.word_at = event.word_at;
    wanted.clears = event.clears;
    wanted.untimed = event.untimed;
    wanted.type = type;
    return bpf::load(wanted);
  }

  bpf::Processes wanted_processes() const { return {processes.get(), few_processes.get()}; }

  int load_call(bpf::Typed what, std::uint32_t index, const btf::Scheduler& types, std::uint32_t type) {
    const BpfEvent& event = events[index];
    call_rings.open(ring_bytes, bpf::kCallRings);
    const bpf::CallProgram wanted{what,
                                  call_rings.map(),
                                  call_rings.bytes(),
                                  call_rings.cpus(),
                                  counters.get(),
                                  index,
                                  event.payload_bytes,
                                  event.chosen || event.adopts_at > 0 ? wanted_processes() : bpf::Processes{},
                                  event.key_at > 0 ? sampling.get() : -1};
    return bpf::load(bpf::call_program(wanted, types), type);
  }

  int load_scheduler(bpf::Typed what, std::uint32_t index, const btf::Scheduler& task, std::uint32_t type) {
    tell_names(task);
    rings.open(ring_bytes);
    bpf::SchedulerProgram wanted{.what = what,
                                 .rings = rings.map(),
                                 .ring_bytes = rings.bytes(),
                                 .counters = counters.get(),
                                 .event = index,
                                 .registers = events[index].registers,
                                 .contexts = contexts.get(),
                                 .reports = events[index].reports,
                                 .stacks = stacks,
                                 .names = names.get(),
                                 .name_event = static_cast<std::uint32_t>(events.size())};
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
    const auto keep = [this](std::int32_t cpu, const bpf::Slot& slot) {
      kept.keep(cpu, slot, slot.event < kinds.size() ? kinds[slot.event] : bpf::Typed::kNone);
    };
    rings.drain(keep);
    call_rings.drain(keep);
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
      if ((length & kDiscard) == 0) kept.keep(header + kRecordHeader, bytes);
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
};

BpfTrace::BpfTrace(const BpfRequest& request) : state_(std::make_unique<State>()) {
  State& state = *state_;
  if (request.ring_bytes < State::page() || (request.ring_bytes & (request.ring_bytes - 1)) != 0)
    throw std::invalid_argument("ring_bytes must be a power of two of at least a page");
  state.ring_bytes = request.ring_bytes;
  state.events = request.events;
  state.stacks = request.stacks;
  for (BpfEvent& event : state.events) {
    event.raw_bytes = (event.raw_bytes + 7U) & ~7U;
    event.payload_bytes = (event.payload_bytes + 7U) & ~7U;
  }
  state.kept = BpfKept(state.events, request.most_bytes, request.watched_calls);
  state.kinds.resize(state.events.size(), bpf::Typed::kNone);
  state.kinds.push_back(bpf::Typed::kName);
  state.processes = Descriptor(bpf::make_processes());
  state.few_processes = Descriptor(bpf::make_few_processes());
  state.contexts = Descriptor(bpf::make_contexts());
  state.sampling = Descriptor(bpf::make_sampling());
  state.map_sampling();
  state.kept.with_registers = bpf::kRegisterBytes > 0;
  state.counters = Descriptor(bpf::make_counters(static_cast<std::uint32_t>(state.events.size())));
  for (std::uint32_t i = 0; i < state.events.size(); ++i) state.attach_typed(i);
  // What is left is rare, unless it has payloads.
  bool rare = state.rings.map() >= 0;
  for (std::size_t i = 0; i < state.events.size(); ++i)
    rare = rare && (state.events[i].payload_bytes == 0 || state.kinds[i] != bpf::Typed::kNone);
  if (rare) state.ring_bytes = std::max(State::page(), request.ring_bytes / 8);
  state.ring = Descriptor(bpf::make_ring(state.ring_bytes));
  for (std::uint32_t i = 0; i < state.events.size(); ++i) {
    if (std::ranges::find(state.typed, i) != state.typed.end()) continue;
    const BpfEvent& event = state.events[i];
    bpf::Program wanted{state.ring.get(),
                        state.counters.get(),
                        i,
                        event.raw_bytes,
                        event.registers && state.kept.with_registers,
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
                        state.wanted_processes(),
                        event.reports,
                        0};
    int program = -1;
    try {
      program = bpf::load(wanted);
    } catch (const std::system_error&) {
      if (!wanted.registers) throw;
      // Linux before 5.15, or one without BTF: without the registers, then.
      state.kept.with_registers = wanted.registers = false;
      program = bpf::load(wanted);
    }
    state.programs.emplace_back(program);
    state.tracepoints.emplace_back(bpf::attach(program, event.id));
  }
  state.map_ring();
}

BpfTrace::~BpfTrace() {
  stop();
}

void BpfTrace::add_process(std::uint32_t pid) {
  bpf::add_process(state_->wanted_processes(), pid);
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
  BpfKept::Taken taken;
  {
    const std::scoped_lock held(state.lock);
    taken = state.kept.take();
  }
  return state.kept.columns_of(std::move(taken), state.kinds);
}

std::vector<std::uint64_t> BpfTrace::waiting() {
  if (!state_->ended) state_->drain();
  const std::scoped_lock held(state_->lock);
  return state_->kept.waiting();
}

BpfNotes BpfTrace::notes() {
  const std::scoped_lock held(state_->lock);
  return state_->kept.notes();
}

std::vector<BpfCounts> BpfTrace::counts() {
  const std::scoped_lock held(state_->lock);
  return state_->kept.counts();
}

std::uint64_t BpfTrace::lost() {
  State& state = *state_;
  if (state.ended) return state.lost;
  std::uint64_t sum = 0;
  for (std::uint32_t i = 0; i < state.events.size(); ++i) sum += bpf::read_counter(state.counters.get(), i);
  // One that came while the same program ran on that CPU, as an interrupt's.
  for (const Descriptor& program : state.typed_programs) sum += bpf::misses(program.get());
  const std::scoped_lock held(state.lock);
  return sum + state.rings.lost() + state.call_rings.lost() + state.kept.dropped();
}

bool BpfTrace::registers() const {
  return state_->kept.with_registers;
}

bool BpfTrace::stacks() const {
  return state_->takes_stacks;
}

std::vector<std::size_t> BpfTrace::typed() const {
  return state_->typed;
}

}  // namespace latlab::system
