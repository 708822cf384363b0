#include "pipeline/stages.hpp"

#include <initializer_list>
#include <utility>

namespace latlab::pipeline {

namespace {

WaitPolicy wait_of(const std::string& text) {
  if (text == "poll") return WaitPolicy::poll;
  if (text == "hybrid") return WaitPolicy::hybrid;
  return WaitPolicy::block;
}

template <class T>
bool any_input(const std::vector<Channel<T>*>& ins) {
  for (const auto* in : ins) {
    if (!in->empty()) return true;
  }
  return false;
}

template <class T>
bool all_exhausted(const std::vector<Channel<T>*>& ins) {
  for (const auto* in : ins) {
    if (!in->exhausted()) return false;
  }
  return true;
}

template <class T>
bool all_have_room(const std::vector<Channel<T>*>& outs) {
  for (const auto* out : outs) {
    if (out->full()) return false;
  }
  return true;
}

// Takes from the inputs in turn, so that no venue starves another.
template <class T>
Channel<T>* pop_in_turn(const std::vector<Channel<T>*>& ins, std::size_t& turn, T& value) {
  for (std::size_t i = 0; i < ins.size(); ++i) {
    auto* const in = ins[turn];
    turn = turn + 1 == ins.size() ? 0 : turn + 1;
    if (in->pop(value)) return in;
  }
  return nullptr;
}

template <class In, class Out>
void flush_all(const In& ins, const Out& outs) {
  for (auto* in : ins) in->flush_popped();
  for (auto* out : outs) out->flush_pushed();
}

std::string field(const char* name, std::uint64_t value) {
  return '"' + std::string(name) + "\":" + std::to_string(value);
}

}  // namespace

Instance::Instance(std::string type, std::string name, const Record& record)
    : type_(std::move(type)),
      name_(std::move(name)),
      service_ticks_(static_cast<std::uint64_t>(static_cast<double>(record.number("service_ns", 0)) *
                                                record.real("ticks_per_ns", 1.0))),
      stage_(CounterFile::process().add_stage({.stage = {type_, name_},
                                               .group = record.text("group", ""),
                                               .wait = wait_of(record.text("wait", "block"))})) {}

std::size_t Instance::step(std::size_t most) {
  std::size_t done = 0;
  bool blocked = false;
  while (done < most && has_input()) {
    if (!has_room()) {
      blocked = true;
      break;
    }
    if (done == 0) stage_.enter(StageState::busy, ticks());
    if (!process_one()) break;
    ++done;
    if (service_ticks_ != 0) flush();  // a slow stage keeps nobody waiting for the rest of its batch
  }
  if (done != 0) {
    flush();
    stage_.count(done);
  }
  if (blocked && stage_.line().state.load(std::memory_order_relaxed) !=
                     static_cast<std::uint32_t>(StageState::blocked)) {
    count_waiting(true);
    stage_.enter(StageState::blocked, ticks());
  }
  return done;
}

void Instance::rest() noexcept {
  if (stage_.line().state.load(std::memory_order_relaxed) != static_cast<std::uint32_t>(StageState::busy))
    return;
  count_waiting(false);
  stage_.enter(StageState::idle, ticks());
}

void Instance::finish() {
  if (finished_.exchange(true, std::memory_order_acq_rel)) return;
  stage_.enter(StageState::idle, ticks());
  close_outputs();
}

void Instance::serve() const noexcept {
  const std::uint64_t until = ticks() + service_ticks_;
  while (ticks() < until) spin_pause();
}

Decoder::Decoder(const Record& record, const Symbols& symbols, MessagePool& pool, Channel<Packet>& in,
                 Channel<Message*>& out)
    : Instance("decoder", record.text("name"), record),
      symbols_(symbols),
      pool_(pool),
      in_(in),
      out_(out),
      venue_(static_cast<std::uint8_t>(record.number("venue"))) {}

void Decoder::count_waiting(bool blocked) {
  if (!blocked) {
    in_.count_empty();
  } else if (out_.full()) {
    out_.count_blocked();
  }
}

void Decoder::flush() {
  in_.flush_popped();
  out_.flush_pushed();
}

bool Decoder::process_one() {
  Message* const message = pool_.take();
  if (message == nullptr) return false;
  Packet packet;
  if (!in_.pop(packet)) {
    pool_.give_back(message);
    return false;
  }
  arrived(packet.passport, in_.slot());
  *message = {};
  message->passport = packet.passport;
  message->venue = venue_;
  message->new_day = packet.data == nullptr;
  if (!message->new_day) {
    const market::itch::Frame frame{.data = packet.data, .offset = 0, .size = packet.size};
    if (!market::itch::well_formed(frame)) {
      ++malformed_;
      ended(packet.passport, TraceEnd::filtered);
      pool_.give_back(message);
      return true;
    }
    message->event = market::itch::decode(frame);
    message->symbol = symbols_.of(venue_, message->event.locate);
  }
  stamp(message->passport);
  out_.push(message);
  return true;
}

std::string Decoder::summary() const {
  return field("malformed", malformed_);
}

Market::Market(const Record& record, MessagePool& pool, Channel<Message*>& in,
               std::vector<Channel<Message*>*> outs)
    : Instance("market", record.text("name"), record), pool_(pool), in_(in), outs_(std::move(outs)) {}

bool Market::has_room() const {
  return all_have_room(outs_);
}

void Market::close_outputs() {
  for (auto* out : outs_) out->close();
}

void Market::count_waiting(bool blocked) {
  if (!blocked) {
    in_.count_empty();
    return;
  }
  for (auto* out : outs_) {
    if (out->full()) out->count_blocked();
  }
}

void Market::flush() {
  flush_all(std::initializer_list<Channel<Message*>*>{&in_}, outs_);
}

bool Market::process_one() {
  Message* message = nullptr;
  if (!in_.pop(message)) return false;
  arrived(message->passport, in_.slot());
  if (message->new_day) {
    // Every worker hears of it. Those without a message to spare keep yesterday's books, and count what is
    // odd.
    for (auto* out : outs_) {
      Message* const copy = out == outs_.front() ? message : pool_.take();
      if (copy == nullptr) continue;
      if (copy != message) *copy = *message;
      out->push(copy);
    }
    return true;
  }
  const auto kind = message->event.kind;
  if (kind == market::Kind::none || kind == market::Kind::trade || kind == market::Kind::cross) {
    ended(message->passport, TraceEnd::filtered);
    pool_.give_back(message);
    return true;
  }
  stamp(message->passport);
  outs_[message->symbol % outs_.size()]->push(message);
  return true;
}

Book::Book(const Record& record, MessagePool& pool, std::vector<Channel<Message*>*> ins,
           std::vector<Channel<Update>*> outs)
    : Instance("book", record.text("name"), record),
      pool_(pool),
      ins_(std::move(ins)),
      outs_(std::move(outs)) {}

bool Book::has_input() const {
  return any_input(ins_);
}
bool Book::has_room() const {
  return all_have_room(outs_);
}
bool Book::exhausted() const {
  return all_exhausted(ins_);
}

void Book::close_outputs() {
  for (auto* out : outs_) out->close();
}

void Book::count_waiting(bool blocked) {
  if (blocked) {
    for (auto* out : outs_) {
      if (out->full()) out->count_blocked();
    }
  } else {
    for (auto* in : ins_) in->count_empty();
  }
}

void Book::flush() {
  flush_all(ins_, outs_);
}

bool Book::process_one() {
  Message* message = nullptr;
  const auto* const in = pop_in_turn(ins_, turn_, message);
  if (in == nullptr) return false;
  arrived(message->passport, in->slot());
  auto& books = books_[message->venue];
  if (message->new_day) {
    books.apply({.kind = market::Kind::new_day});  // its memory stays: new memory would cost milliseconds
    pool_.give_back(message);
    return true;
  }
  const market::Effect effect = books.apply(message->event);
  Update update{
      .passport = message->passport, .inside = {}, .symbol = message->symbol, .venue = message->venue};
  pool_.give_back(message);
  if (!effect.changed || outs_.empty()) {
    ended(update.passport, TraceEnd::filtered);
    return true;
  }
  ++changes_;
  update.inside = books.inside(effect.locate);
  for (auto* out : outs_) {
    stamp(update.passport);
    out->push(update);
  }
  return true;
}

void Book::expect(std::size_t venue, const FeedRange& range) {
  if (range.first_ref <= range.last_ref)
    books_[venue].expect(range.first_ref, range.last_ref, range.last_locate);
}

std::string Book::summary() const {
  std::uint64_t anomalies = 0;
  for (const auto& books : books_) anomalies += books.anomalies().total();
  return field("anomalies", anomalies) + ',' + field("inside_changes", changes_);
}

Strategy::Strategy(const Record& record, const Symbols& symbols, std::vector<Channel<Update>*> ins,
                   SharedRing<Order>* out, const std::atomic<bool>& stopping)
    : Instance("strategy", record.text("name"), record),
      ins_(std::move(ins)),
      out_(out),
      insides_(symbols.count),
      stopping_(stopping) {}

bool Strategy::has_input() const {
  return any_input(ins_);
}
bool Strategy::exhausted() const {
  return all_exhausted(ins_);
}

void Strategy::count_waiting(bool blocked) {
  if (blocked) {
    out_->count_blocked();
  } else {
    for (auto* in : ins_) in->count_empty();
  }
}

void Strategy::flush() {
  for (auto* in : ins_) in->flush_popped();
  if (out_ != nullptr) out_->flush();
}

bool Strategy::process_one() {
  Update update;
  const auto* const in = pop_in_turn(ins_, turn_, update);
  if (in == nullptr) return false;
  arrived(update.passport, in->slot());
  auto& insides = insides_[update.symbol];
  insides[update.venue] = update.inside;
  const market::Inside& here = update.inside;
  const market::Inside& there = insides[1 - update.venue];
  const bool bids_differ = here.bid_px != 0 && there.bid_px != 0 && here.bid_px != there.bid_px;
  const bool offers_differ = here.offer_px != 0 && there.offer_px != 0 && here.offer_px != there.offer_px;
  if (out_ == nullptr || (!bids_differ && !offers_differ)) {
    ended(update.passport, TraceEnd::filtered);
    return true;
  }
  // Sell where more is bid, or buy where less is asked.
  Order order{.passport = update.passport, .symbol = update.symbol};
  if (bids_differ) {
    const bool better_here = here.bid_px > there.bid_px;
    order.side = market::Side::offer;
    order.venue = better_here ? update.venue : static_cast<std::uint8_t>(1 - update.venue);
    order.price = better_here ? here.bid_px : there.bid_px;
    order.qty = better_here ? here.bid_qty : there.bid_qty;
  } else {
    const bool better_here = here.offer_px < there.offer_px;
    order.side = market::Side::bid;
    order.venue = better_here ? update.venue : static_cast<std::uint8_t>(1 - update.venue);
    order.price = better_here ? here.offer_px : there.offer_px;
    order.qty = better_here ? here.offer_qty : there.offer_qty;
  }
  stamp(order.passport);
  // Another strategy may have taken the last place since has_room(): then this one waits here for the next.
  while (!out_->try_push(order)) {
    if (stopping_.load(std::memory_order_acquire)) {
      ++discarded_;
      ended(order.passport, TraceEnd::filtered);
      return true;
    }
    ::usleep(20);
  }
  ++orders_;
  return true;
}

std::string Strategy::summary() const {
  return field("orders", orders_) + ',' + field("discarded", discarded_);
}

Execution::Execution(const Record& record, SharedRing<Order>& in)
    : Instance("execution", record.text("name"), record), in_(in), positions_(65536) {}

void Execution::count_waiting(bool blocked) {
  if (!blocked) in_.count_empty();
}

void Execution::flush() {}  // its producers look by themselves

bool Execution::process_one() {
  Order order;
  if (!in_.try_pop(order)) return false;
  arrived(order.passport, in_.slot().slot());
  const auto qty = static_cast<std::int64_t>(order.qty);
  positions_[order.symbol % positions_.size()] += order.side == market::Side::bid ? qty : -qty;
  ++executed_;
  ended(order.passport, TraceEnd::finished);
  return true;
}

std::string Execution::summary() const {
  return field("executed", executed_);
}

}  // namespace latlab::pipeline
