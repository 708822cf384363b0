#include "market/transport.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "market/itch.hpp"
#include "market/pitch.hpp"

namespace latlab::market {
namespace {

constexpr std::size_t kMaxErrors = 1000;
constexpr std::size_t kMoldHeader = 20;
constexpr std::size_t kUnitHeader = 8;
constexpr std::uint32_t kMaxPacket = 1 << 20;

// Keeps the unconsumed end of the input between pieces.
class Pieces {
 public:
  // The bytes to look at now: the rest of before and the new piece.
  Bytes join(Bytes piece) {
    if (rest_.empty()) return piece;
    rest_.insert(rest_.end(), piece.begin(), piece.end());
    joined_.swap(rest_);
    rest_.clear();
    return joined_;
  }
  void keep(Bytes all, std::size_t consumed) {
    offset_ += consumed;
    const auto rest = all.subspan(consumed);
    rest_.assign(rest.begin(), rest.end());
  }
  [[nodiscard]] std::uint64_t offset() const noexcept { return offset_; }
  [[nodiscard]] Bytes rest() const noexcept { return rest_; }

 private:
  std::vector<std::uint8_t> rest_;
  std::vector<std::uint8_t> joined_;
  std::uint64_t offset_ = 0;
};

class Pcap final : public Transport {
 public:
  void feed(Bytes piece) override {
    const Bytes all = pieces_.join(piece);
    std::size_t at = 0;
    while (!stopped_) {
      const std::size_t used = step(all.subspan(at), pieces_.offset() + at);
      if (used == 0) break;
      at += used;
    }
    pieces_.keep(all, stopped_ ? all.size() : at);
  }

  void finish() override {
    mold_.flush();
    if (!stopped_ && !pieces_.rest().empty()) fail(pieces_.offset(), "the capture ends inside a packet");
  }

 private:
  enum class Format { unknown, pcap, pcapng };

  [[nodiscard]] std::uint32_t u32(const std::uint8_t* at) const noexcept {
    std::uint32_t value = 0;
    std::memcpy(&value, at, 4);
    return swapped_ ? __builtin_bswap32(value) : value;
  }
  [[nodiscard]] std::uint16_t u16(const std::uint8_t* at) const noexcept {
    std::uint16_t value = 0;
    std::memcpy(&value, at, 2);
    return swapped_ ? __builtin_bswap16(value) : value;
  }

  std::size_t stop(std::uint64_t offset, std::string what) {
    fail(offset, std::move(what));
    stopped_ = true;
    return 0;
  }

  // One header, block or packet; returns the bytes used, 0: more are needed.
  std::size_t step(Bytes bytes, std::uint64_t offset) {
    if (format_ == Format::unknown) {
      if (bytes.size() < 4) return 0;
      std::uint32_t magic = 0;
      std::memcpy(&magic, bytes.data(), 4);
      if (magic == 0x0A0D0D0A) {
        format_ = Format::pcapng;
      } else {
        swapped_ = magic == 0xD4C3B2A1 || magic == 0x4D3CB2A1;
        if (!swapped_ && magic != 0xA1B2C3D4 && magic != 0xA1B23C4D) return stop(offset, "not a capture");
        if (bytes.size() < 24) return 0;
        format_ = Format::pcap;
        links_ = {u32(bytes.data() + 20) & 0xFFFF};
        return 24;
      }
    }
    return format_ == Format::pcap ? record(bytes, offset) : block(bytes, offset);
  }

  std::size_t record(Bytes bytes, std::uint64_t offset) {
    if (bytes.size() < 16) return 0;
    const std::uint32_t captured = u32(bytes.data() + 8);
    if (captured > kMaxPacket) return stop(offset, "a packet of " + std::to_string(captured) + " bytes");
    if (bytes.size() < 16 + std::size_t{captured}) return 0;
    link(bytes.subspan(16, captured), links_[0], offset + 16);
    return 16 + std::size_t{captured};
  }

