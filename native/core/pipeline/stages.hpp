// Threads: an instance is run by whichever thread has claimed it, one at a time.
//
// The stages of the demonstration's trading pipeline: decoder → market → book → strategy → execution. An
// instance pops one event at a time, only when its outputs have room, so that an event never waits inside a
// stage and a blocked stage holds nothing.
#pragma once

#include <latlab/clock.hpp>
#include <latlab/counters.hpp>
#include <latlab/shared_queue.hpp>
#include <latlab/trace.hpp>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "market/book.hpp"
#include "market/itch.hpp"
#include "pipeline/channel.hpp"

namespace latlab::pipeline {

inline constexpr std::size_t kVenues = 2;

// What travels with every event: who it is, and when it was put into the queue that it is in. An event that
// is not traced carries no push time, since a time stamp costs more than the rest of a hop.
struct Passport {
  std::uint64_t event = 0;
  std::uint64_t push_ticks = 0;
  bool traced = false;
};

inline void stamp(Passport& passport) noexcept {
  if (passport.traced) passport.push_ticks = ticks();
}

struct Packet {  // exchange → decoder
  Passport passport;
  const std::uint8_t* data = nullptr;  // null: a new day begins
  std::uint16_t size = 0;
};
struct Message {  // decoder → market → book; lies in the pool
  Passport passport;
  market::Event event;
  std::uint32_t symbol = 0;
  std::uint8_t venue = 0;
  bool new_day = false;
};
struct Update {  // book → strategy
  Passport passport;
  market::Inside inside;
  std::uint32_t symbol = 0;
  std::uint8_t venue = 0;
};
// Stamped by the queues themselves (queue.hpp) where one thread puts in; else before the place is drawn.
inline void before_put(Message*& message) noexcept {
  stamp(message->passport);
}
inline void before_put(Update& update) noexcept {
  stamp(update.passport);
}

struct Order {  // strategy → execution, between processes
  Passport passport;
  std::uint32_t symbol = 0;
  std::uint32_t price = 0;
  std::uint64_t qty = 0;
  std::uint8_t venue = 0;
  market::Side side = market::Side::bid;
};

// The symbols that the venues share: each venue numbers them in its own way, and names them alike.
// The references and locates of a feed's orders; none where first > last.
struct FeedRange {
  std::uint64_t first_ref = UINT64_MAX;
  std::uint64_t last_ref = 0;
  std::uint16_t last_locate = 0;
};

struct Symbols {
  std::array<std::vector<std::uint32_t>, kVenues> by_locate;
  std::uint32_t count = 0;

  [[nodiscard]] std::uint32_t of(std::uint8_t venue, std::uint16_t locate) const noexcept {
    const auto& all = by_locate[venue];
    return locate < all.size() ? all[locate] : 0;
  }
};

using MessagePool = Pool<Message>;

class Instance {
 public:
  Instance(std::string type, std::string name, const Record& record);
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;
  virtual ~Instance() = default;

  // True when a step would do something.
  [[nodiscard]] virtual bool has_input() const = 0;
  [[nodiscard]] virtual bool has_room() const = 0;
  [[nodiscard]] virtual bool exhausted() const = 0;  // nothing is left, and nothing will come
  virtual void close_outputs() = 0;
  virtual void count_waiting(bool blocked) = 0;
  // The instance's outcome as the inside of a JSON object, for the program's summary.
  [[nodiscard]] virtual std::string summary() const { return {}; }

  bool claim() noexcept {
    return !claimed_.test_and_set(std::memory_order_acquire);
  }  // what the last runner wrote
  void release() noexcept { claimed_.clear(std::memory_order_release); }

  // Processes up to `most` events; the number done.
  std::size_t step(std::size_t most);
  // Its thread goes away from it: to sleep, or to another instance.
  void rest() noexcept;

  [[nodiscard]] const std::string& type() const noexcept { return type_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] StageSlot& stage() noexcept { return stage_; }
  void set_lane(const TraceLane& lane) noexcept { lane_ = lane; }
  [[nodiscard]] bool finished() const noexcept { return finished_.load(std::memory_order_acquire); }
  void finish();

 protected:
  virtual bool process_one() = 0;
  // Wakes those who wait for what has been put out or taken in.
  virtual void flush() = 0;

  // The event has been popped from `queue`: its hop is written, and the planted service time spent.
  void arrived(const Passport& passport, std::uint32_t queue) noexcept {
    if (passport.traced) lane_.hop(passport.event, queue, passport.push_ticks, ticks());
    if (service_ticks_ != 0) serve();
  }
  void ended(const Passport& passport, TraceEnd how) noexcept {
    if (passport.traced) lane_.end(passport.event, how, ticks());
  }

