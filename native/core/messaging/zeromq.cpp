// ZeroMQ through libzmq's C interface, opened at run time: the core links to no product.
#include <dlfcn.h>
#include <sched.h>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

#include "messaging/channel.hpp"
#include "messaging/ring.hpp"

namespace latlab::messaging {
namespace {

// libzmq's numbers, from its zmq.h; they are part of its stable interface.
constexpr int kPush = 8, kPull = 7, kPub = 1, kSub = 2, kPair = 0;
constexpr int kSubscribe = 6, kLinger = 17, kReceiveTimeout = 27, kSendTimeout = 28;
constexpr int kDontWait = 1, kTerminated = 156384765, kReconnect = 18;
constexpr int kThreadPriority = 3, kThreadPolicy = 4;  // of a context
constexpr int kSendMost = 23, kReceiveMost = 24;       // messages that each end holds

// Its zmq_msg_t: opaque, and as large and aligned as its header says.
struct Message {
  alignas(void*) std::array<unsigned char, 64> opaque{};
  void* get() noexcept { return &opaque; }
};

// Up to this size a sender hands over its own memory, which libzmq then neither allocates nor frees. A
// connection holds at most kHeld messages at each end, so that a room is free again when its turn comes.
constexpr std::size_t kLent = 4096;
constexpr int kHeld = 1000;
constexpr std::size_t kRooms = 4 * static_cast<std::size_t>(kHeld);

struct Library {
  std::string path{};
  void* (*context)() = nullptr;
  int (*set_context)(void*, int, int) = nullptr;
  void* (*socket)(void*, int) = nullptr;
  int (*set)(void*, int, const void*, std::size_t) = nullptr;
  int (*bind)(void*, const char*) = nullptr;
  int (*connect)(void*, const char*) = nullptr;
  int (*send)(void*, const void*, std::size_t, int) = nullptr;
  int (*message)(void*) = nullptr;
  int (*message_of)(void*, void*, std::size_t, void (*)(void*, void*), void*) = nullptr;
  int (*message_send)(void*, void*, int) = nullptr;
  int (*message_receive)(void*, void*, int) = nullptr;
  void* (*message_data)(void*) = nullptr;
  int (*message_close)(void*) = nullptr;
  int (*close)(void*) = nullptr;
  int (*terminate)(void*) = nullptr;
  int (*error)() = nullptr;
  const char* (*explain)(int) = nullptr;
};

template <class Function>
void load(void* handle, const char* name, Function& into) {
  into = reinterpret_cast<Function>(dlsym(handle, name));
  if (into == nullptr) throw std::invalid_argument(std::string("libzmq has no ") + name);
}

const Library& library(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::string, Library> loaded;
  const std::scoped_lock lock(mutex);
  if (const auto found = loaded.find(path); found != loaded.end()) return found->second;
  void* handle = dlopen(path.empty() ? "libzmq.so.5" : path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) throw std::invalid_argument("libzmq can't be opened");
  Library l{.path = path};
  load(handle, "zmq_ctx_new", l.context);
  load(handle, "zmq_ctx_set", l.set_context);
  load(handle, "zmq_socket", l.socket);
  load(handle, "zmq_setsockopt", l.set);
  load(handle, "zmq_bind", l.bind);
  load(handle, "zmq_connect", l.connect);
  load(handle, "zmq_send", l.send);
  load(handle, "zmq_msg_init", l.message);
  load(handle, "zmq_msg_init_data", l.message_of);
  load(handle, "zmq_msg_send", l.message_send);
  load(handle, "zmq_msg_recv", l.message_receive);
  load(handle, "zmq_msg_data", l.message_data);
  load(handle, "zmq_msg_close", l.message_close);
  load(handle, "zmq_close", l.close);
  load(handle, "zmq_ctx_term", l.terminate);
  load(handle, "zmq_errno", l.error);
  load(handle, "zmq_strerror", l.explain);
  return loaded.emplace(path, l).first->second;
}

// inproc addresses are known within a context only. Elsewhere each end has its own, and with it an I/O
// thread, as if it were a process of its own.
void* context_of(const Library& l, const std::string& how, bool inproc, int priority) {
  static std::mutex mutex;
  static std::map<std::string, void*> contexts;
  const std::scoped_lock lock(mutex);
  void*& context = contexts[inproc ? l.path : l.path + "|" + how + "|" + std::to_string(priority)];
  if (context == nullptr) {
    context = l.context();
    if (!inproc && priority > 0) {  // what carries the messages must not wait for what only waits for them
      l.set_context(context, kThreadPolicy, SCHED_FIFO);
      l.set_context(context, kThreadPriority, priority);
    }
  }
  return context;
}

class Socket {
 public:
  explicit Socket(const ChannelSpec& spec) : lib_(library(spec.library)) {
    // "zeromq:ROLE:bind|connect:ADDRESS"
    const auto a = spec.text.find(':');
    const auto b = spec.text.find(':', a + 1);
    const auto c = spec.text.find(':', b + 1);
    if (a == std::string::npos || b == std::string::npos || c == std::string::npos) {
      throw std::invalid_argument("channel '" + spec.text + "' is not zeromq:ROLE:bind|connect:ADDRESS");
    }
    static const std::map<std::string, int> kRoles{
        {"push", kPush}, {"pull", kPull}, {"pub", kPub}, {"sub", kSub}, {"pair", kPair}};
    const auto role = kRoles.find(spec.text.substr(a + 1, b - a - 1));
    const std::string how = spec.text.substr(b + 1, c - b - 1);
    const std::string address = spec.text.substr(c + 1);
    if (role == kRoles.end() || (how != "bind" && how != "connect")) {
      throw std::invalid_argument("channel '" + spec.text + "' is not zeromq:ROLE:bind|connect:ADDRESS");
    }
    socket_ = lib_.socket(context_of(lib_, how, address.starts_with("inproc:"), spec.priority), role->second);
    if (socket_ == nullptr) refuse("zmq_socket");
    set(kLinger, 1000);
    set(kReconnect, 1);  // ms; who connects before the other side is bound must not wait its usual 100
    set(kReceiveTimeout,
        50);  // libzmq goes on waiting after a signal: it must look at the stop flag by itself
    set(kSendTimeout, 50);
    set(kSendMost, kHeld);
    set(kReceiveMost, kHeld);
    if (role->second == kSub) lib_.set(socket_, kSubscribe, "", 0);
    const int done =
        how == "bind" ? lib_.bind(socket_, address.c_str()) : lib_.connect(socket_, address.c_str());
    if (done != 0) {
      const std::string why = lib_.explain(lib_.error());
      lib_.close(socket_);
      throw std::invalid_argument("ZeroMQ refuses " + address + ": " + why);
    }
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() { lib_.close(socket_); }
  void set(int option, int value) { lib_.set(socket_, option, &value, sizeof value); }
  const Library& lib() const noexcept { return lib_; }
  void* get() const noexcept { return socket_; }

 private:
  [[noreturn]] void refuse(const char* what) const {
    throw std::invalid_argument(std::string(what) + ": " + lib_.explain(lib_.error()));
  }
  const Library& lib_;
  void* socket_ = nullptr;
};

bool asks_again(int error, bool poll, bool yield, const StopFlag& stop) {
  if (stop.load(std::memory_order_relaxed) || error == kTerminated) return false;
  if (poll && error == EAGAIN) {
    if (yield)
      sched_yield();
    else
      pause_cpu();
  }
  return error == EAGAIN || error == EINTR;
}

// Memory that a sender has lent outlives it, since libzmq closes a socket behind its user's back: the next
// sender takes it, and it is never freed.
class Lent {
 public:
  explicit Lent(std::size_t bytes) : rooms_(taken(bytes)) {}
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;
  ~Lent() {
    const std::scoped_lock lock(mutex());
    left().push_back(std::move(rooms_));
  }
  std::byte* data() noexcept { return rooms_.data(); }

