#include "messaging/channel.hpp"

#include <fcntl.h>
#include <linux/errqueue.h>
#include <linux/net_tstamp.h>
#include <mqueue.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "messaging/plugin.hpp"
#include "messaging/ring.hpp"

namespace latlab::messaging {
namespace {

[[noreturn]] void refuse(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

// True: try again. EINTR is how the stop flag reaches a waiting call.
bool again(int error, bool poll, bool yield, const StopFlag& stop) {
  if (stop.load(std::memory_order_relaxed)) return false;
  if (error == EINTR) return true;
  if (poll && (error == EAGAIN || error == EWOULDBLOCK)) {
    if (yield)
      sched_yield();  // what it waits for may need this very core
    else
      pause_cpu();
    return true;
  }
  return false;
}

void set_waiting(int fd, bool poll) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0) refuse("fcntl");
  if (fcntl(fd, F_SETFL, poll ? flags | O_NONBLOCK : flags & ~O_NONBLOCK) < 0) refuse("fcntl");
}

class StreamSender final : public BatchSender {
 public:
  StreamSender(int fd, const ChannelSpec& spec, const StopFlag& stop)
      : BatchSender(spec, stop), fd_(fd), poll_(spec.poll), yield_(spec.yield) {
    struct stat status{};
    if (fstat(fd, &status) < 0) refuse("fstat");
    socket_ = S_ISSOCK(status.st_mode);
    set_waiting(fd, spec.poll);
  }
  bool flush() override {
    std::size_t at = 0;
    while (at < filled_) {
      const auto* data = buffer_.data() + at;
      // MSG_NOSIGNAL: a receiver that has gone is an error to report, not a signal to die from.
      const ssize_t n =
          socket_ ? send(fd_, data, filled_ - at, MSG_NOSIGNAL) : write(fd_, data, filled_ - at);
      if (n > 0) {
        at += static_cast<std::size_t>(n);
      } else if (!again(errno, poll_, yield_, stop_)) {
        error_ = stop_.load() ? 0 : errno;
        return false;
      }
    }
    filled_ = 0;
    return true;
  }
  void close() override {
    if (socket_)
      shutdown(fd_, SHUT_WR);
    else
      ::close(fd_);
  }

 private:
  int fd_;
  bool poll_;
  bool yield_;
  bool socket_ = false;
};

// recvmsg with room for a kernel time stamp; 0 where the kernel gave none.
struct Stamped {
  std::array<char, 256> control;
  ssize_t receive(int fd, iovec* where, std::uint64_t& kernel_ns) {
    msghdr header{};
    header.msg_iov = where;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    const ssize_t n = recvmsg(fd, &header, 0);
    if (n <= 0) return n;
    for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
      if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPING) {
        timespec software{};
        std::memcpy(&software, CMSG_DATA(c), sizeof software);
        kernel_ns = static_cast<std::uint64_t>(software.tv_sec) * 1'000'000'000U +
                    static_cast<std::uint64_t>(software.tv_nsec);
      }
    }
    return n;
  }
};

void ask_for_stamps(int fd) {
  const int flags = SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE;
  if (setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &flags, sizeof flags) < 0) refuse("SO_TIMESTAMPING");
}

// What receivers from the kernel have in common: the descriptor, how it is waited on, and room for messages.
class DescriptorReceiver : public Receiver {
 protected:
  DescriptorReceiver(int fd, const ChannelSpec& spec, const StopFlag& stop)
      : fd_(fd),
        size_(spec.size),
        poll_(spec.poll),
        yield_(spec.yield),
        stamps_(spec.kernel_stamps),
        stop_(stop) {
    set_waiting(fd, spec.poll);
  }

  int fd_;
  std::size_t size_;
  bool poll_;
  bool yield_;
  bool stamps_;
  const StopFlag& stop_;
  std::vector<std::byte> buffer_;
  Stamped stamped_{};
};

