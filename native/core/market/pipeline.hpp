// Threads: one thread owns a pipeline; different pipelines know nothing of each other.
//
// An input's bytes -> transport -> session -> sink, in pieces of any size, with errors placed in the input.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "market/session.hpp"
#include "market/sinks.hpp"
#include "market/transport.hpp"

namespace latlab::market {

class Pipeline {
 public:
  // framing: "binary" (BinaryFILE), or a transport's name.
  Pipeline(const std::string& framing, bool lenient, std::unique_ptr<AnyBooks> sink)
      : sink_(std::move(sink)), lenient_(lenient) {
    if (framing == "binary") {
      session_.emplace('I', lenient_, *sink_);
    } else {
      transport_ = make_transport(framing);
    }
  }

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
    if (!session_) session_.emplace('I', lenient_, *sink_);
    session_->finish();
    collect();
  }

  [[nodiscard]] bool stopped() const { return failed_ || (session_ && session_->stopped()); }
  [[nodiscard]] bool over() const { return stopped() || sink_->over(); }
  [[nodiscard]] const FeedCounts& counts() const { return session_ ? session_->counts() : none_; }
  [[nodiscard]] const SymbolNames* names() const { return session_ ? &session_->names() : nullptr; }
  [[nodiscard]] std::uint64_t offset() const { return session_ ? session_->offset() : 0; }
  [[nodiscard]] char dialect() const { return transport_ ? transport_->dialect() : 'I'; }
  [[nodiscard]] TransportCounts transport_counts() const {
    return transport_ ? transport_->counts() : TransportCounts{};
  }
  [[nodiscard]] AnyBooks& sink() noexcept { return *sink_; }
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
  // From the transport to the session, and errors to their place in the input.
  void move() {
    if (!session_ && transport_->dialect() != 0) session_.emplace(transport_->dialect(), lenient_, *sink_);
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

  std::unique_ptr<AnyBooks> sink_;
  std::unique_ptr<Transport> transport_;
  std::optional<Session> session_;
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
