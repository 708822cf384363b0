// Threads: as messaging_plugin.h has it: one thread sends, one receives; each end has a connection of its
// own, which the library reads (and, with asap=no, writes) by threads of its own.
//
// NATS core by nats.c, its C client, as a plug-in of `latlab messaging`. The options are those of a URL's
// query:
//
//   library=FILE&host=…&port=…&user=…&password=…&token=…&key=NAME   as whom, where, and which subject (a
//   number
//                                                                   is added: each receiver has a fresh one)
//   asap=yes   write each message at once; no: the library's thread writes what has gathered
#include <latlab/messaging_plugin.h>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>

#include "end.hpp"
#include "nats_library.hpp"
#include "words.hpp"

namespace {

using latlab::nats::Library;
using latlab::plugins::End;
using latlab::plugins::kWaitMs;
namespace nats = latlab::nats;

constexpr std::int64_t kPatienceMs = 5'000;

struct Options {
  std::string library{}, host{}, user{}, password{}, token{}, key{"latlab"};
  std::size_t port = 4222;
  bool asap = true;
};

Options options_of(const char* text) {
  Options o;
  latlab::plugins::read_words(text, {.texts = {{"library", &o.library},
                                               {"host", &o.host},
                                               {"user", &o.user},
                                               {"password", &o.password},
                                               {"token", &o.token},
                                               {"key", &o.key}},
                                     .numbers = {{"port", &o.port}},
                                     .switches = {{"asap", &o.asap}}});
  return o;
}

[[noreturn]] void fail(int status) {
  throw std::system_error(nats::errno_of(status), std::generic_category());
}

class Connection {
 public:
  explicit Connection(const Options& options) : lib_(latlab::plugins::library_of<Library>(options.library)) {
    void* wanted = nullptr;
    if (const int status = lib_.options_create(&wanted); status != nats::kOk) fail(status);
    const bool v6 = options.host.find(':') != std::string::npos;
    const std::string url =
        "nats://" + (v6 ? "[" + options.host + "]" : options.host) + ":" + std::to_string(options.port);
    int status = lib_.set_url(wanted, url.c_str());
    const auto then = [&](auto&& next) {
      if (status == nats::kOk) status = next();
    };
    if (!options.user.empty())
      then([&] { return lib_.set_user(wanted, options.user.c_str(), options.password.c_str()); });
    if (!options.token.empty()) then([&] { return lib_.set_token(wanted, options.token.c_str()); });
    then([&] { return lib_.set_reconnect(wanted, false); });
    then([&] { return lib_.set_timeout(wanted, kPatienceMs); });
    then([&] { return lib_.set_write_deadline(wanted, kPatienceMs); });
    then([&] { return lib_.set_asap(wanted, options.asap); });
    then([&] { return lib_.connect(&connection_, wanted); });
    lib_.options_destroy(wanted);
    if (status != nats::kOk) fail(status);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() { lib_.destroy(connection_); }

  const Library& lib() const noexcept { return lib_; }
  void* handle() const noexcept { return connection_; }

 private:
  const Library& lib_;
  void* connection_ = nullptr;
};

class Receiver final : public End {
 public:
  Receiver(const Options& options, const latlab_messaging_settings& asked)
      : subject_(options.key), size_(asked.size), wait_ms_(asked.block != 0 ? kWaitMs : 0), in_(options) {
    static std::atomic<unsigned> serial{0};
    subject_ += "-" + std::to_string(serial.fetch_add(1));
    const Library& lib = in_.lib();
    int status = lib.subscribe(&subscription_, in_.handle(), subject_.c_str());
    if (status == nats::kOk) status = lib.set_limits(subscription_, -1, -1);
    if (status == nats::kOk) status = lib.flush(in_.handle(), kPatienceMs);  // until the server knows of it
    if (status == nats::kOk) return;
    if (subscription_ != nullptr) lib.unsubscribe(subscription_);
    fail(status);
  }
  ~Receiver() override { in_.lib().unsubscribe(subscription_); }
  const std::string& subject() const noexcept { return subject_; }

  long receive(std::byte* into, std::size_t size, std::size_t count) override {
    if (size != size_) return -EMSGSIZE;
    const Library& lib = in_.lib();
    std::size_t came = 0;
    for (; came < count; ++came, into += size_) {
      void* message = nullptr;
      const int status = lib.next(&message, subscription_, came == 0 ? wait_ms_ : 0);
      if (status == nats::kTimeout) break;
      if (status != nats::kOk) return came > 0 ? static_cast<long>(came) : -nats::errno_of(status);
      const bool whole = lib.length(message) == static_cast<int>(size_);
      if (whole) std::memcpy(into, lib.data(message), size_);
      lib.free_message(message);
      if (!whole) return -EBADMSG;
    }
    return static_cast<long>(came);
  }

 private:
  std::string subject_;
  std::size_t size_;
  std::int64_t wait_ms_;
  Connection in_;
  void* subscription_ = nullptr;
};

class Sender final : public End {
 public:
  Sender(const Options& options, const latlab_messaging_settings& asked, const std::string& subject)
      : subject_(subject), size_(asked.size), out_(options) {}
  ~Sender() override {
    out_.lib().flush(out_.handle(), kPatienceMs / 2);
  }  // a server that has gone has it not

  long send(const std::byte* messages, std::size_t size, std::size_t count) override {
    if (size != size_) return -EMSGSIZE;
    for (std::size_t taken = 0; taken < count; ++taken, messages += size_) {
      const int status =
          out_.lib().publish(out_.handle(), subject_.c_str(), messages, static_cast<int>(size_));
      if (status != nats::kOk) return taken > 0 ? static_cast<long>(taken) : -nats::errno_of(status);
    }
    return static_cast<long>(count);
  }

 private:
  std::string subject_;
  std::size_t size_;
  Connection out_;
};

}  // namespace

const latlab_messaging* latlab_messaging_plugin(void) {
  static const latlab_messaging plugin = latlab::plugins::plugin_of(
      LATLAB_CAN_BLOCK | LATLAB_MAY_LOSE, 1U << 20, "nats.c", "NATS core by nats.c",
      latlab::plugins::open_end<Receiver, Sender, options_of, &Receiver::subject>);
  return &plugin;
}