class StreamReceiver final : public DescriptorReceiver {
 public:
  StreamReceiver(int fd, const ChannelSpec& spec, const StopFlag& stop) : DescriptorReceiver(fd, spec, stop) {
    // At most 32 messages a read: the first of a long queue must not wait, nor be stamped, until the last has
    // been copied, and a 32nd of a system call is little.
    constexpr std::size_t kMost = 262'144;
    buffer_.resize(size_ >= kMost ? size_ : std::min<std::size_t>(32, kMost / size_) * size_);
    if (stamps_) ask_for_stamps(fd);
  }
  Block receive() override {
    const std::size_t used = lent_ * size_;
    if (used != 0 && used != filled_) std::memmove(buffer_.data(), buffer_.data() + used, filled_ - used);
    filled_ -= used;
    lent_ = 0;
    Block block{.data = buffer_.data(), .stride = size_};
    while (filled_ < size_) {
      iovec where{buffer_.data() + filled_, buffer_.size() - filled_};
      const ssize_t n =
          stamps_ ? stamped_.receive(fd_, &where, block.kernel_ns) : read(fd_, where.iov_base, where.iov_len);
      if (n > 0) {
        filled_ += static_cast<std::size_t>(n);
      } else if (n == 0 || !again(errno, poll_, yield_, stop_)) {
        error_ = n == 0 || stop_.load() ? 0 : errno;
        return {};
      }
    }
    block.count = lent_ = filled_ / size_;
    return block;
  }

 private:
  std::size_t filled_ = 0;
  std::size_t lent_ = 0;
};

// Datagrams, and the messages of a POSIX queue: one call a message, whole messages only.
class DatagramSender final : public BatchSender {
 public:
  DatagramSender(int fd, bool queue, const ChannelSpec& spec, const StopFlag& stop)
      : BatchSender(spec, stop), fd_(fd), queue_(queue), poll_(spec.poll), yield_(spec.yield) {
    set_waiting(fd, spec.poll);
  }
  bool flush() override {
    for (std::size_t at = 0; at < filled_;) {
      const auto* data = buffer_.data() + at;
      const ssize_t n = queue_ ? mq_send(fd_, reinterpret_cast<const char*>(data), size_, 0)
                               : send(fd_, data, size_, MSG_NOSIGNAL);
      // ENOBUFS: the kernel's queue is full for the moment, which a blocking sender waits out.
      if (n >= 0) {
        at += size_;
      } else if (errno != ENOBUFS && !again(errno, poll_, yield_, stop_)) {
        error_ = stop_.load() ? 0 : errno;
        return false;
      } else if (stop_.load(std::memory_order_relaxed)) {
        return false;
      }
    }
    filled_ = 0;
    return true;
  }

 private:
  int fd_;
  bool queue_;
  bool poll_;
  bool yield_;
};

class DatagramReceiver final : public DescriptorReceiver {
 public:
  DatagramReceiver(int fd, bool queue, const ChannelSpec& spec, const StopFlag& stop)
      : DescriptorReceiver(fd, spec, stop), queue_(queue) {
    std::size_t room = size_ + 1;  // one byte more tells a longer datagram, which isn't ours
    if (queue) {
      mq_attr attributes{};
      if (mq_getattr(fd, &attributes) < 0) refuse("mq_getattr");
      room = std::max(room, static_cast<std::size_t>(attributes.mq_msgsize));
    }
    buffer_.resize(room);
    if (stamps_) ask_for_stamps(fd);
  }
  Block receive() override {
    for (;;) {
      Block block{.data = buffer_.data(), .stride = size_, .count = 1};
      iovec where{buffer_.data(), buffer_.size()};
      ssize_t n = 0;
      if (queue_)
        n = mq_receive(fd_, reinterpret_cast<char*>(buffer_.data()), buffer_.size(), nullptr);
      else if (stamps_)
        n = stamped_.receive(fd_, &where, block.kernel_ns);
      else
        n = recv(fd_, buffer_.data(), buffer_.size(), 0);
      if (n == static_cast<ssize_t>(size_)) return block;
      if (n < 0 && !again(errno, poll_, yield_, stop_)) {
        error_ = stop_.load() ? 0 : errno;
        return {};
      }
      if (stop_.load(std::memory_order_relaxed)) return {};  // and what has another length is not ours
    }
  }

 private:
  bool queue_;
};

struct Parts {
  std::string kind;
  int fd = -1;
};

Parts parts(const ChannelSpec& spec) {
  const auto colon = spec.text.find(':');
  Parts found{.kind = spec.text.substr(0, colon)};
  if (found.kind == "zeromq") return found;
  const char* first = spec.text.data() + (colon == std::string::npos ? spec.text.size() : colon + 1);
  const char* last = spec.text.data() + spec.text.size();
  const auto [end, bad] = std::from_chars(first, last, found.fd);
  if (bad != std::errc{} || end != last || found.fd < 0) {
    throw std::invalid_argument("channel '" + spec.text + "' is not KIND:DESCRIPTOR");
  }
  return found;
}

