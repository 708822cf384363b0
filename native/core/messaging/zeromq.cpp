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

struct Library {
  std::string path{};
  void* (*context)() = nullptr;
  int (*set_context)(void*, int, int) = nullptr;
  void* (*socket)(void*, int) = nullptr;
  int (*set)(void*, int, const void*, std::size_t) = nullptr;
  int (*bind)(void*, const char*) = nullptr;
  int (*connect)(void*, const char*) = nullptr;
  int (*send)(void*, const void*, std::size_t, int) = nullptr;
  int (*receive)(void*, void*, std::size_t, int) = nullptr;
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
  load(handle, "zmq_recv", l.receive);
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

bool again(int error, bool poll, bool yield, const StopFlag& stop) {
  if (stop.load(std::memory_order_relaxed) || error == kTerminated) return false;
  if (poll && error == EAGAIN) {
    if (yield)
      sched_yield();
    else
      pause_cpu();
  }
  return error == EAGAIN || error == EINTR;
}

class ZeromqSender final : public Sender {
 public:
  ZeromqSender(const ChannelSpec& spec, const StopFlag& stop)
      : socket_(spec),
        size_(spec.size),
        poll_(spec.poll),
        yield_(spec.yield),
        stop_(stop),
        buffer_(spec.size * spec.batch) {}
  std::byte* claim() override {
    if (filled_ == buffer_.size() && !flush()) return nullptr;
    return stop_.load(std::memory_order_relaxed) ? nullptr : buffer_.data() + filled_;
  }
  void commit() override { filled_ += size_; }
  bool flush() override {
    for (std::size_t at = 0; at < filled_;) {
      const int n = socket_.lib().send(socket_.get(), buffer_.data() + at, size_, poll_ ? kDontWait : 0);
      if (n >= 0) {
        at += size_;
      } else if (!again(socket_.lib().error(), poll_, yield_, stop_)) {
        error_ = stop_.load() ? 0 : socket_.lib().error();
        return false;
      }
    }
    filled_ = 0;
    return true;
  }

 private:
  Socket socket_;
  std::size_t size_;
  bool poll_;
  bool yield_;
  const StopFlag& stop_;
  std::vector<std::byte> buffer_;
  std::size_t filled_ = 0;
};

class ZeromqReceiver final : public Receiver {
 public:
  ZeromqReceiver(const ChannelSpec& spec, const StopFlag& stop)
      : socket_(spec),
        size_(spec.size),
        poll_(spec.poll),
        yield_(spec.yield),
        stop_(stop),
        buffer_(spec.size + 1) {}
  Block receive() override {
    for (;;) {
      const int n =
          socket_.lib().receive(socket_.get(), buffer_.data(), buffer_.size(), poll_ ? kDontWait : 0);
      if (n == static_cast<int>(size_)) return {.data = buffer_.data(), .stride = size_, .count = 1};
      if (n < 0 && !again(socket_.lib().error(), poll_, yield_, stop_)) {
        error_ = stop_.load() ? 0 : socket_.lib().error();
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
  std::vector<std::byte> buffer_;
};

}  // namespace

std::unique_ptr<Sender> make_zeromq_sender(const ChannelSpec& spec, const StopFlag& stop) {
  return std::make_unique<ZeromqSender>(spec, stop);
}

std::unique_ptr<Receiver> make_zeromq_receiver(const ChannelSpec& spec, const StopFlag& stop) {
  return std::make_unique<ZeromqReceiver>(spec, stop);
}

}  // namespace latlab::messaging