 private:
  using Rooms = std::vector<std::byte>;
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }
  static std::vector<Rooms>& left() {
    static auto* all = new std::vector<Rooms>();  // not destroyed either: libzmq's threads end after us
    return *all;
  }
  static Rooms taken(std::size_t bytes) {
    const std::scoped_lock lock(mutex());
    for (auto& rooms : left()) {
      if (rooms.size() != bytes) continue;
      std::swap(rooms, left().back());
      Rooms found = std::move(left().back());
      left().pop_back();
      return found;
    }
    return Rooms(bytes);
  }
  Rooms rooms_;
};

class ZeromqSender final : public Sender {
 public:
  ZeromqSender(const ChannelSpec& spec, const StopFlag& stop)
      : socket_(spec),
        size_(spec.size),
        lends_(spec.size <= kLent && spec.batch < kHeld),
        poll_(spec.poll),
        yield_(spec.yield),
        stop_(stop),
        room_bytes_(spec.size * (lends_ ? kRooms : spec.batch)),
        rooms_(room_bytes_) {}
  std::byte* claim() override {
    if (filled_ == room_bytes_) {
      if (!flush()) return nullptr;
      filled_ = sent_ = 0;
    }
    return stop_.load(std::memory_order_relaxed) ? nullptr : rooms_.data() + filled_;
  }
  void commit() override { filled_ += size_; }
  bool flush() override {
    for (; sent_ < filled_; sent_ += size_) {
      while (!(lends_ ? lend(rooms_.data() + sent_) : copy(rooms_.data() + sent_))) {
        const int why = socket_.lib().error();
        if (!asks_again(why, poll_, yield_, stop_)) {
          error_ = stop_.load() ? 0 : why;
          return false;
        }
      }
    }
    if (!lends_) filled_ = sent_ = 0;
    return true;
  }
  bool keeps_bodies() const noexcept override { return !lends_; }