  std::size_t block(Bytes bytes, std::uint64_t offset) {
    if (bytes.size() < 12) return 0;
    std::uint32_t type = 0;
    std::memcpy(&type, bytes.data(), 4);
    if (type == 0x0A0D0D0A) {
      std::uint32_t order = 0;
      std::memcpy(&order, bytes.data() + 8, 4);
      if (order != 0x1A2B3C4D && order != 0x4D3C2B1A) return stop(offset, "a section without a byte order");
      swapped_ = order == 0x4D3C2B1A;
      links_.clear();
    }
    type = u32(bytes.data());
    const std::uint32_t size = u32(bytes.data() + 4);
    if (size < 12 || size % 4 != 0 || size > kMaxPacket) {
      return stop(offset, "a block of " + std::to_string(size) + " bytes");
    }
    if (bytes.size() < size) return 0;
    const Bytes body = bytes.subspan(8, size - 12);
    if (type == 1 && body.size() >= 8 && links_.size() < 65'536) links_.push_back(u16(body.data()));
    if (type == 6 && body.size() >= 20) {
      const std::uint32_t interface = u32(body.data());
      const std::uint32_t captured = u32(body.data() + 12);
      if (captured > body.size() - 20) return stop(offset, "a packet longer than its block");
      if (interface < links_.size()) link(body.subspan(20, captured), links_[interface], offset + 28);
    }
    if (type == 3 && body.size() >= 4 && !links_.empty()) link(body.subspan(4), links_[0], offset + 12);
    return size;
  }

  void link(Bytes packet, std::uint32_t type, std::uint64_t offset) {
    ++counts_.packets;
    std::size_t at = 0;
    std::uint16_t ether = 0;
    if (type == 1) {  // Ethernet, with any number of VLAN tags
      at = 12;
      for (;;) {
        if (packet.size() < at + 2) return ignore();
        ether = itch::big_endian<std::uint16_t>(packet.data() + at);
        at += 2;
        if (ether != 0x8100 && ether != 0x88A8 && ether != 0x9100) break;
        at += 2;
      }
    } else if (type == 113) {  // Linux cooked
      if (packet.size() < 16) return ignore();
      ether = itch::big_endian<std::uint16_t>(packet.data() + 14);
      at = 16;
    } else if (type == 0) {  // BSD loopback
      at = 4;
      ether = packet.size() > 4 && packet[4] >> 4 == 6 ? 0x86DD : 0x0800;
    } else if (type == 101 || type == 228 || type == 229 || type == 12) {  // raw IP
      ether = !packet.empty() && packet[0] >> 4 == 6 ? 0x86DD : 0x0800;
    } else {
      return ignore();
    }
    network(packet, at, ether, offset);
  }

  void network(Bytes packet, std::size_t at, std::uint16_t ether, std::uint64_t offset) {
    if (ether == 0x0800) {
      if (packet.size() < at + 20) return ignore();
      const std::size_t header = std::size_t{packet[at] & 0xFU} * 4;
      const bool fragment = (itch::big_endian<std::uint16_t>(packet.data() + at + 6) & 0x3FFF) != 0;
      if (packet[at + 9] != 17 || header < 20 || fragment) return ignore();
      at += header;
    } else if (ether == 0x86DD) {
      if (packet.size() < at + 40 || packet[at + 6] != 17) return ignore();
      at += 40;
    } else {
      return ignore();
    }
    if (packet.size() < at + 8) return ignore();
    const std::size_t size = itch::big_endian<std::uint16_t>(packet.data() + at + 4);
    if (size < 8 || packet.size() < at + size) {
      ++counts_.malformed;
      fail(offset, "a datagram that was cut short");
      return;
    }
    payload(packet.subspan(at + 8, size - 8), offset + at + 8);
  }

  void payload(Bytes bytes, std::uint64_t offset) {
    if (dialect_ == 0) {
      if (PitchUnits::recognises(bytes)) {
        dialect_ = 'P';
      } else if (Mold::recognises(bytes)) {
        dialect_ = 'I';
      }
    }
    if (dialect_ == 'P') return units_.packet(bytes, offset);
    if (dialect_ == 'I') return mold_.packet(bytes, offset);
    ignore();
  }

  void ignore() { ++counts_.ignored; }

  Pieces pieces_;
  Mold mold_{*this};
  PitchUnits units_{*this};
  std::vector<std::uint32_t> links_;
  Format format_ = Format::unknown;
  bool swapped_ = false;
  bool stopped_ = false;
};

class Soup final : public Transport {
 public:
  Soup() { dialect_ = 'I'; }
  void feed(Bytes piece) override {
    const Bytes all = pieces_.join(piece);
    std::size_t at = 0;
    while (all.size() - at >= 3) {
      const std::size_t size = itch::big_endian<std::uint16_t>(all.data() + at);
      if (all.size() - at - 2 < size) break;
      const std::uint64_t offset = pieces_.offset() + at;
      ++counts_.packets;
      switch (size == 0 ? 0 : all[at + 2]) {
        case 'S':
        case 'U':
          emit(all.subspan(at + 3, size - 1), offset);
          break;
        case 'H':
        case 'R':
          ++counts_.heartbeats;
          break;
        case 'Z':
          ++counts_.ends;
          break;
        case 'A':
        case 'J':
        case 'L':
        case 'O':
        case '+':
          ++counts_.ignored;
          break;
        default:
          ++counts_.malformed;
          fail(offset, "a SoupBinTCP packet of unknown type");
      }
      at += 2 + size;
    }
    pieces_.keep(all, at);
  }
  void finish() override {
    if (!pieces_.rest().empty()) fail(pieces_.offset(), "the stream ends inside a packet");
  }

