#include "market/transport.hpp"

#include <cstring>
#include <stdexcept>
#include <utility>

#include "market/datagrams.hpp"
#include "market/itch.hpp"
#include "market/pieces.hpp"
#include "market/pitch.hpp"
#include "market/resync.hpp"

namespace latlab::market {
namespace {

// Things one behind the other, each of which says how long it is: of what is implausible the end isn't known.
class Chain : public Transport {
 public:
  void feed(Bytes piece) override {
    const Bytes all = pieces_.join(piece);
    const auto likely = [this](Bytes from) { return plausible(from); };
    std::size_t at = 0;
    while (at < all.size()) {
      const Bytes rest = all.subspan(at);
      if (lost_) {
        const Row next = find_row(rest, 0, likely, last_);
        lost_ = !next.found;
        at += next.at;
        if (next.undecided) break;
        continue;
      }
      const std::size_t size = whole(rest);
      if (size == kMoreNeeded) break;
      const std::uint64_t offset = pieces_.offset() + at;
      if (size == 0) {
        malformed(offset, complaint(rest));
        lost_ = true;
        ++at;
      } else {
        bool right = true;
        if (doubtful(rest.first(size)) && !(last_ && size == rest.size())) {
          // The nearest row tells whether it is the length that is wrong: a far one may be met by chance.
          const Row next = find_row(rest, 1, likely, last_);
          if (next.undecided) break;
          right = next.found && next.at == size;
        }
        take(rest.first(size), offset);
        lost_ = !right;
        at += right ? size : 1;
      }
    }
    pieces_.keep(all, at);
  }
  void finish() override {
    last_ = true;
    if (lost_ || !pieces_.rest().empty()) feed({});
    if (!pieces_.rest().empty()) {
      fail(pieces_.offset(), std::string("the stream ends inside a ") + name());
      lost_ = true;  // its length may be what is wrong
      feed({});
    }
    over();
  }

 private:
  // The length of what begins here; 0: it can't be, kMoreNeeded: it isn't all there.
  [[nodiscard]] virtual std::size_t whole(Bytes rest) const = 0;
  // The same, by all that may be known of it: of what stands behind damage.
  [[nodiscard]] virtual std::size_t plausible(Bytes rest) const = 0;
  // Whether its length is not what its type has.
  [[nodiscard]] virtual bool doubtful(Bytes) const { return false; }
  virtual void take(Bytes one, std::uint64_t offset) = 0;
  virtual void over() {}
  [[nodiscard]] virtual std::string complaint(Bytes rest) const = 0;
  [[nodiscard]] virtual const char* name() const = 0;

  Pieces pieces_;
  bool lost_ = false;
  bool last_ = false;
};

class Soup final : public Chain {
 public:
  Soup() { dialect_ = 'I'; }

 private:
  [[nodiscard]] std::size_t whole(Bytes rest) const override {
    if (rest.size() < 3) return kMoreNeeded;
    const std::size_t size = itch::big_endian<std::uint16_t>(rest.data());
    if (!has_size(rest[2], size)) return 0;
    return rest.size() < 2 + size ? kMoreNeeded : 2 + size;
  }
  // All but messages and debug packets have one size (SoupBinTCP 4.00).
  static bool has_size(std::uint8_t type, std::size_t size) {
    switch (type) {
      case 'S':
      case 'U':
      case '+':
        return size != 0;
      case 'H':
      case 'R':
      case 'Z':
      case 'O':
        return size == 1;
      case 'J':
        return size == 2;
      case 'A':
        return size == 31;
      case 'L':
        return size == 47;
      default:
        return false;
    }
  }
  [[nodiscard]] std::size_t plausible(Bytes rest) const override {
    if (rest.size() < 4) return rest.size() == 3 && rest[1] == 1 ? whole(rest) : kMoreNeeded;
    const std::size_t size = itch::big_endian<std::uint16_t>(rest.data());
    switch (rest[2]) {
      case 'S':
      case 'U':
        return itch::kLengths[rest[3]] != 0 && size == 1U + itch::kLengths[rest[3]] ? whole(rest) : 0;
      case 'H':
      case 'R':
      case 'Z':
      case 'O':
        return size == 1 ? 3 : 0;
      default:
        return 0;
    }
  }
  [[nodiscard]] bool doubtful(Bytes one) const override {
    if ((one[2] != 'S' && one[2] != 'U') || one.size() < 4) return false;
    const std::size_t size = itch::kLengths[one[3]];
    return size != 0 && one.size() != 3 + size;
  }
  void take(Bytes one, std::uint64_t offset) override {
    ++counts_.packets;
    switch (one[2]) {
      case 'S':
      case 'U':
        emit(one.subspan(3), offset);
        break;
      case 'H':
      case 'R':
        ++counts_.heartbeats;
        break;
      case 'Z':
        ++counts_.ends;
        break;
      default:
        ++counts_.ignored;
    }
  }
  [[nodiscard]] std::string complaint(Bytes) const override {
    return "a SoupBinTCP packet of unknown type or size";
  }
  [[nodiscard]] const char* name() const override { return "packet"; }
};

class Units final : public Chain {
 public:
  Units() { dialect_ = 'P'; }

 private:
  [[nodiscard]] std::size_t whole(Bytes rest) const override {
    if (rest.size() < 2) return kMoreNeeded;
    const std::size_t size = pitch::little_endian<std::uint16_t>(rest.data());
    if (size < kUnitHeader) return 0;
    if (rest.size() < size) return kMoreNeeded;
    return PitchUnits::recognises(rest.first(size)) ? size : 0;
  }
  [[nodiscard]] std::size_t plausible(Bytes rest) const override { return whole(rest); }
  void take(Bytes one, std::uint64_t offset) override {
    ++counts_.packets;
    units_.packet(one, offset);
  }
  void over() override { units_.flush(); }
  [[nodiscard]] std::string complaint(Bytes rest) const override {
    const std::size_t size = pitch::little_endian<std::uint16_t>(rest.data());
    return "a unit of " + std::to_string(size) + " bytes that is not a PITCH unit";
  }
  [[nodiscard]] const char* name() const override { return "unit"; }

  PitchUnits units_{*this, 0};
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
