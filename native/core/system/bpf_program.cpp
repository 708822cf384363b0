// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
#include "system/bpf_program.hpp"

#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <vector>

#include "system/bpf_assembler.hpp"

namespace latlab::system::bpf {
namespace {

constexpr std::uint32_t kRingMap = 27;                           // BPF_MAP_TYPE_RINGBUF
constexpr std::uint32_t kPerCpuArray = 6;                        // BPF_MAP_TYPE_PERCPU_ARRAY
constexpr std::uint32_t kMappable = 1U << 10U;                   // BPF_F_MMAPABLE
constexpr auto kTypedProgram = static_cast<bpf_prog_type>(26);   // BPF_PROG_TYPE_TRACING
constexpr auto kTypedAttach = static_cast<bpf_attach_type>(23);  // BPF_TRACE_RAW_TP
constexpr std::int32_t kMostPositive = 0x7FFFFFFF;

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

int call(int command, bpf_attr& attributes) {
  return static_cast<int>(syscall(SYS_bpf, command, &attributes, sizeof(attributes)));
}

int make_map(std::uint32_t type, std::uint32_t key_bytes, std::uint32_t value_bytes, std::uint32_t entries,
             const char* what, std::uint32_t flags = 0) {
  bpf_attr attributes{};
  attributes.map_type = type;
  attributes.key_size = key_bytes;
  attributes.value_size = value_bytes;
  attributes.max_entries = entries;
  attributes.map_flags = flags;
  const int made = call(BPF_MAP_CREATE, attributes);
  if (made < 0) fail(what);
  return made;
}

#if defined(__x86_64__)
// Where the copied registers have them, in words.
constexpr std::size_t kCallAt = 8;
constexpr std::size_t kSecondAt = 6;
#elif defined(__aarch64__)
constexpr std::size_t kCallAt = 34;
constexpr std::size_t kSecondAt = 0;
#else
constexpr std::size_t kCallAt = 0;
constexpr std::size_t kSecondAt = 0;
#endif

// Copies the beginning of the buffer that the current system call works on behind r7 + to, where it says how
// many bytes these are: not more than the call moved, than fit into the buffer, and than are asked for.
void copy_payload(Assembler& a, std::int32_t to, std::uint32_t bytes, std::uint32_t length_at) {
  a.load64(BPF_REG_8, BPF_REG_7,
           static_cast<std::int16_t>(sizeof(RecordHead) + sizeof(std::uint64_t) * kSecondAt));
  a.load64(BPF_REG_1, BPF_REG_7,
           static_cast<std::int16_t>(sizeof(RecordHead) + sizeof(std::uint64_t) * kCallAt));
  a.load32(BPF_REG_9, BPF_REG_6, static_cast<std::int16_t>(length_at));
  const std::size_t positive = a.if_at_most(BPF_REG_9, kMostPositive);
  a.set(BPF_REG_9, 0);  // the call failed
  a.land(positive);
  first_buffer(a, BPF_REG_9, bytes);
  a.store64(BPF_REG_7, static_cast<std::int16_t>(to), BPF_REG_9);
  a.move(BPF_REG_1, BPF_REG_7);
  a.plus(BPF_REG_1, to + 8);
  a.move(BPF_REG_2, BPF_REG_9);
  a.move(BPF_REG_3, BPF_REG_8);
  a.helper(kProbeReadUser);
  const std::size_t read = a.if_zero(BPF_REG_0);
  a.set(BPF_REG_1, 0);
  a.store64(BPF_REG_7, static_cast<std::int16_t>(to), BPF_REG_1);
  a.land(read);
}

// r0 becomes the address of the running process's word in `processes`, or 0.
void find_process(Assembler& a, int processes) {
  a.helper(kPidTgid);
  a.shift_right(BPF_REG_0, 32);
  a.store32(BPF_REG_10, -4, BPF_REG_0);
  look_up(a, processes);
}

// Of an interrupt that begins or ends: says so to those that come meanwhile, and counts how long it took.
std::vector<bpf_insn> keeper(const Program& wanted) {
  const auto since_at = static_cast<std::int16_t>(kSinceAt + 8 * (wanted.keeps_at / 2));
  const bool timed = wanted.keeps_at / 2 < 3;
  Assembler a;
  a.move(BPF_REG_6, BPF_REG_1);
  find_context(a, wanted.contexts);
  const std::size_t none = a.if_zero(BPF_REG_0);
  a.move(BPF_REG_7, BPF_REG_0);
  a.set(BPF_REG_8, 0);  // its number
  if (wanted.word_at > 0 && wanted.type > 0)
    a.load64(BPF_REG_8, BPF_REG_6, 0);  // the first that it passes
  else if (wanted.word_at > 0)
    a.load32(BPF_REG_8, BPF_REG_6, static_cast<std::int16_t>(wanted.word_at));
  a.move(BPF_REG_1, BPF_REG_8);
  a.plus(BPF_REG_1, 1);
  if (wanted.clears) a.set(BPF_REG_1, 0);
  a.store16(BPF_REG_7, static_cast<std::int16_t>(wanted.keeps_at), BPF_REG_1);
  if (timed) {
    std::vector<std::size_t> untimed;
    for (std::int32_t number = 0; number < 64; ++number)
      if (((wanted.untimed >> static_cast<unsigned>(number)) & 1U) != 0)
        untimed.push_back(a.if_is(BPF_REG_8, number));
    if (!wanted.clears) {
      a.helper(kKtime);
      a.store64(BPF_REG_7, since_at, BPF_REG_0);
    } else {
      a.load64(BPF_REG_9, BPF_REG_7, since_at);
      const std::size_t unseen = a.if_zero(BPF_REG_9);  // it began before we looked
      a.helper(kKtime);
      a.minus(BPF_REG_0, BPF_REG_9);
      a.load64(BPF_REG_1, BPF_REG_7, kServedAt);
      a.add_to(BPF_REG_1, BPF_REG_0);
      a.store64(BPF_REG_7, kServedAt, BPF_REG_1);
      a.set(BPF_REG_1, 0);
      a.store64(BPF_REG_7, since_at, BPF_REG_1);
      a.land(unseen);
    }
    for (const std::size_t one : untimed) a.land(one);
  }
  a.land(none);
  a.leave();
  return a.code();
}

std::vector<bpf_insn> program(const Program& wanted) {
  if (wanted.keeps_at >= 0) return keeper(wanted);
  const auto [ring, counters, event, raw_bytes, registers, payload_bytes, length_at, processes, key_at,
              sampling, contexts, keeps_at, word_at, clears, untimed, adopts_at, adopting, reports, type] =
      wanted;
  const auto payload_at = static_cast<std::int32_t>(sizeof(RecordHead) + (registers ? kRegisterBytes : 0));
  const bool has_payload = registers && payload_bytes > 0;
  const std::int32_t behind = payload_at + (has_payload ? static_cast<std::int32_t>(payload_bytes) + 8 : 0);
  Assembler a;
  a.move(BPF_REG_6, BPF_REG_1);  // the tracepoint's record
  if (adopts_at > 0) {
    a.load32(BPF_REG_9, BPF_REG_6, static_cast<std::int16_t>(adopts_at));
    adopt(a, adopting);
  }
  if (sampling >= 0 && key_at > 0) {
    a.load32(BPF_REG_1, BPF_REG_6, static_cast<std::int16_t>(key_at));
    leave_unless_low(a, sampling);
  }
  if (processes >= 0) {
    find_process(a, processes);
    const std::size_t known = a.unless_zero(BPF_REG_0);
    a.leave();
    a.land(known);
  }
  // The verifier wants the stack that `follow` reads to be written on every way.
  a.set(BPF_REG_1, 0);
  a.store64(BPF_REG_10, kPairAt, BPF_REG_1);
  a.store64(BPF_REG_10, kPairAt + 8, BPF_REG_1);
  a.map(BPF_REG_1, ring);
  a.set(BPF_REG_2, behind + static_cast<std::int32_t>(raw_bytes));
  a.set(BPF_REG_3, 0);
  a.helper(kRingReserve);
  const std::size_t room = a.unless_zero(BPF_REG_0);
  count_lost(a, counters, event);
  a.leave();
  a.land(room);
  a.move(BPF_REG_7, BPF_REG_0);
  a.helper(kKtime);
  a.store64(BPF_REG_7, 0, BPF_REG_0);
  a.helper(kPidTgid);
  a.store64(BPF_REG_7, 8, BPF_REG_0);
  a.helper(kCpu);
  a.store32(BPF_REG_7, 16, BPF_REG_0);
  a.store32_value(BPF_REG_7, 20, static_cast<std::int32_t>(event));
  a.set(BPF_REG_8, 0);
  if (reports > 0) {
    find_context(a, contexts);
    const std::size_t unknown = a.if_zero(BPF_REG_0);
    a.load64(BPF_REG_8, BPF_REG_0, reports == 1 ? 0 : kServedAt);
    a.land(unknown);
  }
  a.store64(BPF_REG_7, 24, BPF_REG_8);
  if (registers) {
    a.helper(kCurrentTask);
    a.move(BPF_REG_1, BPF_REG_0);
    a.helper(kTaskRegisters);
    a.move(BPF_REG_3, BPF_REG_0);
    a.plus(BPF_REG_3, static_cast<std::int32_t>(kRegistersFrom));
    a.move(BPF_REG_1, BPF_REG_7);
    a.plus(BPF_REG_1, sizeof(RecordHead));
    a.set(BPF_REG_2, static_cast<std::int32_t>(kRegisterBytes));
    a.helper(kProbeReadKernel);
    if (has_payload) copy_payload(a, payload_at, payload_bytes, length_at);
  }
  a.move(BPF_REG_1, BPF_REG_7);
  a.plus(BPF_REG_1, behind);
  a.set(BPF_REG_2, static_cast<std::int32_t>(raw_bytes));
  a.move(BPF_REG_3, BPF_REG_6);
  a.helper(kProbeReadKernel);
  a.move(BPF_REG_1, BPF_REG_7);
  a.set(BPF_REG_2, kNoWakeup);
  a.helper(kRingSubmit);
  a.leave();
  return a.code();
}

}  // namespace

void adopt(Assembler& a, const Processes& processes) {
  find_process(a, processes.all);
  const std::size_t stranger = a.if_zero(BPF_REG_0);
  a.store32(BPF_REG_10, -4, BPF_REG_9);
  a.store32_value(BPF_REG_10, -8, 1);
  a.map(BPF_REG_1, processes.all);
  a.move(BPF_REG_2, BPF_REG_10);
  a.plus(BPF_REG_2, -4);
  a.move(BPF_REG_3, BPF_REG_10);
  a.plus(BPF_REG_3, -8);
  a.set(BPF_REG_4, BPF_ANY);
  a.helper(kMapUpdate);
  a.move(BPF_REG_1, BPF_REG_9);
  a.mask(BPF_REG_1, kFewProcesses - 1);
  a.store32(BPF_REG_10, -4, BPF_REG_1);
  look_up(a, processes.few);
  const std::size_t none = a.if_zero(BPF_REG_0);
  a.store32(BPF_REG_0, 0, BPF_REG_9);
  a.land(none);
  a.land(stranger);
}

void leave_unless_low(Assembler& a, int sampling) {
  a.map_value(BPF_REG_3, sampling);
  a.load64(BPF_REG_2, BPF_REG_3, 8);
  a.exclusive_or(BPF_REG_1, BPF_REG_2);
  a.set64(BPF_REG_2, kSpread);
  a.multiply(BPF_REG_1, BPF_REG_2);
  a.shift_right(BPF_REG_1, 32);
  a.load64(BPF_REG_2, BPF_REG_3, 0);
  const std::size_t wanted = a.if_less(BPF_REG_1, BPF_REG_2);
  a.leave();
  a.land(wanted);
}

int make_ring(std::size_t bytes) {
  return make_map(kRingMap, 0, 0, static_cast<std::uint32_t>(bytes), "making the ring of the BPF programs");
}

int make_counters(std::uint32_t count) {
  return make_map(BPF_MAP_TYPE_ARRAY, 4, 8, count, "making the counters of the BPF programs");
}

std::uint64_t read_counter(int counters, std::uint32_t index) {
  std::uint64_t value = 0;
  bpf_attr attributes{};
  attributes.map_fd = static_cast<std::uint32_t>(counters);
  attributes.key = reinterpret_cast<std::uint64_t>(&index);
  attributes.value = reinterpret_cast<std::uint64_t>(&value);
  if (call(BPF_MAP_LOOKUP_ELEM, attributes) < 0) fail("reading a counter of the BPF programs");
  return value;
}

int make_sampling() {
  return make_map(BPF_MAP_TYPE_ARRAY, 4, 16, 1, "making the sampling of the BPF programs", kMappable);
}

int make_rings(std::size_t bytes, std::uint32_t count) {
  return make_map(BPF_MAP_TYPE_ARRAY, 4, static_cast<std::uint32_t>(bytes), count,
                  "making the rings of the BPF programs", kMappable);
}

int make_names() {
  return make_map(BPF_MAP_TYPE_ARRAY, 4, 4, kNameEntries, "making the map of names of the BPF programs");
}

int make_contexts() {
  return make_map(kPerCpuArray, 4, kContextBytes, 1, "making the contexts of the BPF programs");
}

int make_processes() {
  return make_map(BPF_MAP_TYPE_HASH, 4, 4, 65536, "making the map of processes of the BPF programs");
}

int make_few_processes() {
  return make_map(BPF_MAP_TYPE_ARRAY, 4, 4, kFewProcesses, "making the map of processes of the BPF programs");
}

void add_process(const Processes& processes, std::uint32_t pid) {
  const auto put = [](int map, std::uint32_t key, std::uint32_t value) {
    bpf_attr attributes{};
    attributes.map_fd = static_cast<std::uint32_t>(map);
    attributes.key = reinterpret_cast<std::uint64_t>(&key);
    attributes.value = reinterpret_cast<std::uint64_t>(&value);
    attributes.flags = BPF_ANY;
    if (call(BPF_MAP_UPDATE_ELEM, attributes) < 0) fail("telling the BPF programs of a process");
  };
  put(processes.all, pid, 1);  // first: who finds another one in the entry looks here
  put(processes.few, pid % kFewProcesses, pid);
}

int load(const Program& wanted) {
  return load(program(wanted), wanted.type);
}

int load(const std::vector<bpf_insn>& code, std::uint32_t type) {
  static constexpr std::array<char, 13> kLicence{"Dual BSD/GPL"};
  bpf_attr attributes{};
  attributes.prog_type = type > 0 ? kTypedProgram : BPF_PROG_TYPE_TRACEPOINT;
  attributes.insns = reinterpret_cast<std::uint64_t>(code.data());
  attributes.insn_cnt = static_cast<std::uint32_t>(code.size());
  attributes.license = reinterpret_cast<std::uint64_t>(kLicence.data());
  std::memcpy(attributes.prog_name, "latlab", sizeof("latlab"));
  if (type > 0) {
    attributes.expected_attach_type = static_cast<std::uint32_t>(kTypedAttach);
    attributes.attach_btf_id = type;
  }
  const int loaded = call(BPF_PROG_LOAD, attributes);
  if (loaded < 0) fail("loading a BPF program");
  return loaded;
}

int attach(int program) {
  bpf_attr attributes{};
  attributes.raw_tracepoint.prog_fd = static_cast<std::uint32_t>(program);
  const int opened = call(BPF_RAW_TRACEPOINT_OPEN, attributes);
  if (opened < 0) fail("attaching a BPF program to the kernel's own tracepoint");
  return opened;
}

int attach(int program, std::uint64_t id) {
  perf_event_attr attributes{};
  attributes.size = sizeof(attributes);
  attributes.type = PERF_TYPE_TRACEPOINT;
  attributes.config = id;
  attributes.sample_period = 1;
  attributes.disabled = 1;
  // One descriptor serves all CPUs: the program belongs to the tracepoint. CPU 0 may be offline.
  long opened = -1;
  for (int cpu = 0; cpu < 64 && opened < 0; ++cpu) {
    opened = syscall(SYS_perf_event_open, &attributes, -1, cpu, -1,
                     static_cast<unsigned long>(PERF_FLAG_FD_CLOEXEC));
    if (opened < 0 && errno != ENODEV) break;
  }
  if (opened < 0) fail("opening a tracepoint");
  const int out = static_cast<int>(opened);
  if (ioctl(out, PERF_EVENT_IOC_SET_BPF, program) == 0) return out;
  const int error = errno;
  close(out);
  errno = error;
  fail("attaching a BPF program");
}

std::uint64_t misses(int program) {
  bpf_prog_info info{};
  bpf_attr attributes{};
  attributes.info.bpf_fd = static_cast<std::uint32_t>(program);
  attributes.info.info_len = sizeof(info);
  attributes.info.info = reinterpret_cast<std::uint64_t>(&info);
  if (call(BPF_OBJ_GET_INFO_BY_FD, attributes) < 0) fail("asking what a BPF program missed");
  return info.recursion_misses;
}

}  // namespace latlab::system::bpf
