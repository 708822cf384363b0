// Threads: as messaging_plugin.h has it: one thread sends, one receives; each end has a connection of its
// own.
//
// RabbitMQ (AMQP 0-9-1) by librabbitmq, its C client, as a plug-in of `latlab messaging`: the default
// exchange and a queue. The options are those of a URL's query:
//
//   library=FILE&host=…&port=…&user=…&password=…&vhost=/&key=NAME   as whom, where, and which queue (a number
//                                                                   is added: each receiver has a fresh one)
//   confirms=no|yes     publisher confirms
//   pipeline=1          messages that may wait for their confirmation
//   durable=no|yes      a queue that outlives a restart of the server
//   persistent=no|yes   messages that do
//   queue-type=classic|quorum
//   ack=no|yes          acknowledge each message
//   prefetch=0          messages without an acknowledgement, at most; 0: any number
#include <latlab/messaging_plugin.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <set>

#include "end.hpp"
#include "rabbitmq_library.hpp"
#include "words.hpp"

namespace {

using latlab::plugins::End;
using latlab::plugins::kWaitMs;
using latlab::rabbitmq::bytes_of;
using latlab::rabbitmq::Library;
using latlab::rabbitmq::Reply;
namespace amqp = latlab::rabbitmq;

constexpr std::uint16_t kChannel = 1;
constexpr timeval kPatience{5, 0}, kLast{2, 0};
constexpr int kFrameBytes = 131'072;
constexpr unsigned kStuckMs = 30'000;  // a server that takes nothing for this long has gone
constexpr std::chrono::seconds kLastConfirmations{2};

struct Options {
  std::string library{}, host{}, user{}, password{}, vhost{}, key{"latlab"}, type{"classic"};
  std::size_t port = 5672, pipeline = 1, prefetch = 0;
  bool confirms = false, durable = false, persistent = false, ack = false;
};

Options options_of(const char* text) {
  Options o;
  latlab::plugins::read_words(
      text, {.texts = {{"library", &o.library},
                       {"host", &o.host},
                       {"user", &o.user},
                       {"password", &o.password},
                       {"vhost", &o.vhost},
                       {"key", &o.key},
                       {"queue-type", &o.type}},
             .numbers = {{"port", &o.port}, {"pipeline", &o.pipeline}, {"prefetch", &o.prefetch}},
             .switches = {{"confirms", &o.confirms},
                          {"durable", &o.durable},
                          {"persistent", &o.persistent},
                          {"ack", &o.ack}}});
  if (o.pipeline < 1 || o.prefetch > 65'535) throw std::invalid_argument("out of range");
  if (o.user.empty()) o.user = o.password = "guest";
  if (o.vhost.empty()) o.vhost = "/";
  o.durable = o.durable || o.type == "quorum";  // quorum queues are always durable
  return o;
}

// What the server or the library has against a call, as an errno; 0: nothing.
int errno_of(const Reply& reply) noexcept {
  if (reply.reply_type == amqp::kNormal) return 0;
  if (reply.reply_type == amqp::kLibrary && reply.library_error == amqp::kTimeout) return ETIMEDOUT;
  if (reply.reply_type != amqp::kServer || reply.reply.decoded == nullptr) return ECONNRESET;
  if (reply.reply.id != amqp::kChannelClose && reply.reply.id != amqp::kConnectionClose) return EPROTO;
  switch (static_cast<const amqp::Close*>(reply.reply.decoded)->reply_code) {
    case amqp::kAccessRefused:
    case amqp::kNotAllowed:
      return EACCES;
    case amqp::kNotFound:
      return ENOENT;
    default:
      return EPROTO;
  }
}

class Connection : latlab::NotCopied {
 public:
  explicit Connection(const Options& options)
      : lib_(latlab::plugins::library_of<Library>(options.library)), it_(lib_.create()) {
    if (it_ == nullptr) throw std::bad_alloc();
    try {
      void* socket = lib_.tcp_socket(it_);
      if (socket == nullptr) throw std::bad_alloc();
      const int port = static_cast<int>(options.port);
      if (lib_.open(socket, options.host.c_str(), port, &kPatience) != amqp::kOk) fail(ECONNREFUSED);
      const unsigned stuck = kStuckMs;
      setsockopt(fd(), IPPROTO_TCP, TCP_USER_TIMEOUT, &stuck, sizeof stuck);
      lib_.rpc_timeout(it_, &kPatience);
      check(lib_.login(it_, options.vhost.c_str(), 0, kFrameBytes, 0, amqp::kPlain, options.user.c_str(),
                       options.password.c_str()));
      lib_.channel_open(it_, kChannel);
      check();
    } catch (...) {
      lib_.destroy(it_);
      throw;
    }
  }
  ~Connection() { lib_.destroy(it_); }

  const Library& lib() const noexcept { return lib_; }
  void* it() const noexcept { return it_; }
  int fd() const noexcept { return lib_.descriptor(it_); }
  // Throws what the server has against the last call.
  void check() const { check(lib_.reply(it_)); }
  // Whether something that was read waits to be looked at.
  bool holds() const noexcept { return lib_.enqueued(it_) != 0 || lib_.buffered(it_) != 0; }

 private:
  [[noreturn]] static void fail(int error) { throw std::system_error(error, std::generic_category()); }
  static void check(const Reply& reply) {
    if (const int error = errno_of(reply); error != 0) fail(error);
  }
  const Library& lib_;
  void* it_;
};

class Receiver final : public End {
 public:
  Receiver(const Options& options, const latlab_messaging_settings& asked)
      : queue_(options.key), size_(asked.size), block_(asked.block != 0), ack_(options.ack), in_(options) {
    static std::atomic<unsigned> serial{0};
    queue_ += "-" + std::to_string(serial.fetch_add(1));
    const Library& lib = in_.lib();
    if (options.prefetch > 0) {
      lib.qos(in_.it(), kChannel, 0, static_cast<std::uint16_t>(options.prefetch), 0);
      in_.check();
    }
    std::array<amqp::Entry, 2> entries{};
    entries[0].key = bytes_of("x-queue-type");
    entries[0].value.kind = 'S';
    entries[0].value.value.bytes = bytes_of(options.type);
    entries[1].key = bytes_of("x-expires");  // of a run that was killed, the server forgets it by itself
    entries[1].value.kind = 'I';
    entries[1].value.value.i32 = 600'000;
    lib.queue_declare(in_.it(), kChannel, bytes_of(queue_), 0, options.durable ? 1 : 0, 0, 0,
                      {static_cast<int>(entries.size()), entries.data()});
    in_.check();
    lib.consume(in_.it(), kChannel, bytes_of(queue_), {}, 0, ack_ ? 0 : 1, 0, {});
    in_.check();
  }
  ~Receiver() override {
    if (gone_) return;
    in_.lib().rpc_timeout(in_.it(), &kLast);  // a server that stands still keeps nobody waiting
    in_.lib().queue_delete(in_.it(), kChannel, bytes_of(queue_), 0, 0);
  }
  const std::string& queue() const noexcept { return queue_; }

  long receive(std::byte* into, std::size_t size, std::size_t count) override {
    if (size != size_) return -EMSGSIZE;
    std::size_t came = 0;
    while (came < count) {
      if (came > 0 && !in_.holds()) break;
      const int error = next(into, came == 0 && block_);
      if (error == EAGAIN) break;
      if (error != 0) return came > 0 ? static_cast<long>(came) : -error;
      into += size_;
      ++came;
    }
    return static_cast<long>(came);
  }

 private:
  // One message; EAGAIN where there is none.
  int next(std::byte* into, bool wait) {
    const Library& lib = in_.lib();
    lib.release(in_.it());
    const timeval longest{0, wait ? kWaitMs * 1000L : 0};
    amqp::Envelope envelope{};
    const Reply reply = lib.next(in_.it(), &envelope, &longest, 0);
    if (reply.reply_type == amqp::kLibrary && reply.library_error == amqp::kTimeout) return EAGAIN;
    if (reply.reply_type != amqp::kNormal) {  // a frame that is none of a message ends the channel, too
      gone_ = true;
      return ECONNRESET;
    }
    const amqp::Bytes& body = envelope.message.body;
    const bool whole = body.len == size_;
    if (whole) std::memcpy(into, body.bytes, size_);
    const std::uint64_t tag = envelope.delivery_tag;
    lib.free_envelope(&envelope);
    if (!whole) return EBADMSG;
    if (ack_ && lib.ack(in_.it(), kChannel, tag, 0) != amqp::kOk) {
      gone_ = true;
      return ECONNRESET;
    }
    return 0;
  }

  std::string queue_;
  std::size_t size_;
  bool block_, ack_;
  Connection in_;
  bool gone_ = false;
};

class Sender final : public End {
 public:
  Sender(const Options& options, const latlab_messaging_settings& asked, const std::string& queue)
      : queue_(queue),
        size_(asked.size),
        room_(options.confirms ? options.pipeline : 0),
        wanted_(std::max<std::size_t>(1, std::min<std::size_t>(asked.batch, options.pipeline))),
        block_(asked.block != 0),
        out_(options) {
    properties_._flags = amqp::kDeliveryMode;
    properties_.delivery_mode = options.persistent ? 2 : 1;
    if (room_ == 0) return;
    out_.lib().confirm_select(out_.it(), kChannel);
    out_.check();
  }
  ~Sender() override {
    const auto end = std::chrono::steady_clock::now() + kLastConfirmations;
    while (error_ == 0 && !outstanding_.empty() && std::chrono::steady_clock::now() < end) collect(true);
    // A server drops what it has not read yet of a connection that just ends.
    if (error_ == 0) out_.lib().close(out_.it(), amqp::kSuccess);
  }

  long send(const std::byte* messages, std::size_t size, std::size_t count) override {
    if (size != size_) return -EMSGSIZE;
    if (room_ == 0) collect(false);  // the server may have closed the channel
    std::size_t taken = 0;
    for (; taken < count && error_ == 0; ++taken, messages += size_) {
      if (full(1)) collect(block_ && taken == 0);
      if (full(1) || !writable()) break;
      publish(messages);
    }
    // The next message is stamped when this has returned, and must not wait for room then.
    while (error_ == 0 && block_ && full(wanted_) && collect(true)) {
    }
    return error_ != 0 ? error_ : static_cast<long>(taken);
  }

 private:
  bool full(std::size_t more) const noexcept { return room_ != 0 && outstanding_.size() + more > room_; }
  // The library waits without an end for a server that reads nothing: it is asked only when the kernel has
  // room.
  bool writable() const noexcept {
    pollfd one{out_.fd(), POLLOUT, 0};
    return poll(&one, 1, block_ ? kWaitMs : 0) > 0;
  }
  void publish(const std::byte* message) {
    const amqp::Bytes body{size_, const_cast<std::byte*>(message)};  // which is only read
    if (out_.lib().publish(out_.it(), kChannel, {}, bytes_of(queue_), 0, 0, &properties_, body) != amqp::kOk)
      error_ = -ECONNRESET;
    else if (room_ != 0)
      outstanding_.insert(++sent_);
  }
  // Reads what the server says, waiting for the first of it where it may. Whether anything came.
  bool collect(bool wait) {
    const Library& lib = out_.lib();
    bool came = false;
    while (error_ == 0) {
      const timeval longest{0, wait && !came ? kWaitMs * 1000L : 0};
      if (came && !out_.holds()) break;
      if (!wait && !came && !out_.holds() && !readable()) break;
      lib.release(out_.it());
      amqp::Frame frame{};
      const int status = lib.wait_frame(out_.it(), &frame, &longest);
      if (status == amqp::kTimeout) break;
      came = true;
      if (status != amqp::kOk)
        error_ = -ECONNRESET;
      else if (frame.frame_type == amqp::kMethodFrame)
        take(frame.payload.method);
    }
    return came;
  }
  bool readable() const noexcept {
    pollfd one{out_.fd(), POLLIN, 0};
    return poll(&one, 1, 0) > 0;
  }
  void take(const amqp::Method& method) {
    if (method.id == amqp::kAck) {
      const auto& ack = *static_cast<const amqp::Ack*>(method.decoded);
      if (ack.multiple != 0)
        outstanding_.erase(outstanding_.begin(), outstanding_.upper_bound(ack.delivery_tag));
      else
        outstanding_.erase(ack.delivery_tag);
    } else {  // it did not take a message, or closes the channel or the connection
      error_ = method.id == amqp::kNack ? -EIO : -ECONNRESET;
    }
  }

  std::string queue_;
  std::size_t size_, room_, wanted_;  // room_: messages without a confirmation, at most; 0: none is asked for
  bool block_;
  Connection out_;
  amqp::Properties properties_{};
  std::set<std::uint64_t> outstanding_{};
  std::uint64_t sent_ = 0;
  int error_ = 0;  // a negative errno
};

}  // namespace

const latlab_messaging* latlab_messaging_plugin(void) {
  static const latlab_messaging plugin =
      latlab::plugins::plugin_of(LATLAB_CAN_BLOCK, 16U << 20, "librabbitmq", "RabbitMQ by librabbitmq",
                                 latlab::plugins::open_end<Receiver, Sender, options_of, &Receiver::queue>);
  return &plugin;
}
