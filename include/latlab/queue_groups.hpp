// Threads: DuplexQueue: one thread at each end. PartitionedQueue: one producer thread, one worker thread a
// partition. Construction and destruction: one thread, while no other uses it.
//
// Queues that belong together: the two directions of a bidirectional queue, and the partitions of a pool of
// workers. Each is a queue of its own for an observer, and names the other, or its group.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "queue.hpp"

namespace latlab {

// Two directions between two stages: what is the source of one is the drain of the other.
template <class T>
class DuplexQueue {
 public:
  // One end: what it sends, the other receives.
  class End {
   public:
    bool try_send(const T& value) { return out_->try_push(value); }
    bool try_receive(T& value) { return in_->try_pop(value); }
    [[nodiscard]] SpscRing<T>& outgoing() noexcept { return *out_; }
    [[nodiscard]] SpscRing<T>& incoming() noexcept { return *in_; }

   private:
    friend class DuplexQueue;
    End(SpscRing<T>& out, SpscRing<T>& in) : out_(&out), in_(&in) {}
    SpscRing<T>* out_;
    SpscRing<T>* in_;
  };

  // `info.source` is the stage at the first end, `info.drain` that at the second. Each direction holds
  // `capacity` events and is called by the name with ">" or "<" behind it.
  explicit DuplexQueue(std::size_t capacity, const QueueInfo& info = {},
                       CounterFile& file = CounterFile::process())
      : there_(capacity, one(info, std::string(info.name) + ">", false), file),
        back_(capacity, one(info, std::string(info.name) + "<", true), file) {
    there_.slot().set_pair(back_.slot().slot());
    back_.slot().set_pair(there_.slot().slot());
  }

  [[nodiscard]] End first() noexcept { return End(there_, back_); }
  [[nodiscard]] End second() noexcept { return End(back_, there_); }
  void set_first(const StageName& stage) noexcept {
    there_.slot().set_source(stage);
    back_.slot().set_drain(stage);
  }
  void set_second(const StageName& stage) noexcept {
    there_.slot().set_drain(stage);
    back_.slot().set_source(stage);
  }

 private:
  static QueueInfo one(QueueInfo info, std::string_view name, bool back) {
    info.name = name;
    info.kind = QueueKind::bidirectional;
    if (back) std::swap(info.source, info.drain);
    return info;
  }

  SpscRing<T> there_;
  SpscRing<T> back_;
};

// A queue for a pool of workers, each with a partition of its own: events with the same key keep their order,
// and the partitions' fills tell a key that is used too much from a pool that is too small.
template <class T>
class PartitionedQueue {
 public:
  // Partition i holds `capacity` events, is called by the name with ".i" behind it, drains into a worker of
  // `info.drain.type` called likewise, and belongs to `info.group` (by default the name).
  PartitionedQueue(std::size_t partitions, std::size_t capacity, const QueueInfo& info = {},
                   CounterFile& file = CounterFile::process()) {
    const std::string group(info.group.empty() ? info.name : info.group);
    for (std::size_t i = 0; i < partitions; ++i) {
      const std::string number = "." + std::to_string(i);
      const std::string name = std::string(info.name) + number;
      const std::string worker =
          std::string(info.drain.name.empty() ? info.drain.type : info.drain.name) + number;
      QueueInfo mine = info;
      mine.name = name;
      mine.group = group;
      if (worker != number) mine.drain.name = worker;
      rings_.push_back(std::make_unique<SpscRing<T>>(capacity, mine, file));
    }
  }

  [[nodiscard]] std::size_t partitions() const noexcept { return rings_.size(); }
  [[nodiscard]] SpscRing<T>& partition(std::size_t i) noexcept { return *rings_[i]; }
  // False when the key's partition is full: another's room is of no use to it.
  bool try_push(std::size_t key, const T& value) { return rings_[key % rings_.size()]->try_push(value); }

 private:
  std::vector<std::unique_ptr<SpscRing<T>>> rings_;
};

}  // namespace latlab
