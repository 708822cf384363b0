#include "system/cpu_rings.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "system/bpf_program.hpp"

namespace latlab::system {
namespace {

constexpr std::size_t kLeast = 1U << 20U;  // a CPU: 20 ms of 200,000 switches a second
constexpr std::size_t kMost = 1U << 28U;

// The highest number of a CPU that is online, and one more: "0-3,6" gives 7.
std::uint32_t count_cpus() {
  std::ifstream file("/sys/devices/system/cpu/online");
  std::string text;
  if (!std::getline(file, text) || text.empty())
    return static_cast<std::uint32_t>(std::max(1L, sysconf(_SC_NPROCESSORS_CONF)));
  const std::size_t last = text.find_last_of(",-");
  return static_cast<std::uint32_t>(std::stoul(last == std::string::npos ? text : text.substr(last + 1))) + 1;
}

// The columns that every row has; where its record begins.
std::size_t begin(std::uint64_t time_ns, std::uint64_t pid_tgid, std::int32_t cpu, const BpfEvent& event,
                  BpfSamples& to) {
  to.time_ns.push_back(time_ns);
  to.cpu.push_back(cpu);
  to.pid.push_back(static_cast<std::int32_t>(pid_tgid >> 32U));
  to.tid.push_back(static_cast<std::int32_t>(pid_tgid & 0xFFFFFFFFU));
  to.raw_bytes.push_back(event.raw_bytes);
  const std::size_t row = to.raw.size();
  to.raw.resize(row + event.raw_bytes);
  return row;
}

}  // namespace

CpuRings::~CpuRings() {
  if (mapped_ != nullptr) munmap(mapped_, rings_ * (bytes_ + bpf::kRingMore));
  if (map_ >= 0) close(map_);
}

void CpuRings::open(std::size_t all_bytes, std::uint32_t each_cpu) {
  if (mapped_ != nullptr) return;
  const std::uint32_t cpus = count_cpus();
  const std::size_t least = std::min(kLeast, std::bit_floor(all_bytes));
  const std::uint32_t rings = cpus * each_cpu;
  const auto bytes = static_cast<std::uint32_t>(std::clamp(std::bit_floor(all_bytes / rings), least, kMost));
  if (map_ < 0) map_ = bpf::make_rings(bytes + bpf::kRingMore, rings);
  void* mapped = mmap(nullptr, rings * (bytes + bpf::kRingMore), PROT_READ | PROT_WRITE, MAP_SHARED, map_, 0);
  if (mapped == MAP_FAILED)
    throw std::system_error(errno, std::generic_category(), "mapping the rings of the BPF programs");
  mapped_ = static_cast<std::uint8_t*>(mapped);
  cpus_ = cpus;
  rings_ = rings;
  bytes_ = bytes;
}

std::uint64_t CpuRings::lost() const {
  std::uint64_t sum = unread_;
  for (std::uint32_t ring = 0; ring < rings_; ++ring)
    sum += __atomic_load_n(&reinterpret_cast<const bpf::RingHead*>(of(ring))->lost, __ATOMIC_RELAXED);
  return sum;
}

bool fits(bpf::Typed what, const BpfEvent& event) {
  const bool call = bpf::is_call(what);
  const bool chooses = !call && (event.chosen || event.key_at > 0);
  const bool transfer = what == bpf::Typed::kTransfer;
  const bool more = (event.payload_bytes > 0 && !transfer) ||
                    (event.registers && what != bpf::Typed::kSwitch && !transfer) ||
                    (call && event.reports > 0);
  if (chooses || more || (event.adopts_at > 0 && what != bpf::Typed::kFork) || event.keeps_at >= 0 ||
      event.payload_bytes > bpf::kMostCaptured)
    return false;
  std::vector<std::uint32_t> sizes;
  if (what == bpf::Typed::kSwitch) sizes = {16, 4, 4, 8, 16, 4, 4};
  if (what == bpf::Typed::kWaking) sizes = {16, 4, 4, 4};
  if (what == bpf::Typed::kMove) sizes = {16, 4, 4, 4, 4};
  if (what == bpf::Typed::kTransfer) sizes = {8, 2, 2, 4, 4};
  if (what == bpf::Typed::kArrival) sizes = {8, 2, 2};
  if (what == bpf::Typed::kFault) sizes = {8, 8, 8};
  if (what == bpf::Typed::kFork) sizes = {16, 4, 16, 4};
  if (sizes.empty() || sizes.size() != event.places.size()) return false;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    if (event.places[i] > event.raw_bytes || sizes[i] > event.raw_bytes - event.places[i]) return false;
  return true;
}

void append(bpf::Typed what, const bpf::Slot& slot, std::int32_t cpu, const BpfEvent& event,
            const ThreadNames& names, BpfSamples& to) {
  const auto tid = static_cast<std::int32_t>(slot.pid_tgid & 0xFFFFFFFFU);
  const std::size_t row = begin(slot.time_ns, slot.pid_tgid, cpu, event, to);
  const auto put = [&](std::size_t field, const auto& value) {
    if (event.places[field] == 0) return;
    std::memcpy(to.raw.data() + row + event.places[field], &value, sizeof(value));
  };
  const auto prio = static_cast<std::int32_t>(slot.prio), other = static_cast<std::int32_t>(slot.other);
  if (what == bpf::Typed::kSwitch) {
    put(0, names.of(tid, slot.time_ns, cpu));
    put(1, tid);
    put(2, prio);
    put(3, static_cast<std::int64_t>(slot.number));
    put(4, names.of(slot.pid, slot.time_ns, cpu));
    put(5, slot.pid);
    put(6, other);
    if (event.registers) {
      const auto& registers = reinterpret_cast<const bpf::SwitchSlot&>(slot).registers;
      to.registers.insert(to.registers.end(), registers, registers + kBpfRegisters);
    }
  } else {
    put(0, names.of(slot.pid, slot.time_ns, cpu));
    put(1, slot.pid);
    put(2, prio);
    put(3, slot.number);
    if (event.places.size() > 4) put(4, other);
  }
  if (event.reports > 0) to.context.push_back(static_cast<std::int64_t>(slot.context));
}

void append(bpf::Typed what, const bpf::CallSlot& slot, std::int32_t cpu, const BpfEvent& event,
            BpfSamples& to) {
  const std::size_t row = begin(slot.time_ns, slot.pid_tgid, cpu, event, to);
  const auto put = [&](std::size_t field, const auto& value) {
    if (event.places[field] == 0) return;
    std::memcpy(to.raw.data() + row + event.places[field], &value, sizeof(value));
  };
  if (what == bpf::Typed::kFork) {
    char name[2 * sizeof(slot.first)];
    std::memcpy(name, &slot.first, sizeof(slot.first));
    std::memcpy(name + sizeof(slot.first), &slot.fourth, sizeof(slot.fourth));
    put(0, name);
    put(1, static_cast<std::int32_t>(slot.pid_tgid & 0xFFFFFFFFU));
    put(2, name);
    put(3, static_cast<std::int32_t>(slot.subject));
    return;
  }
  put(0, slot.subject);
  if (what == bpf::Typed::kFault) {
    put(1, slot.first);
    put(2, slot.fourth);
    return;
  }
  put(1, slot.family);
  put(2, slot.protocol);
  if (what == bpf::Typed::kArrival) return;
  put(3, slot.result);
  put(4, slot.flags);
  if (event.registers) {
    const std::int64_t registers[kBpfRegisters] = {slot.call, slot.first, slot.fourth};
    to.registers.insert(to.registers.end(), registers, registers + kBpfRegisters);
  }
  if (event.payload_bytes == 0) return;
  const std::uint64_t captured = std::min(slot.captured, event.payload_bytes);
  const std::size_t begin_at = to.payload.size();
  to.payload.resize(begin_at + event.payload_bytes + sizeof(captured));
  std::memcpy(to.payload.data() + begin_at, &captured, sizeof(captured));
  std::memcpy(to.payload.data() + begin_at + sizeof(captured),
              reinterpret_cast<const std::uint8_t*>(&slot) + sizeof(slot), captured);
}

}  // namespace latlab::system
