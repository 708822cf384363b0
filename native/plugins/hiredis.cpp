// Threads: as messaging_plugin.h has it: one thread sends, one receives; each end has connections of its own.
//
// Redis by hiredis as a plug-in of `latlab messaging`: a list (RPUSH, BLPOP), a stream (XADD, XREAD or
// XREADGROUP) or a channel (PUBLISH, SUBSCRIBE). The options are those of a URL's query:
//
//   library=FILE&host=…&port=…&user=…&password=…&db=0&key=NAME   as whom, where, and which key (a number is
//                                                                added: each receiver has a fresh one)
//   kind=list|stream|pubsub
//   connections=1   of the sender; messages may overtake each other on several
//   pipeline=1      commands of one connection that are sent before the first one's answer has come
//   prefetch=100    messages that are asked for before the first one has come
//   maxlen=0        entries that a stream keeps, about; 0: all
//   ack=no|yes      read a stream as a consumer group, and acknowledge each entry
#include <latlab/messaging_plugin.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <new>

#include "end.hpp"
#include "hiredis_connection.hpp"
#include "hiredis_options.hpp"

namespace {

namespace redis = latlab::hiredis;
using latlab::plugins::End, latlab::plugins::kWaitMs;
using redis::Connection, redis::Kind, redis::Options, redis::Reply, redis::Server, redis::Words;

constexpr timeval kLongest{0, kWaitMs * 1000L};
constexpr std::chrono::seconds kLastAnswers{2};
constexpr std::size_t kTogether = 65'536;  // bytes of commands

// Waits until a descriptor is ready, or 100 ms; a signal ends it, too.
void wait_for(int fd, short events) {
  pollfd one{fd, events, 0};
  poll(&one, 1, kWaitMs);
}

class Receiver final : public End {
 public:
  Receiver(Options options, const latlab_messaging_settings& asked)
      : options_(std::move(options)), size_(asked.size), block_(asked.block != 0), in_(options_.server) {
    static std::atomic<unsigned> serial{0};
    options_.key += "-" + std::to_string(serial.fetch_add(1));
    if (options_.kind == Kind::kPubsub) in_.ask({"SUBSCRIBE", options_.key});
    if (options_.kind == Kind::kStream && options_.ack)
      in_.ask({"XGROUP", "CREATE", options_.key, kGroup, "0", "MKSTREAM"});
    if (options_.kind == Kind::kList) ask_ = in_.formatted({"BLPOP", options_.key, "0"});
    if (block_)
      in_.wait_at_most(kLongest);
    else
      in_.stop_waiting();
  }
  ~Receiver() override {
    free_held();
    if (options_.kind == Kind::kPubsub) return;
    try {  // the connection of its own may still wait for a message
      Connection(options_.server).ask({"DEL", options_.key});
    } catch (const std::exception&) {  // a server that has gone keeps no key
      return;
    }
  }
  const std::string& key() const noexcept { return options_.key; }

  long receive(std::byte* into, std::size_t size, std::size_t count) override {
    if (size != size_) return -EMSGSIZE;
    into_ = into;
    left_ = count;
    if (int error = take(); error != 0) return error;
    if (left_ == count) {  // nothing was there yet
      if (int error = ask_for_more(); error != 0) return error;
      if (int error = in_.read(); error != 0) return error;
      if (int error = take(); error != 0) return error;
    }
    if (options_.kind != Kind::kStream) {
      if (int error = ask_for_more(); error != 0) return error;
    }
    return static_cast<long>(count - left_);
  }

 private:
  static constexpr std::string_view kGroup = "group", kMember = "member-0";

