// Threads: one thread uses a connection.
//
// One connection to a Redis server by hiredis: opened and greeted waiting, used without waiting from then on.
// Functions that can fail return 0, or a negative errno.
#pragma once

#include <fcntl.h>
#include <sys/socket.h>
#include <cerrno>
#include <initializer_list>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "hiredis_library.hpp"

namespace latlab::hiredis {

// A command's words, as redisCommandArgv takes them.
class Words {
 public:
  Words(std::initializer_list<std::string_view> words) {
    for (const auto word : words) add(word);
  }
  void add(std::string_view word) {
    word_.push_back(word.data());
    length_.push_back(word.size());
  }
  int count() const noexcept { return static_cast<int>(word_.size()); }
  const char** word() noexcept { return word_.data(); }
  const std::size_t* length() const noexcept { return length_.data(); }

 private:
  std::vector<const char*> word_{};
  std::vector<std::size_t> length_{};
};

struct Server {
  std::string library{}, host{}, user{}, password{}, database{"0"};
  std::size_t port = 6379;
};

// What an error of the server is as an errno; its text begins with a word in capitals.
inline int errno_of(std::string_view text) noexcept {
  const std::string_view kind = text.substr(0, text.find(' '));
  if (kind == "NOAUTH" || kind == "WRONGPASS" || kind == "NOPERM") return EACCES;
  if (kind == "OOM") return ENOMEM;
  if (text.starts_with("ERR max number of clients")) return EMFILE;
  return EPROTO;
}

class Connection : latlab::NotCopied {
 public:
  // Throws std::system_error where the server can't be reached or doesn't let us in, std::invalid_argument
  // without hiredis.
  explicit Connection(const Server& server) : lib_(plugins::library_of<Library>(server.library)) {
    context_ = lib_.connect(server.host.c_str(), static_cast<int>(server.port), kPatience);
    if (context_ == nullptr) throw std::system_error(ENOMEM, std::generic_category());
    try {
      if (lib_.context(context_).error != 0) throw std::system_error(-failure(), std::generic_category());
      lib_.set_timeout(context_, kPatience);
      if (!server.password.empty() || !server.user.empty()) {
        Words words{"AUTH"};
        if (!server.user.empty()) words.add(server.user);
        words.add(server.password);
        ask(words);
      }
      if (server.database != "0") ask({"SELECT", server.database});
      ask({"PING"});
    } catch (...) {
      lib_.free(context_);
      throw;
    }
  }
  ~Connection() { lib_.free(context_); }

  // Sends a command and waits for the answer, which is dropped. Throws std::system_error for an error.
  void ask(Words words) {
    void* reply = lib_.command(context_, words.count(), words.word(), words.length());
    if (reply == nullptr) throw std::system_error(-failure(), std::generic_category());
    const Reply found = lib_.reply(reply);
    const int error = found.type == kError ? errno_of({found.text, found.length}) : 0;
    lib_.free_reply(reply);
    if (error != 0) throw std::system_error(error, std::generic_category());
  }

  // From here on nothing waits any more, and `ask` is over.
  void stop_waiting() {
    const int fd = this->fd();
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    *lib_.context(context_).flags &= ~kBlocking;
  }
  // From here on a read or a write waits at most that long in the kernel, which spares the call that waits
  // until there is something to read; `ask` is over.
  void wait_at_most(timeval longest) {
    const int fd = this->fd();
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof longest) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &longest, sizeof longest) != 0)
      throw std::system_error(errno, std::generic_category());
    *lib_.context(context_).flags &= ~kBlocking;  // a time-out is then no error to hiredis
  }
  int fd() const noexcept { return lib_.context(context_).fd; }

  int append(std::string_view formatted) {
    return lib_.append(context_, formatted.data(), formatted.size()) == kOk ? 0 : -ENOMEM;
  }
  // What is appended goes to the kernel, as far as it takes it now; *done tells whether all of it did.
  int write(bool* done) {
    int all = 0;
    if (lib_.write(context_, &all) != kOk) return failure();
    *done = all != 0;
    return 0;
  }
  // What the kernel has now, or, after wait_at_most, has first.
  int read() { return lib_.read(context_) == kOk ? 0 : failure(); }

  // The next whole reply that was read: take(reply) for it, which says whether the reply is to be freed. 1
  // for one, 0 for none.
  template <class Take>
  int next(Take&& take) {
    void* reply = nullptr;
    if (lib_.next_reply(context_, &reply) != kOk) return -EPROTO;
    if (reply == nullptr) return 0;
    const Reply found = lib_.reply(reply);
    const int error = found.type == kError ? errno_of({found.text, found.length}) : 0;
    if (error != 0 || take(found, reply)) lib_.free_reply(reply);
    return error != 0 ? -error : 1;
  }
  Reply view(const void* reply) const noexcept { return lib_.reply(reply); }
  void free(void* reply) const noexcept { lib_.free_reply(reply); }

  std::string formatted(Words words) const {
    char* text = nullptr;
    const int length = lib_.format(&text, words.count(), words.word(), words.length());
    if (length < 0) throw std::system_error(ENOMEM, std::generic_category());
    std::string found(text, static_cast<std::size_t>(length));
    lib_.free_formatted(text);
    return found;
  }

 private:
  static constexpr timeval kPatience{5, 0};
  int failure() const noexcept {
    const int system = errno;
    switch (lib_.context(context_).error) {
      case kErrIo:
        // EAGAIN: a time-out of the greeting. EPIPE tells of the other end of a way, not of its server.
        return system == 0 || system == EPIPE ? -ECONNRESET : system == EAGAIN ? -ETIMEDOUT : -system;
      case kErrEof:
        return -ECONNRESET;
      default:
        return -EHOSTUNREACH;
    }
  }
  const Library& lib_;
  void* context_ = nullptr;
};

}  // namespace latlab::hiredis
