// Threads: one thread owns a pipeline; different pipelines know nothing of each other.
//
// An input's bytes -> transport -> session -> sink, in pieces of any size, with errors placed in the input.
#pragma once

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "market/session.hpp"
#include "market/sharing.hpp"
#include "market/sinks.hpp"
#include "market/transport.hpp"

namespace latlab::market {

class Pipeline {
 public:
  using Sinks = SharedSessions::Sinks;

  // framing: "binary" (BinaryFILE), or a transport's name. Several sinks share the symbols, each in a thread
  // of its own; the first has the results of all.
  Pipeline(const std::string& framing, bool lenient, Sinks sinks)
      : sinks_(std::make_unique<Sinks>(std::move(sinks))), lenient_(lenient) {
    if (framing == "binary") {
      session_ = std::make_unique<SharedSessions>('I', lenient_, *sinks_);
    } else {
      transport_ = make_transport(framing);
    }
  }

  Pipeline(const std::string& framing, bool lenient, std::unique_ptr<AnyBooks> sink)
      : Pipeline(framing, lenient, alone(std::move(sink))) {}

  void feed(Bytes bytes) {
    if (transport_ == nullptr) {
      if (session_) session_->feed(bytes);
      collect();
      return;
    }
    // Bounded memory whatever the piece: a transport's frames are taken before it gets more.
    constexpr std::size_t kStep = 1 << 20;
    while (!bytes.empty() && !stopped()) {
      const std::size_t step = std::min(kStep, bytes.size());
      transport_->feed(bytes.first(step));
      bytes = bytes.subspan(step);
      move();
    }
  }

  void finish() {
    if (transport_ != nullptr && !stopped()) {
      transport_->finish();
      move();
    }
    if (!session_) session_ = std::make_unique<SharedSessions>('I', lenient_, *sinks_);
    session_->finish();
    collect();
  }

  [[nodiscard]] bool stopped() const { return failed_ || (session_ && session_->stopped()); }
  [[nodiscard]] bool over() const { return stopped() || sink().over(); }
  [[nodiscard]] const FeedCounts& counts() const { return session_ ? session_->counts() : none_; }
  [[nodiscard]] std::vector<std::pair<std::uint16_t, Symbol>> names() const {
    return session_ ? session_->names() : std::vector<std::pair<std::uint16_t, Symbol>>{};
  }
  // Several sinks may not have made what one would (market/sharing.hpp): begin again with one.
  [[nodiscard]] bool entangled() const noexcept { return session_ && session_->entangled(); }
  [[nodiscard]] std::uint64_t offset() const { return session_ ? session_->offset() : 0; }
  [[nodiscard]] char dialect() const { return transport_ ? transport_->dialect() : 'I'; }
  [[nodiscard]] TransportCounts transport_counts() const {
    return transport_ ? transport_->counts() : TransportCounts{};
  }
  [[nodiscard]] AnyBooks& sink() noexcept { return *sinks_->front(); }
  [[nodiscard]] const AnyBooks& sink() const noexcept { return *sinks_->front(); }
  [[nodiscard]] Anomalies anomalies() const {
    Anomalies all;
    for (const auto& sink : *sinks_) all += sink->anomalies();
    return all;
  }
  [[nodiscard]] SideCounts side_counts() const {
    SideCounts all;
    for (const auto& sink : *sinks_) all += sink->side_counts();
    return all;
  }
  [[nodiscard]] std::size_t standing() const {
    std::size_t all = 0;
    for (const auto& sink : *sinks_) all += sink->standing();
    return all;
  }
  // The days that have ended since the last call, with the rows of the sink up to each one's end.
  std::vector<EndedDay> take_ended() {
    auto ended = session_ ? session_->take_ended() : std::vector<EndedDay>{};
    first_day_rows_ = days_ != 0 ? 0 : ended.empty() ? SIZE_MAX : ended.front().rows;
    days_ += ended.size();
    for (const auto& day : ended) {
      for (const auto& [locate, name] : day.names) former_.insert(name);
    }
    return ended;
  }
  // Of the rows that were untaken then, how many at most are of the first day.
  [[nodiscard]] std::size_t first_day_rows() const noexcept { return first_day_rows_; }
  // Names of the days that had ended when they were taken.
  [[nodiscard]] const std::set<Symbol>& former() const noexcept { return former_; }
  std::vector<TransportError> take_errors() { return std::exchange(errors_, {}); }

 private:
  static Sinks alone(std::unique_ptr<AnyBooks> sink) {
    Sinks sinks;
    sinks.push_back(std::move(sink));
    return sinks;
  }

  // From the transport to the session, and errors to their place in the input.
  void move() {
    if (!session_ && transport_->dialect() != 0)
      session_ = std::make_unique<SharedSessions>(transport_->dialect(), lenient_, *sinks_);
    if (session_) session_->feed(lenient_ ? transport_->frames() : transport_->sound_frames());
    collect();
    transport_->drop();
  }

  void collect() {
    if (transport_ != nullptr) {
      for (const auto& error : transport_->errors()) {
        errors_.push_back(error);
        failed_ |= !lenient_;
      }
    }
    if (!session_) return;
    for (; reported_ < session_->errors().size(); ++reported_) {
      TransportError error = session_->errors()[reported_];
      if (transport_ != nullptr) {
        const auto& origins = transport_->origins();
        auto at = std::upper_bound(
            origins.begin(), origins.end(), error.offset,
            [](std::uint64_t offset, const Origin& origin) { return offset < origin.stream; });
        if (at != origins.begin()) error.offset = (--at)->input;
      }
      errors_.push_back(std::move(error));
    }
  }

  std::unique_ptr<Sinks> sinks_;  // at one place, wherever the pipeline is moved
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<SharedSessions> session_;  // it refers to itself
  std::vector<TransportError> errors_;
  std::set<Symbol> former_;
  std::size_t days_ = 0;
  std::size_t first_day_rows_ = SIZE_MAX;
  FeedCounts none_;
  std::size_t reported_ = 0;
  bool lenient_;
  bool failed_ = false;
};

}  // namespace latlab::market
