#include "market/transport.hpp"

#include <cstring>
#include <stdexcept>
#include <utility>

#include "market/datagrams.hpp"
#include "market/itch.hpp"
#include "market/pieces.hpp"
#include "market/pitch.hpp"

namespace latlab::market {
namespace {

constexpr std::size_t kMaxErrors = 1000;

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
          malformed(offset, "a SoupBinTCP packet of unknown type");
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
    units_.flush();
    if (!stopped_ && !pieces_.rest().empty()) fail(pieces_.offset(), "the stream ends inside a unit");
  }

 private:
  Pieces pieces_;
  PitchUnits units_{*this, 0};
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

// Packets from sockets, one a call.
template <class Protocol>
class Packets final : public Transport {
 public:
  template <class... Args>
  explicit Packets(char dialect, Args... args) : protocol_(*this, args...) {
    dialect_ = dialect;
  }
  void feed(Bytes packet) override {
    ++counts_.packets;
    protocol_.packet(packet, offset_);
    offset_ += packet.size();
  }
  void finish() override { protocol_.flush(); }
  [[nodiscard]] Gaps missing() const override { return protocol_.missing(); }

 private:
  Protocol protocol_;
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
  if (errors_.empty()) sound_ = frames_.size();
  if (errors_.size() < kMaxErrors) errors_.push_back({.offset = offset, .what = std::move(what)});
}

std::unique_ptr<Transport> make_transport(const std::string& which) {
  if (which == "pcap") return make_capture();
  if (which == "soup") return std::make_unique<Soup>();
  if (which == "units") return std::make_unique<Units>();
  if (which == "lines") return std::make_unique<Lines>();
  if (which == "mold") return std::make_unique<Packets<Mold>>('I');
  if (which == "pitch") return std::make_unique<Packets<PitchUnits>>('P', kHeldPackets / 16, true);
  throw std::invalid_argument("no transport '" + which + "'");
}

}  // namespace latlab::market
