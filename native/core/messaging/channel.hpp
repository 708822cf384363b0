// Threads: one thread uses a Sender, one a Receiver; a StopFlag may be raised from anywhere.
//
// One end of a transport, as the loops see it. A sender hands out room for one message (claim), takes it back
// filled in (commit) and pushes out what it holds (flush); a receiver lends a block of whole messages until
// the next call. No call allocates. A call that waits looks at the stop flag, and the signal that raises the
// flag interrupts the system call it waits in.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "not_copied.hpp"

namespace latlab::messaging {

using StopFlag = std::atomic<bool>;

struct Block {
  const std::byte* data = nullptr;
  std::size_t stride = 0;
  std::size_t count = 0;        // 0: nothing more will come, or the flag is raised
  std::uint64_t kernel_ns = 0;  // CLOCK_REALTIME at which the kernel took the block's last byte; 0: unknown
};

class Sender : NotCopied {
 public:
  virtual ~Sender() = default;
  // Room for one message, or nullptr when stopped. The room holds what the last message in it held.
  virtual std::byte* claim() = 0;
  virtual void commit() = 0;
  // False when the peer has gone or the system refused; error() then says how.
  virtual bool flush() = 0;
  virtual void close() {}
  // Whether the first `batch` rooms come back in turn with their content, so that a body is written only
  // once.
  virtual bool keeps_bodies() const noexcept { return true; }
  int error() const noexcept { return error_; }

 protected:
  int error_ = 0;
};

class Receiver : NotCopied {
 public:
  virtual ~Receiver() = default;
  virtual Block receive() = 0;
  int error() const noexcept { return error_; }

 protected:
  int error_ = 0;
};

// What a channel is made of: "ring:FD", "stream:FD", "datagram:FD", "queue:FD" (POSIX mq) or
// "zeromq:push|pull|pub|sub|pair:bind|connect:ADDRESS", or a plug-in's (plugin.hpp).
struct ChannelSpec {
  std::string text{};
  std::size_t size = 64;  // bytes a message
  std::size_t batch = 1;  // messages a flush, at most
  bool poll = false;      // spin instead of sleeping in the kernel
  bool yield = false;     // a spinning waiter gives its core away (fewer cores than threads)
  bool kernel_stamps = false;
  std::string library{};  // path of libzmq, where it isn't the system's
  int priority = 0;       // of SCHED_FIFO for threads that a library starts; 0 leaves them as they are
};

// Messages that are gathered until `batch` of them are flushed together.
class BatchSender : public Sender {
 public:
  BatchSender(const ChannelSpec& spec, const StopFlag& stop)
      : size_(spec.size), stop_(stop), buffer_(spec.size * spec.batch) {}
  std::byte* claim() final {
    if (filled_ == buffer_.size() && !flush()) return nullptr;
    return stop_.load(std::memory_order_relaxed) ? nullptr : buffer_.data() + filled_;
  }
  void commit() final { filled_ += size_; }

 protected:
  std::size_t size_;
  const StopFlag& stop_;
  std::vector<std::byte> buffer_;
  std::size_t filled_ = 0;
};

// Both throw std::invalid_argument for a spec that means nothing, std::system_error where the system refuses.
std::unique_ptr<Sender> make_sender(const ChannelSpec& spec, const StopFlag& stop);
std::unique_ptr<Receiver> make_receiver(const ChannelSpec& spec, const StopFlag& stop);

// Bytes of shared memory that a ring of `slots` messages takes; rings are laid out in ring.hpp.
std::size_t ring_bytes(std::size_t size, std::size_t slots);
void ring_create(int fd, std::size_t size, std::size_t slots);

// An anonymous POSIX message queue: {receiving end, sending end}; its name is gone before this returns.
struct QueueEnds {
  int receive;
  int send;
};
QueueEnds open_message_queue(std::size_t size, std::size_t depth);

std::unique_ptr<Sender> make_zeromq_sender(const ChannelSpec& spec, const StopFlag& stop);
std::unique_ptr<Receiver> make_zeromq_receiver(const ChannelSpec& spec, const StopFlag& stop);

}  // namespace latlab::messaging