 private:
  bool copy(std::byte* data) {
    return socket_.lib().send(socket_.get(), data, size_, poll_ ? kDontWait : 0) >= 0;
  }
  bool lend(std::byte* data) {
    Message message;
    socket_.lib().message_of(message.get(), data, size_, nullptr, nullptr);
    return socket_.lib().message_send(message.get(), socket_.get(), poll_ ? kDontWait : 0) >= 0;
  }
  Socket socket_;
  std::size_t size_;
  bool lends_;
  bool poll_;
  bool yield_;
  const StopFlag& stop_;
  std::size_t room_bytes_;
  Lent rooms_;
  std::size_t filled_ = 0;
  std::size_t sent_ = 0;
};

class ZeromqReceiver final : public Receiver {
 public:
  ZeromqReceiver(const ChannelSpec& spec, const StopFlag& stop)
      : socket_(spec), size_(spec.size), poll_(spec.poll), yield_(spec.yield), stop_(stop) {
    socket_.lib().message(message_.get());
  }
  ZeromqReceiver(const ZeromqReceiver&) = delete;
  ZeromqReceiver& operator=(const ZeromqReceiver&) = delete;
  ~ZeromqReceiver() override { socket_.lib().message_close(message_.get()); }
  Block receive() override {
    const Library& lib = socket_.lib();
    for (;;) {
      const int n = lib.message_receive(message_.get(), socket_.get(), poll_ ? kDontWait : 0);
      if (n == static_cast<int>(size_)) {
        return {.data = static_cast<const std::byte*>(lib.message_data(message_.get())),
                .stride = size_,
                .count = 1};
      }
      if (n < 0 && !asks_again(lib.error(), poll_, yield_, stop_)) {
        error_ = stop_.load() ? 0 : lib.error();
        return {};
      }
    }
  }

 private:
  Socket socket_;
  std::size_t size_;
  bool poll_;
  bool yield_;
  const StopFlag& stop_;
  Message message_;
};

}  // namespace

std::unique_ptr<Sender> make_zeromq_sender(const ChannelSpec& spec, const StopFlag& stop) {
  return std::make_unique<ZeromqSender>(spec, stop);
}

std::unique_ptr<Receiver> make_zeromq_receiver(const ChannelSpec& spec, const StopFlag& stop) {
  return std::make_unique<ZeromqReceiver>(spec, stop);
}

}  // namespace latlab::messaging
