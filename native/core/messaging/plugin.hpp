// Threads: as Sender and Receiver; opening and closing on one thread.
//
// A shared object that exports latlab_messaging_plugin() as a transport of the native loops: one call of it a
// flush and one a block, the wait between two of them here, under the stop flag.
#pragma once

#include <latlab/messaging_plugin.h>
#include <memory>
#include <string>
#include <vector>

#include "messaging/channel.hpp"
#include "messaging/ring.hpp"

namespace latlab::messaging {

// The plug-in of a file, which stays loaded. Throws std::invalid_argument where it is none, or of another
// version.
const latlab_messaging& load_plugin(const std::string& path);

// Both ends; closed when the last one that uses it has gone.
class PluginEnds {
 public:
  PluginEnds(const latlab_messaging& plugin, const ChannelSpec& spec, const std::string& options,
             std::size_t capacity);
  PluginEnds(const PluginEnds&) = delete;
  PluginEnds& operator=(const PluginEnds&) = delete;
  ~PluginEnds();
  void connect();     // the sender's end
  void disconnect();  // gives the sender's end up, where it is one of its own
  const latlab_messaging& plugin() const noexcept { return plugin_; }
  void* sender() const noexcept { return sender_; }
  void* receiver() const noexcept { return receiver_; }

 private:
  const latlab_messaging& plugin_;
  std::string options_;
  latlab_messaging_settings asked_{};
  void* receiver_ = nullptr;
  void* sender_ = nullptr;
};

class PluginSender final : public BatchSender {
 public:
  PluginSender(std::shared_ptr<PluginEnds> ends, const ChannelSpec& spec, const StopFlag& stop)
      : BatchSender(spec, stop),
        ends_(std::move(ends)),
        send_(ends_->plugin().send),
        end_(ends_->sender()),
        yield_(spec.yield) {}
  bool flush() override {
    std::size_t at = 0;
    for (unsigned tries = 0; at < filled_; ++tries) {
      const long taken = send_(end_, buffer_.data() + at, size_, (filled_ - at) / size_);
      if (taken > 0) {
        at += static_cast<std::size_t>(taken) * size_;
        continue;
      }
      if (taken < 0) error_ = static_cast<int>(-taken);
      if (taken < 0 || stop_.load(std::memory_order_relaxed)) return false;
      pause(tries);
    }
    filled_ = 0;
    return true;
  }
  void close() override { ends_->disconnect(); }

 private:
  void pause(unsigned tries) const noexcept {
    if (yield_ && (tries & 15U) == 15U) sched_yield();  // what it waits for may need this very core
    pause_cpu();
  }
  std::shared_ptr<PluginEnds> ends_;
  decltype(latlab_messaging::send) send_;
  void* end_;
  bool yield_;
};

class PluginReceiver final : public Receiver {
 public:
  PluginReceiver(std::shared_ptr<PluginEnds> ends, const ChannelSpec& spec, const StopFlag& stop)
      : ends_(std::move(ends)),
        receive_(ends_->plugin().receive),
        end_(ends_->receiver()),
        size_(spec.size),
        yield_(spec.yield),
        stop_(stop),
        room_(most(spec.size)),
        buffer_(room_ * spec.size) {}
  Block receive() override {
    for (unsigned tries = 0;; ++tries) {
      const long came = receive_(end_, buffer_.data(), size_, room_);
      if (came > 0) return {.data = buffer_.data(), .stride = size_, .count = static_cast<std::size_t>(came)};
      if (came < 0 && came != -EPIPE) error_ = static_cast<int>(-came);
      if (came < 0 || stop_.load(std::memory_order_relaxed)) return {};
      if (yield_ && (tries & 15U) == 15U) sched_yield();
      pause_cpu();
    }
  }

 private:
  // As many as stay in the first-level cache between being brought and being read.
  static std::size_t most(std::size_t size) {
    return std::max<std::size_t>(1, std::min<std::size_t>(64, 16'384 / size));
  }
  std::shared_ptr<PluginEnds> ends_;
  decltype(latlab_messaging::receive) receive_;
  void* end_;
  std::size_t size_;
  bool yield_;
  const StopFlag& stop_;
  std::size_t room_;
  std::vector<std::byte> buffer_;
};

// "plugin:NUMBER:CAPACITY:PATH[?OPTIONS]": the two ends with one number are those of one way.
std::unique_ptr<Sender> make_plugin_sender(const ChannelSpec& spec, const StopFlag& stop);
std::unique_ptr<Receiver> make_plugin_receiver(const ChannelSpec& spec, const StopFlag& stop);

}  // namespace latlab::messaging
