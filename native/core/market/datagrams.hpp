// Threads: one thread owns one of these.
//
// What market-data datagrams hold, from captures and sockets: MoldUDP64 packets with ITCH messages, or PITCH
// sequenced units. Both are arbitrated: any number of lines, each message once, in sequence.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "market/sequence.hpp"
#include "market/transport.hpp"

namespace latlab::market {

// Beyond so much held back the first gap is given up; of the 256 units of PITCH each has a part of it.
inline constexpr std::size_t kHeldPackets = 16'384;
inline constexpr std::size_t kHeldBytes = 64U << 20;
inline constexpr std::size_t kUnitHeader = 8;

// MoldUDP64. Sequence 0, which no session gives, is passed on as it comes (captures that were made anonymous
// have it).
class Mold {
 public:
  explicit Mold(Transport& out) : out_(out) {}
  // True when the payload is a MoldUDP64 packet in form.
  static bool recognises(Bytes payload);
  void packet(Bytes payload, std::uint64_t input_offset);
  // Give up waiting for what is missing.
  void flush();
  [[nodiscard]] Transport::Gaps missing() const;

 private:
  void take(Bytes payload, std::uint64_t input_offset, std::uint64_t skip);
  void release();

  Transport& out_;
  std::array<char, 10> session_{};
  Sequence sequence_;
};

// PITCH sequenced units: a sequence for each unit.
class PitchUnits {
 public:
  // held: how many packets of a unit may wait for what is missing before them (0: of a file of units, which
  // has one order). whole: units are passed on as units, without the messages that came before; else as a
  // frame a message.
  explicit PitchUnits(Transport& out, std::size_t held = kHeldPackets / 16, bool whole = false)
      : out_(out), held_(held), whole_(whole), sequences_(256) {}
  static bool recognises(Bytes payload);
  void packet(Bytes payload, std::uint64_t input_offset);
  void flush();
  [[nodiscard]] Transport::Gaps missing() const;

 private:
  void take(Bytes payload, std::uint64_t input_offset, std::uint64_t skip);

  Transport& out_;
  std::size_t held_;
  bool whole_;
  std::vector<Sequence> sequences_;  // by unit
};

// Datagrams of either kind; the first that is one of them decides. What is neither is counted and left.
// A capture has other traffic, too: what is no packet of a feed is damage only if it came where the feed's
// packets come to, before or after it.
class Datagrams {
 public:
  explicit Datagrams(Transport& out) : out_(out) {}
  // flow: of the address and port that it was sent to.
  void packet(Bytes payload, std::uint64_t input_offset, std::uint64_t flow);
  // A datagram that can't be read.
  void doubtful(std::uint64_t input_offset, std::uint64_t flow, const char* what, bool cut);
  void flush();

 private:
  struct Flow {
    bool of_feed = false;
    std::uint64_t doubtful = 0;  // until it is known for the feed's
    std::uint64_t first = 0;     // offset of the first
    const char* what = "";
    bool cut = false;  // one was cut short
  };
  static constexpr std::size_t kMostFlows = 65'536;

  void of_feed(std::uint64_t flow);

  Transport& out_;
  std::unordered_map<std::uint64_t, Flow> flows_;
  Mold mold_{out_};
  PitchUnits units_{out_};
};

}  // namespace latlab::market