 private:
  Pieces pieces_;
};

class Units final : public Transport {
 public:
  Units() { dialect_ = 'P'; }
  void feed(Bytes piece) override {
    const Bytes all = pieces_.join(piece);
    std::size_t at = 0;
    while (!stopped_ && all.size() - at >= 2) {
      const std::size_t size = pitch::little_endian<std::uint16_t>(all.data() + at);
      if (size < kUnitHeader) {
        // The units' lengths are all that tells where the next begins: nothing can be found behind a wrong
        // one.
        fail(pieces_.offset() + at, "a unit of " + std::to_string(size) + " bytes");
        stopped_ = true;
        break;
      }
      if (all.size() - at < size) break;
      units_.packet(all.subspan(at, size), pieces_.offset() + at);
      at += size;
    }
    pieces_.keep(all, stopped_ ? all.size() : at);
  }
  void finish() override {
    if (!stopped_ && !pieces_.rest().empty()) fail(pieces_.offset(), "the stream ends inside a unit");
  }

 private:
  Pieces pieces_;
  PitchUnits units_{*this};
  bool stopped_ = false;
};

class Lines final : public Transport {
 public:
  Lines() { dialect_ = 'T'; }
  void feed(Bytes piece) override {
    const Bytes all = pieces_.join(piece);
    std::size_t at = 0;
    for (;;) {
      const auto* begin = all.data() + at;
      const auto* end = static_cast<const std::uint8_t*>(
          at < all.size() ? std::memchr(begin, '\n', all.size() - at) : nullptr);
      if (end == nullptr) break;
      line(Bytes(begin, end), pieces_.offset() + at);
      at += static_cast<std::size_t>(end - begin) + 1;
    }
    if (all.size() - at > kMaxLine) {
      fail(pieces_.offset() + at, "a line of more than 65,535 bytes");
      at = all.size();
    }
    pieces_.keep(all, at);
  }
  void finish() override {
    line(pieces_.rest(), pieces_.offset());
    pieces_ = {};
  }

 private:
  static constexpr std::size_t kMaxLine = 65'535;

  void line(Bytes text, std::uint64_t offset) {
    if (!text.empty() && text.back() == '\r') text = text.first(text.size() - 1);
    if (text.size() > kMaxLine) {
      fail(offset, "a line of more than 65,535 bytes");
    } else if (!text.empty()) {
      emit(text, offset);
    }
  }
  Pieces pieces_;
};

class Packets final : public Transport {
 public:
  Packets() { dialect_ = 'I'; }
  void feed(Bytes packet) override {
    ++counts_.packets;
    mold_.packet(packet, offset_);
    offset_ += packet.size();
  }
  void finish() override { mold_.flush(); }
  [[nodiscard]] Gaps missing() const override { return mold_.missing(); }

