#include <cstring>
#include <utility>

#include "market/datagrams.hpp"
#include "market/itch.hpp"
#include "market/pieces.hpp"
#include "market/resync.hpp"
#include "market/transport.hpp"

namespace latlab::market {
namespace {

constexpr std::uint32_t kMaxPacket = 1 << 20;

class Pcap final : public Transport {
 public:
  void feed(Bytes piece) override {
    const Bytes all = pieces_.join(piece);
    std::size_t at = 0;
    while (!stopped_ && at < all.size()) {
      const std::size_t used = step(all.subspan(at), pieces_.offset() + at);
      if (used == 0) break;
      at += used;
    }
    pieces_.keep(all, stopped_ ? all.size() : at);
  }

  void finish() override {
    last_ = true;
    if (lost_) feed({});
    if (!stopped_ && !pieces_.rest().empty()) {
      fail(pieces_.offset(), "the capture ends inside a packet");
      lost_ = format_ != Format::unknown;  // its length may be what is wrong
      if (lost_) feed({});
    }
    datagrams_.flush();
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

  // Something that can't be: from its next byte on, where packets go on is looked for.
  std::size_t lose(std::uint64_t offset, std::string what) {
    malformed(offset, std::move(what));
    lost_ = true;
    return 1;
  }
  // The bytes before the next row of packets, or all that can't be its beginning.
  std::size_t look(Bytes bytes) {
    const auto length = [this](Bytes at) {
      return format_ == Format::pcap ? record_length(at) : block_length(at);
    };
    const Row next = find_row(bytes, 0, length, last_);
    lost_ = !next.found || next.at != 0;
    return next.at;
  }

  // Of a plausible record or block; see find_row.
  [[nodiscard]] std::size_t record_length(Bytes at) const noexcept {
    if (at.size() < 16) return kMoreNeeded;
    const std::uint32_t captured = u32(at.data() + 8);
    const std::uint32_t original = u32(at.data() + 12);
    const bool plausible = captured <= kMaxPacket && captured != 0 && original >= captured &&
                           original <= kMaxPacket && u32(at.data() + 4) < 1'000'000'000;
    return plausible ? 16 + std::size_t{captured} : 0;
  }
  [[nodiscard]] std::size_t block_length(Bytes at) const noexcept {
    if (at.size() < 8) return kMoreNeeded;
    const std::uint32_t size = u32(at.data() + 4);
    if (size < 12 || size % 4 != 0 || size > kMaxPacket) return 0;
    if (at.size() < size) return kMoreNeeded;
    return u32(at.data() + size - 4) == size ? size : 0;
  }

  // One header, block or packet; returns the bytes used, 0: more are needed.
  std::size_t step(Bytes bytes, std::uint64_t offset) {
    if (lost_) {
      const std::size_t jumped = look(bytes);
      if (lost_ || jumped != 0) return jumped;
    }
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
    if (captured > kMaxPacket || u32(bytes.data() + 12) < captured)
      return lose(offset, "a packet of " + std::to_string(captured) + " bytes");
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
      return lose(offset, "a block of " + std::to_string(size) + " bytes");
    }
    if (bytes.size() < size) return 0;
    if (u32(bytes.data() + size - 4) != size) return lose(offset, "a block with two lengths");
    const Bytes body = bytes.subspan(8, size - 12);
    if (type == 1 && body.size() >= 8 && links_.size() < 65'536) links_.push_back(u16(body.data()));
    if (type == 6 && body.size() >= 20) {
      const std::uint32_t interface = u32(body.data());
      const std::uint32_t captured = u32(body.data() + 12);
      if (captured > body.size() - 20) {
        malformed(offset, "a packet longer than its block");
      } else if (interface < links_.size()) {
        link(body.subspan(20, captured), links_[interface], offset + 28);
      } else {
        malformed(offset, "a packet of an interface that the capture does not describe");
      }
    }
    if (type == 3 && body.size() >= 4 && !links_.empty()) link(body.subspan(4), links_[0], offset + 12);
    return size;
  }

  void link(Bytes packet, std::uint32_t type, std::uint64_t offset) {
    ++counts_.packets;
    std::size_t at = 0;
    std::uint16_t ether = 0;
    if (type == 1) {  // Ethernet
      if (packet.size() < 14) return cut(offset);
      ether = itch::big_endian<std::uint16_t>(packet.data() + 12);
      at = 14;
    } else if (type == 113) {  // Linux cooked
      if (packet.size() < 16) return cut(offset);
      ether = itch::big_endian<std::uint16_t>(packet.data() + 14);
      at = 16;
    } else if (type == 276) {  // Linux cooked, version 2: of `tcpdump -i any`
      if (packet.size() < 20) return cut(offset);
      ether = itch::big_endian<std::uint16_t>(packet.data());
      at = 20;
    } else if (type == 0 || type == 108) {  // BSD loopback, OpenBSD's
      at = 4;
      ether = packet.size() > 4 && packet[4] >> 4 == 6 ? 0x86DD : 0x0800;
    } else if (type == 101 || type == 228 || type == 229 || type == 12) {  // raw IP
      ether = !packet.empty() && packet[0] >> 4 == 6 ? 0x86DD : 0x0800;
    } else {
      if (std::exchange(foreign_, type) != type) {
        fail(offset, "packets of link type " + std::to_string(type) +
                         ", which is not read; known are Ethernet (1), Linux cooked (113, 276), BSD loopback "
                         "(0, 108) and raw IP (101)");
      }
      return ignore();
    }
    while (ether == 0x8100 || ether == 0x88A8 || ether == 0x9100) {  // VLAN tags
      if (packet.size() < at + 4) return cut(offset);
      ether = itch::big_endian<std::uint16_t>(packet.data() + at + 2);
      at += 4;
    }
    network(packet, at, ether, offset);
  }

  void cut(std::uint64_t offset) { malformed(offset, "a packet that was cut short"); }

  void network(Bytes packet, std::size_t at, std::uint16_t ether, std::uint64_t offset) {
    Bytes to;
    if (ether == 0x0800) {
      if (packet.size() < at + 20) return cut(offset);
      const std::size_t header = std::size_t{packet[at] & 0xFU} * 4;
      const bool fragment = (itch::big_endian<std::uint16_t>(packet.data() + at + 6) & 0x3FFF) != 0;
      if (packet[at + 9] != 17 || header < 20 || fragment) return ignore();
      to = packet.subspan(at + 16, 4);
      at += header;
    } else if (ether == 0x86DD) {
      if (packet.size() < at + 40) return cut(offset);
      if (packet[at + 6] != 17) return ignore();
      to = packet.subspan(at + 24, 16);
      at += 40;
    } else {
      return ignore();
    }
    if (packet.size() < at + 8) return cut(offset);
    const std::size_t size = itch::big_endian<std::uint16_t>(packet.data() + at + 4);
    const std::uint64_t flow = hash(to) ^ itch::big_endian<std::uint16_t>(packet.data() + at + 2);
    if (size < 8 || packet.size() < at + size) {
      return datagrams_.doubtful(offset, flow, "a datagram that was cut short", true);
    }
    datagrams_.packet(packet.subspan(at + 8, size - 8), offset + at + 8, flow);
  }

  static std::uint64_t hash(Bytes address) noexcept {  // FNV-1a, with room for a port below
    std::uint64_t sum = 0xcbf29ce484222325U;
    for (const std::uint8_t byte : address) sum = (sum ^ byte) * 0x100000001b3U;
    return sum << 16U;
  }

  void ignore() { ++counts_.ignored; }

  Pieces pieces_;
  Datagrams datagrams_{*this};
  std::vector<std::uint32_t> links_;
  Format format_ = Format::unknown;
  bool swapped_ = false;
  bool stopped_ = false;
  bool lost_ = false;                   // among bytes that are no packets
  bool last_ = false;                   // no more bytes will come
  std::uint32_t foreign_ = UINT32_MAX;  // the link type that was last refused
};

}  // namespace

std::unique_ptr<Transport> make_capture() {
  return std::make_unique<Pcap>();
}

}  // namespace latlab::market