  // Hands out what was read, as far as there is room.
  int take() {
    while (left_ > 0) {
      if (held_ != nullptr) {
        if (int error = take_entry(); error != 0) return error;
        continue;
      }
      int wrong = 0;
      const int found = in_.next([&](const Reply& reply, void* whole) { return taken(reply, whole, wrong); });
      if (found < 0 || wrong != 0) return found < 0 ? found : wrong;
      if (found == 0) return 0;
    }
    return 0;
  }
  // One reply; whether it is done with.
  bool taken(const Reply& reply, void* whole, int& wrong) {
    if (reply.type != redis::kArray) {  // of XACK a number; nothing of a wait that has ended
      if (reply.type == redis::kNil && awaited_ > 0) --awaited_;
      return true;
    }
    if (options_.kind == Kind::kStream) {  // [[key, [[number, [field, message]], …]]]
      awaited_ = 0;
      if (reply.elements != 1) return true;
      const Reply stream = in_.view(reply.element[0]);
      if (stream.elements != 2) return true;
      held_ = whole;
      entries_ = in_.view(stream.element[1]);
      entry_ = 0;
      return false;
    }
    const bool message = options_.kind == Kind::kPubsub ? reply.elements == 3 : reply.elements == 2;
    if (!message) return true;
    if (options_.kind == Kind::kList) --awaited_;
    wrong = copy(in_.view(reply.element[reply.elements - 1]));
    return true;
  }
  int take_entry() {
    if (entry_ == entries_.elements) {
      free_held();
      return 0;
    }
    const Reply entry = in_.view(entries_.element[entry_++]);
    if (entry.elements != 2) return -EPROTO;
    const Reply name = in_.view(entry.element[0]);
    last_.assign(name.text, name.length);
    const Reply fields = in_.view(entry.element[1]);
    if (fields.elements != 2) return -EPROTO;
    if (options_.ack) {
      if (int error = in_.append(in_.formatted({"XACK", options_.key, kGroup, last_})); error != 0)
        return error;
    }
    return copy(in_.view(fields.element[1]));
  }
  int copy(const Reply& message) {
    if (message.type != redis::kString || message.length != size_) return -EBADMSG;
    std::memcpy(into_, message.text, size_);
    into_ += size_;
    --left_;
    return 0;
  }
  void free_held() {
    if (held_ != nullptr) in_.free(held_);
    held_ = nullptr;
  }
  // Keeps the server supplied with commands that wait for a message, and pushes out what is appended.
  int ask_for_more() {
    if (options_.kind == Kind::kList && awaited_ <= options_.prefetch / 2) {
      for (; awaited_ < options_.prefetch; ++awaited_) {
        if (int error = in_.append(ask_); error != 0) return error;
      }
      unwritten_ = true;
    }
    if (options_.kind == Kind::kStream && awaited_ == 0) {
      const std::string most = std::to_string(options_.prefetch);
      if (int error = in_.append(
              options_.ack
                  ? in_.formatted({"XREADGROUP", "GROUP", kGroup, kMember, "COUNT", most, "BLOCK", "0",
                                   "STREAMS", options_.key, ">"})
                  : in_.formatted({"XREAD", "COUNT", most, "BLOCK", "0", "STREAMS", options_.key, last_}));
          error != 0)
        return error;
      awaited_ = 1;
      unwritten_ = true;
    }
    while (unwritten_) {
      bool done = false;
      if (int error = in_.write(&done); error != 0) return error;
      unwritten_ = !done;
      if (!done) wait_for(in_.fd(), POLLOUT);
    }
    return 0;
  }

  Options options_;
  std::size_t size_;
  bool block_;
  Connection in_;
  std::string ask_{}, last_{"0-0"};
  std::size_t awaited_ = 0;  // commands without an answer
  bool unwritten_ = false;
  std::byte* into_ = nullptr;
  std::size_t left_ = 0;
  void* held_ = nullptr;  // a reply with several messages, and how far it is handed out
  Reply entries_{};
  std::size_t entry_ = 0;
};

class Sender final : public End {
 public:
  Sender(const Options& options, const latlab_messaging_settings& asked, const std::string& key)
      : size_(asked.size),
        pipeline_(options.pipeline),
        wanted_(std::max<std::size_t>(1, std::min<std::size_t>(asked.batch, options.pipeline))),
        block_(asked.block != 0),
        alone_(block_ && options.connections == 1),
        epoll_(epoll_create1(EPOLL_CLOEXEC)) {
    if (epoll_ < 0) throw std::system_error(errno, std::generic_category());
    try {
      for (std::size_t i = 0; i < options.connections; ++i) {
        lines_.push_back(std::make_unique<Line>(options.server));
        epoll_event event{.events = EPOLLIN, .data = {.u64 = i}};
        if (epoll_ctl(epoll_, EPOLL_CTL_ADD, lines_[i]->connection.fd(), &event) != 0)
          throw std::system_error(errno, std::generic_category());
        if (alone_)
          lines_[i]->connection.wait_at_most(kLongest);
        else
          lines_[i]->connection.stop_waiting();
      }
      const std::string body(size_, '\0'), most = std::to_string(options.maxlen);
      Words words{};
      switch (options.kind) {
        case Kind::kList:
          words = {"RPUSH", key};
          break;
        case Kind::kPubsub:
          words = {"PUBLISH", key};
          break;
        case Kind::kStream:
          words = options.maxlen == 0 ? Words{"XADD", key, "*", "m"}
                                      : Words{"XADD", key, "MAXLEN", "~", most, "*", "m"};
      }
      words.add(body);
      const std::string command = lines_[0]->connection.formatted(words);
      length_ = command.size();
      at_ = length_ - size_ - 2;  // a command ends with its last word and a line's end
      room_ = std::max<std::size_t>(1, std::min(wanted_, kTogether / length_));
      for (std::size_t i = 0; i < room_; ++i) commands_ += command;
    } catch (...) {
      close(epoll_);
      throw;
    }
  }
  ~Sender() override {
    const auto end = std::chrono::steady_clock::now() + kLastAnswers;
    block_ = true;
    while (error_ == 0 && outstanding_ > 0 && std::chrono::steady_clock::now() < end) collect();
    close(epoll_);
  }