 private:
  void serve() const noexcept;

  std::string type_;
  std::string name_;
  std::uint64_t service_ticks_ = 0;
  StageSlot stage_;
  TraceLane lane_;
  std::atomic_flag claimed_ = ATOMIC_FLAG_INIT;
  std::atomic<bool> finished_{false};
};

class Decoder final : public Instance {
 public:
  Decoder(const Record& record, const Symbols& symbols, MessagePool& pool, Channel<Packet>& in,
          Channel<Message*>& out);
  [[nodiscard]] bool has_input() const override { return !in_.empty(); }
  [[nodiscard]] bool has_room() const override { return !out_.full() && pool_.available() > 0; }
  [[nodiscard]] bool exhausted() const override { return in_.exhausted(); }
  void close_outputs() override { out_.close(); }
  void count_waiting(bool blocked) override;
  [[nodiscard]] std::string summary() const override;

 private:
  bool process_one() override;
  void flush() override;

  const Symbols& symbols_;
  MessagePool& pool_;
  Channel<Packet>& in_;
  Channel<Message*>& out_;
  std::uint8_t venue_;
  std::uint64_t malformed_ = 0;
};

// Per venue: spreads the messages over the books' workers, by symbol; what concerns no book ends here.
class Market final : public Instance {
 public:
  Market(const Record& record, MessagePool& pool, Channel<Message*>& in,
         std::vector<Channel<Message*>*> outs);
  [[nodiscard]] bool has_input() const override { return !in_.empty(); }
  [[nodiscard]] bool has_room() const override;
  [[nodiscard]] bool exhausted() const override { return in_.exhausted(); }
  void close_outputs() override;
  void count_waiting(bool blocked) override;

 private:
  bool process_one() override;
  void flush() override;

  MessagePool& pool_;
  Channel<Message*>& in_;
  std::vector<Channel<Message*>*> outs_;
};

// A partition of the symbols, with both venues' books of each.
class Book final : public Instance {
 public:
  Book(const Record& record, MessagePool& pool, std::vector<Channel<Message*>*> ins,
       std::vector<Channel<Update>*> outs);
  [[nodiscard]] bool has_input() const override;
  [[nodiscard]] bool has_room() const override;
  [[nodiscard]] bool exhausted() const override;
  void close_outputs() override;
  void count_waiting(bool blocked) override;
  [[nodiscard]] std::string summary() const override;
  // What a venue's feed will bring, before it begins.
  void expect(std::size_t venue, const FeedRange& range);

 private:
  bool process_one() override;
  void flush() override;

  MessagePool& pool_;
  std::vector<Channel<Message*>*> ins_;
  std::vector<Channel<Update>*> outs_;
  std::array<market::Books<>, kVenues> books_;
  std::size_t turn_ = 0;
  std::uint64_t changes_ = 0;
};

// Compares the venues' insides of a symbol and sends an order where they differ.
class Strategy final : public Instance {
 public:
  // While `stopping`, orders that the other process does not take are discarded: it may have died.
  Strategy(const Record& record, const Symbols& symbols, std::vector<Channel<Update>*> ins,
           SharedRing<Order>* out, const std::atomic<bool>& stopping);
  [[nodiscard]] bool has_input() const override;
  [[nodiscard]] bool has_room() const override {
    return out_ == nullptr || !out_->full() || stopping_.load();
  }
  [[nodiscard]] bool exhausted() const override;
  void close_outputs() override {}  // the ring is shared by strategies; the pipeline closes it after the last
  void count_waiting(bool blocked) override;
  [[nodiscard]] std::string summary() const override;

 private:
  bool process_one() override;
  void flush() override;

  std::vector<Channel<Update>*> ins_;
  SharedRing<Order>* out_;
  std::vector<std::array<market::Inside, kVenues>> insides_;
  const std::atomic<bool>& stopping_;
  std::size_t turn_ = 0;
  std::uint64_t orders_ = 0;
  std::uint64_t discarded_ = 0;
};

// In the second process: takes the orders and keeps positions.
class Execution final : public Instance {
 public:
  Execution(const Record& record, SharedRing<Order>& in);
  [[nodiscard]] bool has_input() const override { return !in_.empty(); }
  [[nodiscard]] bool has_room() const override { return true; }
  [[nodiscard]] bool exhausted() const override { return in_.closed() && in_.empty(); }
  void close_outputs() override {}
  void count_waiting(bool blocked) override;
  [[nodiscard]] std::string summary() const override;

 private:
  bool process_one() override;
  void flush() override;

  SharedRing<Order>& in_;
  std::vector<std::int64_t> positions_;
  std::uint64_t executed_ = 0;
};

}  // namespace latlab::pipeline
