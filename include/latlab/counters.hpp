// Threads: registration (add_queue, add_stage) and set_* may be called from any thread at any time, and take
// a spin lock: that is start-up work. Counting takes none: each line has one writing side.
//
// Registering queues and stages in the counter file. An application that includes this does no more than put
// its counts where somebody may look: no thread, no system call after registration. `counted.hpp` counts
// queues of other classes, `queue.hpp` has queues whose indices are their counts.
#pragma once

#include <string_view>
#include <utility>

#include "counter_file.hpp"

namespace latlab {

// Where an event comes from or goes to: the type of the stage ("order book") and its name ("book-3").
// Blanks are allowed and can be filled in later.
struct StageName {
  std::string_view type = {};
  std::string_view name = {};
};

struct QueueInfo {
  std::string_view name = {};
  QueueKind kind = QueueKind::bounded;
  std::uint64_t capacity = 0;
  StageName source = {};
  StageName drain = {};
  std::string_view group = {};
  std::string_view implementation = {};
  std::uint64_t identity = 0;
  std::uint32_t sides = kBothSides;
  std::uint32_t pair = 0;
};

struct StageInfo {
  StageName stage = {};
  std::string_view group = {};
  WaitPolicy wait = WaitPolicy::unknown;
  std::uint32_t tid = 0;
  std::int32_t cpu = -1;
};

namespace detail {

// Writes a descriptor under its version: odd while it is being written. Every store of `write` is a release:
// an acquire on the version would keep none of them behind the odd version on a weakly ordered machine.
template <class Descriptor, class Write>
void edit(Descriptor& descriptor, Write&& write) noexcept {
  descriptor.version.fetch_add(1, std::memory_order_relaxed);
  std::forward<Write>(write)();
  descriptor.version.fetch_add(1, std::memory_order_release);
}

// A place in the counter file, or in private memory where there is none, for as long as its owner lives.
// Movable; the counts never move.
template <class Descriptor, class Hot>
class Slot {
 public:
  Slot() = default;
  Slot(Slot&& other) noexcept { swap(other); }
  Slot& operator=(Slot&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Slot() {
    change([&] {
      descriptor_->state.store(static_cast<std::uint32_t>(SlotState::retired), std::memory_order_release);
    });
    if (private_) delete hot_;
  }

  [[nodiscard]] bool registered() const noexcept { return descriptor_ != nullptr; }
  [[nodiscard]] std::uint32_t slot() const noexcept { return slot_; }

 protected:
  // Takes a slot; `fill` stores the descriptor's texts and empties the counts.
  template <class Fill>
  void take(CounterFile& file, std::atomic<std::uint32_t>& count, std::uint32_t capacity,
            std::uint32_t& reserved, Fill&& fill) {
    const CounterFile::Change change(file);
    file_ = &file;
    const std::uint32_t used = count.load(std::memory_order_relaxed);
    const std::uint32_t slot = file.claim<Descriptor, Hot>(used, capacity, reserved);
    if (slot == CounterFile::kNone) {
      hot_ = new Hot{};
      private_ = true;
      return;
    }
    slot_ = slot;
    descriptor_ = file.at<Descriptor>(CounterFile::offset_of<Descriptor>()) + slot;
    hot_ = file.at<Hot>(CounterFile::offset_of<Hot>()) + slot;
    edit(*descriptor_, [&] {
      descriptor_->state.store(static_cast<std::uint32_t>(SlotState::init), std::memory_order_release);
      descriptor_->generation.fetch_add(1, std::memory_order_release);
      std::forward<Fill>(fill)(*descriptor_, *hot_);
      descriptor_->state.store(static_cast<std::uint32_t>(SlotState::live), std::memory_order_release);
    });
    if (slot == used) count.store(used + 1, std::memory_order_release);
  }

  template <class Write>
  void change(Write&& write) noexcept {
    if (descriptor_ == nullptr) return;
    const CounterFile::Change change(*file_);
    edit(*descriptor_, std::forward<Write>(write));
  }

  void swap(Slot& other) noexcept {
    std::swap(file_, other.file_);
    std::swap(descriptor_, other.descriptor_);
    std::swap(hot_, other.hot_);
    std::swap(slot_, other.slot_);
    std::swap(private_, other.private_);
  }

  CounterFile* file_ = nullptr;
  Descriptor* descriptor_ = nullptr;
  Hot* hot_ = nullptr;
  std::uint32_t slot_ = 0;
  bool private_ = false;
};

}  // namespace detail

// A queue's place in the counter file.
class QueueSlot : public detail::Slot<QueueDescriptor, QueueHot> {
 public:
  QueueSlot() = default;
  QueueSlot(CounterFile& file, const QueueInfo& info) {
    take(file, file.header().queue_count, CounterFile::kQueues, file.reserved_queues_,
         [&](QueueDescriptor& to, QueueHot& hot) {
           to.kind.store(static_cast<std::uint32_t>(info.kind), std::memory_order_release);
           to.capacity.store(info.kind == QueueKind::unbounded ? 0 : info.capacity,
                             std::memory_order_release);
           to.identity.store(info.identity, std::memory_order_release);
           to.sides.store(info.sides, std::memory_order_release);
           to.pair.store(info.pair, std::memory_order_release);
           to.created_ticks.store(ticks(), std::memory_order_release);
           to.name.store(info.name);
           to.source_type.store(info.source.type);
           to.source_name.store(info.source.name);
           to.drain_type.store(info.drain.type);
           to.drain_name.store(info.drain.name);
           to.group.store(info.group);
           to.implementation.store(info.implementation);
           for (auto* count : {&hot.producer.in, &hot.producer.dropped, &hot.producer.blocked,
                               &hot.consumer.out, &hot.consumer.empty}) {
             count->store(0, std::memory_order_release);
           }
           hot.producer.tid.store(0, std::memory_order_release);
           hot.consumer.tid.store(0, std::memory_order_release);
           hot.producer.cached_out = 0;
           hot.consumer.cached_in = 0;
         });
  }

