#include "market/datagrams.hpp"

#include <cstring>

#include "market/itch.hpp"
#include "market/pitch.hpp"

namespace latlab::market {
namespace {

constexpr std::size_t kMoldHeader = 20;

}  // namespace

bool Mold::recognises(Bytes payload) {
  if (payload.size() < kMoldHeader) return false;
  const std::size_t count = itch::big_endian<std::uint16_t>(payload.data() + 18);
  if (count == UINT16_MAX || count == 0) return payload.size() == kMoldHeader;
  std::size_t at = kMoldHeader;
  for (std::size_t i = 0; i < count; ++i) {
    if (payload.size() - at < 2) return false;
    const std::size_t size = itch::big_endian<std::uint16_t>(payload.data() + at);
    if (payload.size() - at - 2 < size) return false;
    at += 2 + size;
  }
  return true;
}

void Mold::packet(Bytes payload, std::uint64_t input_offset) {
  if (!recognises(payload)) return out_.malformed(input_offset, "not a MoldUDP64 packet");
  std::array<char, 10> session;
  std::memcpy(session.data(), payload.data(), session.size());
  const auto first = itch::big_endian<std::uint64_t>(payload.data() + 10);
  std::uint64_t count = itch::big_endian<std::uint16_t>(payload.data() + 18);
  if (first != 0 && session != session_) {
    flush();
    session_ = session;
    sequence_.restart(first);
  }
  out_.counts_.heartbeats += count == 0;
  if (count ==
      UINT16_MAX) {  // the end of the session; it is held like any other for what is missing before it
    ++out_.counts_.ends;
    count = 0;
  }
  if (first == 0) {
    if (count != 0) take(payload, input_offset, 0);
    return;
  }
  sequence_.packet(
      first, count, payload, input_offset, out_.counts_,
      [this](Bytes held, std::uint64_t offset, std::uint64_t skip) { take(held, offset, skip); });
  if (sequence_.exceeds(kHeldPackets, kHeldBytes)) release();
}

void Mold::take(Bytes payload, std::uint64_t input_offset, std::uint64_t skip) {
  const std::size_t count = itch::big_endian<std::uint16_t>(payload.data() + 18);
  std::size_t at = kMoldHeader;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t size = itch::big_endian<std::uint16_t>(payload.data() + at);
    if (i >= skip) out_.emit(payload.subspan(at + 2, size), input_offset + at);
    at += 2 + size;
  }
}

void Mold::release() {
  sequence_.release(out_.counts_, [this](Bytes held, std::uint64_t offset, std::uint64_t skip) {
    take(held, offset, skip);
  });
}

void Mold::flush() {
  while (sequence_.waits()) release();
}

Transport::Gaps Mold::missing() const {
  Transport::Gaps gaps;
  sequence_.missing(gaps);
  return gaps;
}

bool PitchUnits::recognises(Bytes payload) {
  if (payload.size() < kUnitHeader) return false;
  const std::size_t size = pitch::little_endian<std::uint16_t>(payload.data());
  if (size < kUnitHeader || size > payload.size()) return false;
  std::size_t at = kUnitHeader;
  for (std::size_t left = payload[2]; left != 0; --left) {
    if (at + 2 > size || payload[at] < 2 || payload[at] > size - at) return false;
    at += payload[at];
  }
  return at == size;
}

void PitchUnits::packet(Bytes payload, std::uint64_t input_offset) {
  if (!recognises(payload)) return out_.malformed(input_offset, "not a PITCH unit");
  const std::size_t count = payload[2];
  const auto first = pitch::little_endian<std::uint32_t>(payload.data() + 4);
  out_.counts_.heartbeats += count == 0;
  if (first == 0) {  // not sequenced
    if (count != 0) take(payload, input_offset, 0);
    return;
  }
  auto& sequence = sequences_[payload[3]];
  const auto on = [this](Bytes held, std::uint64_t offset, std::uint64_t skip) { take(held, offset, skip); };
  sequence.packet(first, count, payload, input_offset, out_.counts_, on);
  if (sequence.exceeds(held_, kHeldBytes / 64)) sequence.release(out_.counts_, on);
}