 private:
  Mold mold_{*this};
  std::uint64_t offset_ = 0;
};

}  // namespace

void Transport::emit(Bytes message, std::uint64_t input_offset, int prefix) {
  const std::size_t size = message.size() + (prefix >= 0 ? 1 : 0);
  if (size > UINT16_MAX) return;
  origins_.push_back({.stream = stream_ + frames_.size(), .input = input_offset});
  frames_.push_back(static_cast<std::uint8_t>(size >> 8));
  frames_.push_back(static_cast<std::uint8_t>(size));
  if (prefix >= 0) frames_.push_back(static_cast<std::uint8_t>(prefix));
  frames_.insert(frames_.end(), message.begin(), message.end());
}

void Transport::fail(std::uint64_t offset, std::string what) {
  if (errors_.size() < kMaxErrors) errors_.push_back({.offset = offset, .what = std::move(what)});
}

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
  if (!recognises(payload)) {
    ++out_.counts_.malformed;
    out_.fail(input_offset, "not a MoldUDP64 packet");
    return;
  }
  std::array<char, 10> session;
  std::memcpy(session.data(), payload.data(), session.size());
  const auto sequence = itch::big_endian<std::uint64_t>(payload.data() + 10);
  const std::size_t count = itch::big_endian<std::uint16_t>(payload.data() + 18);
  if (sequence != 0 && session != session_) {
    flush();
    // A session is joined where it stands; what came before it was not ours.
    session_ = session;
    expected_ = sequence;
    ended_ = false;
  }
  if (count == 0) ++out_.counts_.heartbeats;
  if (count == UINT16_MAX) {
    ++out_.counts_.ends;
    ended_ = true;
  }
  if (sequence == 0) {
    if (count != 0 && count != UINT16_MAX) deliver(payload, 0, input_offset);
    return;
  }
  if (sequence > expected_) {
    // Too early; a heartbeat too tells what is missing before it, and so does the end of a session.
    held_.try_emplace(sequence, Held{.payload = {payload.begin(), payload.end()}, .offset = input_offset});
    if (held_.size() > kHeldPackets) release();
    return;
  }
  if (count == 0 || count == UINT16_MAX) return;
  const bool filled = !held_.empty();
  const std::uint64_t before = expected_;
  deliver(payload, sequence, input_offset);
  if (filled) out_.counts_.recovered += expected_ - before;
  while (!held_.empty() && held_.begin()->first <= expected_) {
    const auto held = held_.extract(held_.begin());
    deliver(held.mapped().payload, held.key(), held.mapped().offset);
  }
}

void Mold::deliver(Bytes payload, std::uint64_t sequence, std::uint64_t input_offset) {
  std::size_t count = itch::big_endian<std::uint16_t>(payload.data() + 18);
  if (count == UINT16_MAX) count = 0;  // the end of a session, which was held for what is missing before it
  std::size_t at = kMoldHeader;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t size = itch::big_endian<std::uint16_t>(payload.data() + at);
    if (sequence == 0) {
      out_.emit(payload.subspan(at + 2, size), input_offset + at);
    } else if (sequence + i == expected_) {
      out_.emit(payload.subspan(at + 2, size), input_offset + at);
      ++expected_;
    } else {
      ++out_.counts_.duplicates;
    }
    at += 2 + size;
  }
}

// Give up the first gap.
void Mold::release() {
  ++out_.counts_.gaps;
  out_.counts_.lost += held_.begin()->first - expected_;
  expected_ = held_.begin()->first;
  while (!held_.empty() && held_.begin()->first <= expected_) {
    const auto held = held_.extract(held_.begin());
    deliver(held.mapped().payload, held.key(), held.mapped().offset);
  }
}

void Mold::flush() {
  while (!held_.empty()) release();
}

Transport::Gaps Mold::missing() const {
  Transport::Gaps gaps;
  std::uint64_t next = expected_;
  for (const auto& [sequence, held] : held_) {
    if (sequence > next) {
      gaps.emplace_back(next, sequence - next);
      if (gaps.size() == kMostGaps) break;
    }
    const std::uint16_t count = itch::big_endian<std::uint16_t>(held.payload.data() + 18);
    next = std::max(next, sequence + (count == UINT16_MAX ? 0U : count));
  }
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
  if (!recognises(payload)) {
    ++out_.counts_.malformed;
    out_.fail(input_offset, "not a PITCH unit");
    return;
  }
  const std::size_t count = payload[2];
  const std::uint8_t unit = payload[3];
  const auto sequence = pitch::little_endian<std::uint32_t>(payload.data() + 4);
  if (count == 0) ++out_.counts_.heartbeats;
  std::size_t skip = 0;
  if (sequence != 0) {
    auto& expected = expected_[unit];
    if (expected != 0 && sequence > expected) {
      ++out_.counts_.gaps;
      out_.counts_.lost += sequence - expected;
    }
    if (expected > sequence) skip = std::min<std::size_t>(expected - sequence, count);
    out_.counts_.duplicates += skip;
    expected = std::max(expected, sequence + static_cast<std::uint32_t>(count));
  }
  std::size_t at = kUnitHeader;
  for (std::size_t i = 0; i < count; ++i) {
    if (i >= skip) out_.emit(payload.subspan(at, payload[at]), input_offset + at, unit);
    at += payload[at];
  }
}

std::unique_ptr<Transport> make_transport(const std::string& which) {
  if (which == "pcap") return std::make_unique<Pcap>();
  if (which == "soup") return std::make_unique<Soup>();
  if (which == "units") return std::make_unique<Units>();
  if (which == "lines") return std::make_unique<Lines>();
  if (which == "mold") return std::make_unique<Packets>();
  throw std::invalid_argument("no transport '" + which + "'");
}

}  // namespace latlab::market