  [[nodiscard]] ProducerLine& producer() const noexcept { return hot_->producer; }
  [[nodiscard]] ConsumerLine& consumer() const noexcept { return hot_->consumer; }

  void set_source(const StageName& stage) noexcept {
    change([&] {
      descriptor_->source_type.store(stage.type);
      descriptor_->source_name.store(stage.name);
    });
    forget(producer().tid);
  }
  void set_drain(const StageName& stage) noexcept {
    change([&] {
      descriptor_->drain_type.store(stage.type);
      descriptor_->drain_name.store(stage.name);
    });
    forget(consumer().tid);
  }
  void set_name(std::string_view name) noexcept {
    change([&] { descriptor_->name.store(name); });
  }
  void set_group(std::string_view group) noexcept {
    change([&] { descriptor_->group.store(group); });
  }
  void set_pair(std::uint32_t other_slot) noexcept {
    change([&] { descriptor_->pair.store(other_slot + 1, std::memory_order_release); });
  }

  // The thread that uses a side notes itself at its first use, so that an observer can fill blanks of the
  // topology. The test is one load of a line that the side writes anyway; queues of ours make it only where
  // they look at the other side. Nobody becomes an end by emptying a queue at shutdown.
  void note_producer() noexcept { note(producer().tid); }
  void note_consumer() noexcept { note(consumer().tid); }
  // Notes both sides anew, at their next use.
  void forget_threads() noexcept {
    forget(producer().tid);
    forget(consumer().tid);
  }

 private:
  static void forget(std::atomic<std::uint32_t>& tid) noexcept { tid.store(0, std::memory_order_relaxed); }
  void note(std::atomic<std::uint32_t>& tid) noexcept {
    if (tid.load(std::memory_order_relaxed) == 0) [[unlikely]] {
      note_now(tid);
    }
  }
  // Out of line: the caller's loop should not carry it.
  __attribute__((noinline)) void note_now(std::atomic<std::uint32_t>& tid) noexcept {
    const auto phase = static_cast<Phase>(file_->header().phase.load(std::memory_order_relaxed));
    if (phase == Phase::starting || phase == Phase::running) {
      tid.store(detail::thread_id(), std::memory_order_relaxed);
    }
  }
};

// A stage's place in the counter file. The stage's own thread calls the transitions.
class StageSlot : public detail::Slot<StageDescriptor, StageHot> {
 public:
  StageSlot() = default;
  StageSlot(CounterFile& file, const StageInfo& info) {
    take(file, file.header().stage_count, CounterFile::kStages, file.reserved_stages_,
         [&](StageDescriptor& to, StageHot& hot) {
           to.wait.store(static_cast<std::uint32_t>(info.wait), std::memory_order_release);
           to.tid.store(info.tid, std::memory_order_release);
           to.cpu.store(info.cpu, std::memory_order_release);
           to.type.store(info.stage.type);
           to.name.store(info.stage.name);
           to.group.store(info.group);
           for (auto* count : {&hot.busy_ticks, &hot.blocked_ticks, &hot.idle_ticks, &hot.events}) {
             count->store(0, std::memory_order_release);
           }
           hot.state.store(static_cast<std::uint32_t>(StageState::idle), std::memory_order_release);
           hot.transitions.store(0, std::memory_order_release);
           hot.since_ticks.store(ticks(), std::memory_order_release);
         });
  }
  StageSlot(StageSlot&&) noexcept = default;
  StageSlot& operator=(StageSlot&&) noexcept = default;
  ~StageSlot() {
    if (registered()) enter(StageState::idle, ticks());
  }

  [[nodiscard]] StageHot& line() const noexcept { return *hot_; }

  // From here the stage is idle, busy or blocked on a full output. A store or six, at transitions only.
  void enter(StageState state, std::uint64_t now) noexcept {
    StageHot& line = *hot_;
    const auto old = static_cast<StageState>(line.state.load(std::memory_order_relaxed));
    if (old == state) return;
    const std::uint64_t version = line.version.load(std::memory_order_relaxed);
    // every store below is a release, so none of them is seen before this odd version
    line.version.store(version + 1, std::memory_order_relaxed);
    const std::uint64_t spent = now - line.since_ticks.load(std::memory_order_relaxed);
    auto& sum = old == StageState::idle   ? line.idle_ticks
                : old == StageState::busy ? line.busy_ticks
                                          : line.blocked_ticks;
    sum.store(sum.load(std::memory_order_relaxed) + spent, std::memory_order_release);
    line.since_ticks.store(now, std::memory_order_release);
    line.state.store(static_cast<std::uint32_t>(state), std::memory_order_release);
    line.transitions.store(line.transitions.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    line.version.store(version + 2, std::memory_order_release);
  }
  void count(std::uint64_t events) noexcept {
    hot_->events.store(hot_->events.load(std::memory_order_relaxed) + events, std::memory_order_relaxed);
  }
  // Called by the stage's thread when it starts.
  void set_thread(std::uint32_t tid, std::int32_t cpu) noexcept {
    change([&] {
      descriptor_->tid.store(tid, std::memory_order_release);
      descriptor_->cpu.store(cpu, std::memory_order_release);
    });
  }
};

inline QueueSlot CounterFile::add_queue(const QueueInfo& info) {
  return {*this, info};
}

inline StageSlot CounterFile::add_stage(const StageInfo& info) {
  return {*this, info};
}

}  // namespace latlab