  long send(const std::byte* messages, std::size_t size, std::size_t count) override {
    if (size != size_) return -EMSGSIZE;
    std::size_t taken = 0;
    while (taken < count && error_ == 0) {
      Line* line = with_room();
      if (line == nullptr) {
        if (taken > 0) break;
        collect();
        line = with_room();
        if (line == nullptr) break;
      }
      const std::size_t many = std::min(count - taken, pipeline_ - line->outstanding);
      append(*line, messages + taken * size_, many);
      line->outstanding += many;
      outstanding_ += many;
      taken += many;
      write(*line);
    }
    // The next message is stamped when this has returned, and must not wait for room then.
    while (error_ == 0 && block_ && with_room() == nullptr && collect()) {
    }
    if (error_ != 0) return error_;
    return static_cast<long>(taken);
  }

 private:
  struct Line {
    explicit Line(const Server& server) : connection(server) {}
    Connection connection;
    std::size_t outstanding = 0;  // commands without an answer
    bool stuck = false;           // the kernel has not taken all of them
  };

  // hiredis' buffer grows at each append: as many commands at once as stay in the caches.
  void append(Line& line, const std::byte* messages, std::size_t count) {
    while (count > 0 && error_ == 0) {
      const std::size_t now = std::min(count, room_);
      for (std::size_t i = 0; i < now; ++i, messages += size_)
        std::memcpy(commands_.data() + i * length_ + at_, messages, size_);
      error_ = line.connection.append(std::string_view(commands_).substr(0, now * length_));
      count -= now;
    }
  }
  // The next connection in turn that takes as many messages as are handed over at once.
  Line* with_room() {
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      Line& line = *lines_[turn_];
      if (!line.stuck && pipeline_ - line.outstanding >= wanted_) return &line;
      turn_ = turn_ + 1 == lines_.size() ? 0 : turn_ + 1;
    }
    return nullptr;
  }
  void write(Line& line) {
    bool done = false;
    if (int error = line.connection.write(&done); error != 0) error_ = error;
    if (line.stuck == !done) return;
    line.stuck = !done;
    watch(line);
  }
  void watch(Line& line) {
    std::size_t number = 0;
    while (lines_[number].get() != &line) ++number;
    epoll_event event{.events = EPOLLIN | (line.stuck ? EPOLLOUT : 0U), .data = {.u64 = number}};
    epoll_ctl(epoll_, EPOLL_CTL_MOD, line.connection.fd(), &event);
  }
  // Reads the answers that are there; waits for one where it may. Whether there were any.
  bool collect() {
    if (alone_ && !lines_[0]->stuck) return read_answers(*lines_[0]);
    std::array<epoll_event, 64> events{};
    const int ready =
        epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), block_ ? kWaitMs : 0);
    for (int i = 0; i < ready && error_ == 0; ++i) {
      Line& line = *lines_[events[static_cast<std::size_t>(i)].data.u64];
      if (line.stuck) write(line);
      if (error_ == 0) read_answers(line);
    }
    return ready > 0;
  }
  bool read_answers(Line& line) {
    const std::size_t before = outstanding_;
    error_ = line.connection.read();
    while (error_ == 0) {
      const int found = line.connection.next([](const Reply&, void*) { return true; });
      if (found < 0) error_ = found;
      if (found <= 0) break;
      --line.outstanding;
      --outstanding_;
    }
    return outstanding_ < before;
  }

  std::size_t size_, pipeline_, wanted_;
  bool block_;
  bool alone_;  // one connection, whose reads wait by themselves
  int epoll_;
  std::vector<std::unique_ptr<Line>> lines_{};
  std::string commands_{};  // room_ of length_ bytes, each with room for its message at at_
  std::size_t room_ = 1, length_ = 0, at_ = 0;
  std::size_t turn_ = 0, outstanding_ = 0;
  int error_ = 0;  // a negative errno
};

}  // namespace

const latlab_messaging* latlab_messaging_plugin(void) {
  static const latlab_messaging plugin = latlab::plugins::plugin_of(
      LATLAB_CAN_BLOCK, 16U << 20, "hiredis", "Redis by hiredis",
      latlab::plugins::open_end<Receiver, Sender, redis::options_of, &Receiver::key>);
  return &plugin;
}