void check(const ChannelSpec& spec) {
  if (spec.size == 0 || spec.batch == 0) throw std::invalid_argument("size and batch are at least 1");
}

// One end of a channel: the class of each kind, and who makes those that other libraries carry.
template <class End, class Ring, class Stream, class Datagram, class Make>
std::unique_ptr<End> make_end(const ChannelSpec& spec, const StopFlag& stop, Make plugin, Make zeromq) {
  check(spec);
  if (spec.text.starts_with("plugin:")) return plugin(spec, stop);
  const Parts p = parts(spec);
  if (p.kind == "ring") return std::make_unique<Ring>(p.fd, spec, stop);
  if (p.kind == "stream") return std::make_unique<Stream>(p.fd, spec, stop);
  if (p.kind == "datagram") return std::make_unique<Datagram>(p.fd, false, spec, stop);
  if (p.kind == "queue") return std::make_unique<Datagram>(p.fd, true, spec, stop);
  if (p.kind == "zeromq") return zeromq(spec, stop);
  throw std::invalid_argument("there is no channel of kind '" + p.kind + "'");
}

}  // namespace

std::unique_ptr<Sender> make_sender(const ChannelSpec& spec, const StopFlag& stop) {
  return make_end<Sender, RingSender, StreamSender, DatagramSender>(spec, stop, make_plugin_sender,
                                                                    make_zeromq_sender);
}

std::unique_ptr<Receiver> make_receiver(const ChannelSpec& spec, const StopFlag& stop) {
  return make_end<Receiver, RingReceiver, StreamReceiver, DatagramReceiver>(spec, stop, make_plugin_receiver,
                                                                            make_zeromq_receiver);
}

std::size_t ring_bytes(std::size_t size, std::size_t slots) {
  return sizeof(RingHeader) + ((size + 63) / 64 * 64) * slots;
}

void ring_create(int fd, std::size_t size, std::size_t slots) {
  if (size == 0 || slots < 2) throw std::invalid_argument("a ring has at least 2 slots of at least 1 byte");
  const std::size_t bytes = ring_bytes(size, slots);
  if (ftruncate(fd, static_cast<off_t>(bytes)) < 0) refuse("ftruncate");
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (at == MAP_FAILED) refuse("mmap");
  auto* header = new (at) RingHeader{};
  header->magic = kRingMagic;
  header->version = kRingVersion;
  header->size = size;
  header->slots = slots;
  header->stride = (size + 63) / 64 * 64;
  munmap(at, bytes);
}

RingMapping::RingMapping(int fd, std::size_t size) {
  struct stat status{};
  if (fstat(fd, &status) < 0) refuse("fstat");
  bytes_ = static_cast<std::size_t>(status.st_size);
  if (bytes_ < sizeof(RingHeader)) throw std::invalid_argument("the shared memory is too short for a ring");
  void* at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (at == MAP_FAILED) refuse("mmap");
  header_ = static_cast<RingHeader*>(at);
  const bool ours = header_->magic == kRingMagic && header_->version == kRingVersion &&
                    header_->size == size && header_->slots >= 2 && header_->stride >= size &&
                    header_->slots <= (bytes_ - sizeof(RingHeader)) / header_->stride;
  if (!ours) {
    munmap(at, bytes_);
    throw std::invalid_argument("the shared memory holds no ring for messages of this size");
  }
}

QueueEnds open_message_queue(std::size_t size, std::size_t depth) {
  static std::atomic<unsigned> serial{0};
  const std::string name = "/latlab-" + std::to_string(getpid()) + "-" + std::to_string(serial.fetch_add(1));
  mq_attr attributes{};
  attributes.mq_maxmsg = static_cast<long>(depth);
  attributes.mq_msgsize = static_cast<long>(size);
  const int in = mq_open(name.c_str(), O_RDONLY | O_CREAT | O_EXCL, 0600, &attributes);
  if (in < 0) refuse("mq_open");
  const int out = mq_open(name.c_str(), O_WRONLY);
  const int error = errno;
  mq_unlink(name.c_str());
  if (out < 0) {
    mq_close(in);
    errno = error;
    refuse("mq_open");
  }
  return {.receive = in, .send = out};
}

}  // namespace latlab::messaging
