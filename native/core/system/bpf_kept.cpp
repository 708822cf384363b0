#include "system/bpf_kept.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "system/bpf_program.hpp"
#include "system/cpu_rings.hpp"

namespace latlab::system {
namespace {

constexpr std::int64_t kMostDescriptor = 1LL << 20U;
constexpr std::size_t kStateAt = 3;  // of a switch's places

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

// The bytes of its slot without what a call moved.
std::size_t bytes_of(bpf::Typed what, const BpfEvent& event) {
  if (what == bpf::Typed::kArrival) return bpf::kArrivalBytes;
  if (bpf::is_call(what)) return sizeof(bpf::CallSlot);
  return what == bpf::Typed::kSwitch && event.registers ? sizeof(bpf::SwitchSlot) : sizeof(bpf::Slot);
}

// A slot like it was of this, too: a switch's or a wake-up's other thread, a call's descriptor, a socket.
std::uint64_t like(bpf::Typed what, const bpf::Slot& slot) {
  if (what == bpf::Typed::kTransfer)
    return static_cast<std::uint64_t>(reinterpret_cast<const bpf::CallSlot&>(slot).first);
  if (bpf::is_call(what)) return reinterpret_cast<const bpf::CallSlot&>(slot).subject;
  return static_cast<std::uint64_t>(slot.pid);
}

std::size_t place_of(std::uint64_t key) {
  return (key * bpf::kSpread) >> 56U;  // below 256
}

template <class Value>
Value value_at(const BpfSamples& samples, std::size_t place) {
  Value out{};
  std::memcpy(&out, samples.raw.data() + samples.raw.size() - samples.raw_bytes.back() + place, sizeof(out));
  return out;
}

}  // namespace

BpfKept::BpfKept(std::vector<BpfEvent> events, std::size_t most_bytes,
                 const std::vector<std::int32_t>& watched_calls)
    : events_(std::move(events)), most_bytes_(most_bytes), counts_(events_.size()) {
  for (const std::int32_t call : watched_calls) {
    if (call < 0) continue;
    watched_.resize(std::max(watched_.size(), static_cast<std::size_t>(call) + 1));
    watched_[static_cast<std::size_t>(call)] = true;
  }
  clear();
}

void BpfKept::keep(const std::uint8_t* record, std::size_t bytes) {
  bpf::RecordHead head{};
  if (bytes < sizeof(head)) return;
  std::memcpy(&head, record, sizeof(head));
  if (head.event >= events_.size()) return;
  const BpfEvent& event = events_[head.event];
  const bool has_registers = event.registers && with_registers;
  const std::size_t payload = has_registers && event.payload_bytes > 0 ? event.payload_bytes + 8U : 0;
  const std::size_t before = sizeof(head) + (has_registers ? bpf::kRegisterBytes : 0) + payload;
  if (bytes < before + event.raw_bytes) return;
  const std::size_t room = sizeof(head) + event.raw_bytes + payload + (has_registers ? kBpfRegisters * 8 : 0);
  if (!has_room(room)) return;
  BpfSamples& samples = kept_[head.event];
  samples.time_ns.push_back(head.time_ns);
  samples.cpu.push_back(static_cast<std::int32_t>(head.cpu));
  samples.pid.push_back(static_cast<std::int32_t>(head.pid_tgid >> 32U));
  samples.tid.push_back(static_cast<std::int32_t>(head.pid_tgid & 0xFFFFFFFFU));
  samples.raw_bytes.push_back(event.raw_bytes);
  samples.raw.insert(samples.raw.end(), record + before, record + before + event.raw_bytes);
  if (event.reports > 0) samples.context.push_back(static_cast<std::int64_t>(head.context));
  if (has_registers) keep_registers(record + sizeof(head), samples.registers);
  if (payload > 0) samples.payload.insert(samples.payload.end(), record + before - payload, record + before);
  note(event, samples);
}

void BpfKept::keep(std::int32_t cpu, const bpf::Slot& slot, bpf::Typed what) {
  if (what == bpf::Typed::kName && slot.bytes == sizeof(bpf::NameSlot)) {
    names_.add(reinterpret_cast<const bpf::NameSlot&>(slot));
    return;
  }
  // A record that no program of ours wrote: who else has the memory may spoil it, and not end us.
  if (slot.event >= events_.size() || what == bpf::Typed::kNone || what == bpf::Typed::kInterrupt) {
    ++dropped_;
    return;
  }
  const BpfEvent& event = events_[slot.event];
  const std::size_t least = bytes_of(what, event);
  const bool transfer = what == bpf::Typed::kTransfer;
  const std::size_t captured =
      transfer && slot.bytes >= least ? reinterpret_cast<const bpf::CallSlot&>(slot).captured : 0;
  if (slot.bytes < least || captured > slot.bytes - least || (!transfer && slot.bytes != least)) {
    ++dropped_;
    return;
  }
  if (!has_room(slot.bytes)) return;
  if (!slots_.add(cpu, slot, least + captured, like(what, slot))) {
    ++dropped_;
    return;
  }
  ++slot_counts_[slot.event];
  note(event, slot, what);
}

// Of what just came.
void BpfKept::note(const BpfEvent& event, const bpf::Slot& slot, bpf::Typed what) {
  const auto pid = static_cast<std::int32_t>(slot.pid_tgid >> 32U);
  if (what == bpf::Typed::kSwitch) {
    const auto& registers = reinterpret_cast<const bpf::SwitchSlot&>(slot).registers;
    if (event.registers && (slot.number & 0xFF) != 0 && is_watched(registers[kBpfCall]))
      note_descriptor(pid, registers[kBpfFirst]);
  } else if (what == bpf::Typed::kFork && event.adopts_at > 0) {
    const auto& fork = reinterpret_cast<const bpf::CallSlot&>(slot);
    notes_.children.insert(notes_.children.end(), {pid, static_cast<std::int32_t>(fork.subject)});
  } else if (what == bpf::Typed::kTransfer) {
    const auto& call = reinterpret_cast<const bpf::CallSlot&>(slot);
    count(event, call.subject);
    if (event.registers) note_descriptor(pid, call.first);
  }
}

void BpfKept::count(const BpfEvent& event, std::uint64_t key) {
  if (!event.counted) return;
  const auto index = static_cast<std::uint32_t>(&event - events_.data());
  Count& here = counting_[place_of(key + index)];
  if (here.key != key || here.event != index) {
    if (here.count > 0) counts_[here.event][here.key] += here.count;
    here = {key, index, 0};
  }
  ++here.count;
}

bool BpfKept::has_room(std::size_t bytes) {
  if (kept_bytes_ + bytes > most_bytes_) {
    ++dropped_;
    return false;
  }
  kept_bytes_ += bytes;
  return true;
}

bool BpfKept::is_watched(std::int64_t call) const {
  return call >= 0 && static_cast<std::size_t>(call) < watched_.size() &&
         watched_[static_cast<std::size_t>(call)];
}

// Of the row that came last.
void BpfKept::note(const BpfEvent& event, const BpfSamples& samples) {
  if (event.adopts_at > 0)
    notes_.children.insert(notes_.children.end(),
                           {samples.pid.back(), value_at<std::int32_t>(samples, event.adopts_at)});
  if (event.counted) count(event, value_at<std::uint64_t>(samples, event.key_at));
  if (!event.registers || samples.registers.empty()) return;
  const std::int64_t* registers = samples.registers.data() + samples.registers.size() - kBpfRegisters;
  // Of a switch only what the thread waits for.
  if (event.places.size() == kSwitchPlaces &&
      ((value_at<std::int64_t>(samples, event.places[kStateAt]) & 0xFF) == 0 ||
       !is_watched(registers[kBpfCall])))
    return;
  note_descriptor(samples.pid.back(), registers[kBpfFirst]);
}

void BpfKept::note_descriptor(std::int32_t pid, std::int64_t descriptor) {
  if (descriptor < 0 || descriptor >= kMostDescriptor) return;
  const std::uint64_t key = (static_cast<std::uint64_t>(static_cast<std::uint32_t>(pid)) << 32U) |
                            static_cast<std::uint64_t>(descriptor);
  std::uint64_t& recent = recent_[place_of(key)];
  if (key + 1 == recent) return;
  recent = key + 1;
  if (noted_.insert(key).second)
    notes_.descriptors.insert(notes_.descriptors.end(), {pid, static_cast<std::int32_t>(descriptor)});
}

BpfKept::Taken BpfKept::take() {
  Taken out{std::move(kept_), std::exchange(slots_, {}), std::move(slot_counts_), names_};
  clear();
  return out;
}

std::vector<BpfSamples> BpfKept::columns_of(Taken taken, const std::vector<bpf::Typed>& kinds) const {
  for (std::size_t i = 0; i < events_.size(); ++i) {
    BpfSamples& samples = taken.columns[i];
    const std::size_t rows = taken.counts[i];
    if (rows == 0) continue;
    samples.time_ns.reserve(rows);
    samples.cpu.reserve(rows);
    samples.pid.reserve(rows);
    samples.tid.reserve(rows);
    samples.raw_bytes.reserve(rows);
    samples.raw.reserve(rows * events_[i].raw_bytes);
    if (events_[i].registers) samples.registers.reserve(rows * kBpfRegisters);
    if (events_[i].reports > 0) samples.context.reserve(rows);
    samples.payload.reserve(rows * samples.payload_stride);
  }
  taken.slots.drain([&](std::int32_t cpu, const bpf::Slot& slot) {
    const bpf::Typed what = kinds[slot.event];
    if (bpf::is_call(what))
      append(what, reinterpret_cast<const bpf::CallSlot&>(slot), cpu, events_[slot.event],
             taken.columns[slot.event]);
    else
      append(what, slot, cpu, events_[slot.event], taken.names, taken.columns[slot.event]);
  });
  return std::move(taken.columns);
}

std::vector<std::uint64_t> BpfKept::waiting() const {
  std::vector<std::uint64_t> out = slot_counts_;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] += kept_[i].time_ns.size();
  return out;
}

BpfNotes BpfKept::notes() {
  // From here on each is news again: a descriptor that is closed and opened anew is another thing.
  noted_.clear();
  recent_.fill(0);
  return std::exchange(notes_, {});
}

std::vector<BpfCounts> BpfKept::counts() {
  std::vector<BpfCounts> out(events_.size());
  for (Count& one : counting_) {
    if (one.count > 0) counts_[one.event][one.key] += one.count;
    one = {};
  }
  for (std::size_t i = 0; i < events_.size(); ++i) {
    for (const auto& [key, count] : counts_[i]) {
      out[i].keys.push_back(key);
      out[i].counts.push_back(count);
    }
    counts_[i].clear();
  }
  return out;
}

void BpfKept::clear() {
  kept_.assign(events_.size(), {});
  slot_counts_.assign(events_.size(), 0);
  for (std::size_t i = 0; i < events_.size(); ++i) {
    kept_[i].stride = events_[i].raw_bytes;
    kept_[i].payload_stride = events_[i].payload_bytes > 0 ? events_[i].payload_bytes + 8U : 0;
  }
  kept_bytes_ = 0;
}

}  // namespace latlab::system