void PitchUnits::take(Bytes payload, std::uint64_t input_offset, std::uint64_t skip) {
  const std::size_t count = payload[2];
  std::size_t at = kUnitHeader;
  std::size_t i = 0;
  for (; i < skip; ++i) at += payload[at];
  if (!whole_) {
    for (; i < count; ++i) {
      out_.emit(payload.subspan(at, payload[at]), input_offset + at, payload[3]);
      at += payload[at];
    }
    return;
  }
  const std::size_t end = pitch::little_endian<std::uint16_t>(payload.data());
  const auto size = static_cast<std::uint16_t>(kUnitHeader + end - at);
  const std::uint32_t first = pitch::little_endian<std::uint32_t>(payload.data() + 4);
  std::array<std::uint8_t, kUnitHeader> header{};
  std::memcpy(header.data(), &size, 2);
  header[2] = static_cast<std::uint8_t>(count - skip);
  header[3] = payload[3];
  const std::uint32_t sequence = first == 0 ? 0 : first + static_cast<std::uint32_t>(skip);
  std::memcpy(header.data() + 4, &sequence, 4);
  out_.frames_.insert(out_.frames_.end(), header.begin(), header.end());
  const auto rest = payload.subspan(at, end - at);
  out_.frames_.insert(out_.frames_.end(), rest.begin(), rest.end());
}

void PitchUnits::flush() {
  for (auto& sequence : sequences_) {
    while (sequence.waits()) {
      sequence.release(out_.counts_, [this](Bytes held, std::uint64_t offset, std::uint64_t skip) {
        take(held, offset, skip);
      });
    }
  }
}

Transport::Gaps PitchUnits::missing() const {
  Transport::Gaps gaps;
  for (const auto& sequence : sequences_) sequence.missing(gaps);
  return gaps;
}

void Datagrams::packet(Bytes payload, std::uint64_t input_offset, std::uint64_t flow) {
  const auto known = flows_.find(flow);
  if (known == flows_.end() || !known->second.of_feed) {
    const bool unit = out_.dialect_ != 'I' && PitchUnits::recognises(payload);
    if (!unit && (out_.dialect_ == 'P' || !Mold::recognises(payload))) {
      return doubtful(input_offset, flow, "no packet of a feed", false);
    }
    out_.dialect_ = unit ? 'P' : 'I';
    of_feed(flow);
  }
  if (out_.dialect_ == 'P') return units_.packet(payload, input_offset);
  mold_.packet(payload, input_offset);
}

void Datagrams::doubtful(std::uint64_t input_offset, std::uint64_t flow, const char* what, bool cut) {
  if (flows_.size() < kMostFlows || flows_.contains(flow)) {
    Flow& found = flows_[flow];
    if (found.of_feed) return out_.malformed(input_offset, what);
    if (found.doubtful++ == 0) {
      found.first = input_offset;
      found.what = what;
    }
    found.cut = found.cut || cut;
  }
  ++out_.counts_.ignored;
}

void Datagrams::of_feed(std::uint64_t flow) {
  if (flows_.size() >= kMostFlows && !flows_.contains(flow)) return;
  Flow& found = flows_[flow];
  found.of_feed = true;
  for (; found.doubtful != 0; --found.doubtful) {
    --out_.counts_.ignored;
    out_.malformed(found.first, found.what);
  }
}

void Datagrams::flush() {
  mold_.flush();
  units_.flush();
  if (out_.dialect_ != 0) return;
  // No feed at all: what was cut short may have been one.
  for (auto& [flow, found] : flows_) {
    for (; found.doubtful != 0 && found.cut; --found.doubtful) {
      --out_.counts_.ignored;
      out_.malformed(found.first, found.what);
    }
  }
}

}  // namespace latlab::market
