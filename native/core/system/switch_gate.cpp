#include "system/switch_gate.hpp"

#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <type_traits>
#include <vector>

namespace latlab::system {
namespace {

constexpr std::uint32_t kProcesses = 4096;
constexpr std::uint32_t kMappable = 1U << 10U;  // BPF_F_MMAPABLE (Linux 5.5)
constexpr std::uint32_t kThreads = 16384;       // the least recently seen are forgotten, and sampled again

std::size_t page() {
  return static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

int call_bpf(int command, bpf_attr& attributes) {
  return static_cast<int>(syscall(SYS_bpf, command, &attributes, sizeof(attributes)));
}

int make_map(std::uint32_t type, std::uint32_t entries, std::uint32_t flags = 0,
             std::uint32_t value_bytes = sizeof(std::uint64_t)) {
  bpf_attr attributes;
  std::memset(&attributes, 0, sizeof(attributes));
  attributes.map_type = type;
  attributes.key_size = sizeof(std::uint32_t);
  attributes.value_size = value_bytes;
  attributes.max_entries = entries;
  attributes.map_flags = flags;
  return call_bpf(BPF_MAP_CREATE, attributes);
}

constexpr bpf_insn instruction(unsigned code, unsigned to, unsigned from, int offset, std::int32_t value) {
  bpf_insn out{};
  out.code = static_cast<std::uint8_t>(code);
  out.dst_reg = static_cast<std::uint8_t>(to & 15U);
  out.src_reg = static_cast<std::uint8_t>(from & 15U);
  out.off = static_cast<std::int16_t>(offset);
  out.imm = value;
  return out;
}

constexpr bpf_insn call(int function) {
  return instruction(BPF_JMP | BPF_CALL, 0, 0, 0, function);
}
constexpr bpf_insn copy(unsigned to, unsigned from) {
  return instruction(BPF_ALU64 | BPF_MOV | BPF_X, to, from, 0, 0);
}
constexpr bpf_insn set(unsigned to, std::int32_t value) {
  return instruction(BPF_ALU64 | BPF_MOV | BPF_K, to, 0, 0, value);
}
constexpr bpf_insn add(unsigned to, std::int32_t value) {
  return instruction(BPF_ALU64 | BPF_ADD | BPF_K, to, 0, 0, value);
}
constexpr bpf_insn store(unsigned size, unsigned to, int offset, unsigned from) {
  return instruction(BPF_STX | BPF_MEM | size, to, from, offset, 0);
}

constexpr bpf_insn leave() {
  return instruction(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
}
constexpr bpf_insn jump_if(unsigned how, unsigned one, std::int32_t value, int by) {
  return instruction(BPF_JMP | how | BPF_K, one, 0, by, value);
}

// Two instructions long: the address of a map, or of its first value.
void load_map(std::vector<bpf_insn>& program, unsigned to, unsigned kind, int map) {
  program.push_back(instruction(BPF_LD | BPF_DW | BPF_IMM, to, kind, 0, map));
  program.push_back(instruction(0, 0, 0, 0, 0));
}

// Of a map whose values are Value.
template <class Value = std::uint64_t>
bool update(int map, std::uint32_t key, std::type_identity_t<Value> value) {
  bpf_attr attributes;
  std::memset(&attributes, 0, sizeof(attributes));
  attributes.map_fd = static_cast<std::uint32_t>(map);
  attributes.key = reinterpret_cast<std::uintptr_t>(&key);
  attributes.value = reinterpret_cast<std::uintptr_t>(&value);
  return call_bpf(BPF_MAP_UPDATE_ELEM, attributes) == 0;
}

}  // namespace

SwitchGate::~SwitchGate() {
  close();
}

void SwitchGate::close() {
  if (gap_ns_ != nullptr) munmap(gap_ns_, page());
  gap_ns_ = nullptr;
  for (int* descriptor : {&switches_, &clock_, &spent_, &gap_, &strangers_, &slots_, &outputs_}) {
    if (*descriptor >= 0) ::close(*descriptor);
    *descriptor = -1;
  }
}

int SwitchGate::load(bool with_gap) const {
  constexpr int kKey = -4;
  constexpr int kSpent = -16;
  // Jumps count instructions from the one behind them.
  std::vector<bpf_insn> program{
      call(BPF_FUNC_get_current_pid_tgid),
      copy(6, 0),
      instruction(BPF_ALU | BPF_MOV | BPF_X, 8, 6, 0, 0),     // r8 = the thread, the lower half
      instruction(BPF_ALU64 | BPF_RSH | BPF_K, 6, 0, 0, 32),  // r6 = the process
      store(BPF_W, 10, kKey, 6),
  };
  load_map(program, 1, BPF_PSEUDO_MAP_FD, strangers_);
  program.insert(program.end(), {copy(2, 10), add(2, kKey), call(BPF_FUNC_map_lookup_elem),
                                 jump_if(BPF_JEQ, 0, 0, 2), set(0, 0), leave()});  // a stranger: drop
  if (with_gap) {
    program.insert(program.end(), {jump_if(BPF_JNE, 8, 0, 2), set(0, 0), leave(),  // the idle task: drop
                                   store(BPF_W, 10, kKey, 8), call(BPF_FUNC_ktime_get_ns), copy(7, 0)});
    // One number a thread: the time up to which its samples are spent. It may be ahead of now by a burst, so
    // that a thread that begins, or blocks after a long time, is sampled at each of its next blocks.
    load_map(program, 1, BPF_PSEUDO_MAP_VALUE, gap_);
    program.push_back(instruction(BPF_LDX | BPF_MEM | BPF_DW, 9, 1, 0, 0));  // r9 = gap
    load_map(program, 1, BPF_PSEUDO_MAP_FD, spent_);
    program.insert(
        program.end(),
        {copy(2, 10), add(2, kKey), call(BPF_FUNC_map_lookup_elem),
         copy(1, 7),  // r1 = now, of a thread not seen before
         jump_if(BPF_JEQ, 0, 0, 9), instruction(BPF_LDX | BPF_MEM | BPF_DW, 2, 0, 0, 0),  // r2 = spent
         instruction(BPF_JMP | BPF_JLE | BPF_X, 2, 1, 7, 0),  // spent <= now: a quiet thread
         copy(3, 9), instruction(BPF_ALU64 | BPF_LSH | BPF_K, 3, 0, 0, bpf::kBurst),
         instruction(BPF_ALU64 | BPF_ADD | BPF_X, 3, 7, 0, 0),                    // r3 = now + burst
         instruction(BPF_JMP | BPF_JLE | BPF_X, 2, 3, 2, 0), set(0, 0), leave(),  // too far ahead: drop
         copy(1, 2), instruction(BPF_ALU64 | BPF_ADD | BPF_X, 1, 9, 0, 0), store(BPF_DW, 10, kSpent, 1)});
    load_map(program, 1, BPF_PSEUDO_MAP_FD, spent_);
    program.insert(program.end(), {copy(2, 10), add(2, kKey), copy(3, 10), add(3, kSpent), set(4, 0),
                                   call(BPF_FUNC_map_update_elem)});
  }
  program.insert(program.end(), {set(0, 1), leave()});
  static const char license[] = "Apache-2.0";  // none of these helpers asks for another one
  bpf_attr attributes;
  std::memset(&attributes, 0, sizeof(attributes));
  attributes.prog_type = BPF_PROG_TYPE_PERF_EVENT;
  attributes.insns = reinterpret_cast<std::uintptr_t>(program.data());
  attributes.insn_cnt = static_cast<std::uint32_t>(program.size());
  attributes.license = reinterpret_cast<std::uintptr_t>(license);
  return call_bpf(BPF_PROG_LOAD, attributes);
}

bool SwitchGate::open(std::uint64_t gap_ns) {
  strangers_ = make_map(BPF_MAP_TYPE_LRU_HASH, kProcesses);
  spent_ = make_map(BPF_MAP_TYPE_LRU_HASH, kThreads);
  gap_ = make_map(BPF_MAP_TYPE_ARRAY, 1, kMappable);
  if (gap_ >= 0) {
    void* mapped = mmap(nullptr, page(), PROT_READ | PROT_WRITE, MAP_SHARED, gap_, 0);
    if (mapped != MAP_FAILED) gap_ns_ = static_cast<std::uint64_t*>(mapped);
  } else {
    gap_ = make_map(BPF_MAP_TYPE_ARRAY, 1);  // an older kernel
  }
  if (strangers_ >= 0 && spent_ >= 0 && gap_ >= 0 && update(gap_, 0, gap_ns)) {
    clock_ = load(false);
    switches_ = load(true);
  }
  if (clock_ < 0 || switches_ < 0) close();
  return is_open();
}

bool SwitchGate::attach_to_clock(int perf_descriptor) const {
  return ioctl(perf_descriptor, PERF_EVENT_IOC_SET_BPF, clock_) == 0;
}

bool SwitchGate::attach_to_switches(int perf_descriptor) const {
  return ioctl(perf_descriptor, PERF_EVENT_IOC_SET_BPF, switches_) == 0;
}

bpf::StackGate SwitchGate::share(std::uint32_t cpus) {
  if (!is_open() || slots_ >= 0) return {};
  slots_ = make_map(BPF_MAP_TYPE_ARRAY, bpf::kSpentEntries, 0, bpf::kSpentBytes);
  outputs_ = make_map(BPF_MAP_TYPE_PERF_EVENT_ARRAY, cpus, 0, sizeof(std::uint32_t));
  if (slots_ < 0 || outputs_ < 0) return {};
  return {strangers_, slots_, gap_, outputs_};
}

bool SwitchGate::add_output(std::uint32_t cpu, int perf_descriptor) const {
  return update<std::uint32_t>(outputs_, cpu, static_cast<std::uint32_t>(perf_descriptor));
}

// Should one of these fail, the old value does as well: it costs time, and nothing is missed.
void SwitchGate::set_gap(std::uint64_t gap_ns) const {
  if (gap_ns_ != nullptr)
    __atomic_store_n(gap_ns_, gap_ns, __ATOMIC_RELAXED);
  else if (gap_ >= 0)
    static_cast<void>(update(gap_, 0, gap_ns));
}

void SwitchGate::set_stranger(std::uint32_t process, bool stranger) const {
  if (strangers_ < 0) return;
  if (stranger) {
    static_cast<void>(update(strangers_, process, 1));
    return;
  }
  bpf_attr attributes;
  std::memset(&attributes, 0, sizeof(attributes));
  attributes.map_fd = static_cast<std::uint32_t>(strangers_);
  attributes.key = reinterpret_cast<std::uintptr_t>(&process);
  static_cast<void>(call_bpf(BPF_MAP_DELETE_ELEM, attributes));
}

}  // namespace latlab::system
