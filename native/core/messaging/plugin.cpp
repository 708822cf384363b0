#include "messaging/plugin.hpp"

#include <dlfcn.h>
#include <cerrno>
#include <charconv>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

namespace latlab::messaging {
namespace {

struct Place {
  std::string key;  // of the way
  std::size_t capacity = 0;
  std::string path;
  std::string options;
};

Place place_of(const ChannelSpec& spec) {
  std::string_view text = spec.text;
  text.remove_prefix(std::string_view("plugin:").size());
  const std::size_t number = text.find(':');
  const std::size_t capacity = number == std::string_view::npos ? number : text.find(':', number + 1);
  if (capacity == std::string_view::npos)
    throw std::invalid_argument("a plug-in is plugin:NUMBER:CAPACITY:PATH");
  Place found;
  found.key = text.substr(0, number);
  const std::string_view digits = text.substr(number + 1, capacity - number - 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), found.capacity);
  if (error != std::errc{} || end != digits.data() + digits.size())
    throw std::invalid_argument("the capacity of a plug-in is a number");
  const std::string_view rest = text.substr(capacity + 1);
  const std::size_t question = rest.find('?');
  found.path = rest.substr(0, question);
  if (question != std::string_view::npos) found.options = rest.substr(question + 1);
  return found;
}

// The ways of which one end is in use.
std::map<std::string, std::weak_ptr<PluginEnds>>& ways() {
  static std::map<std::string, std::weak_ptr<PluginEnds>> open;
  return open;
}

std::mutex& ways_mutex() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

const latlab_messaging& load_plugin(const std::string& path) {
  // Never closed: it may have started threads, and a run that follows wants it again.
  void* object = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (object == nullptr) throw std::invalid_argument(dlerror());
  const auto entry =
      reinterpret_cast<decltype(&latlab_messaging_plugin)>(dlsym(object, "latlab_messaging_plugin"));
  if (entry == nullptr) throw std::invalid_argument(path + " exports no latlab_messaging_plugin()");
  const latlab_messaging* plugin = entry();
  if (plugin == nullptr) throw std::invalid_argument(path + ": latlab_messaging_plugin() returned nothing");
  if (plugin->abi != LATLAB_MESSAGING_ABI) {
    throw std::invalid_argument(path + " was built for version " + std::to_string(plugin->abi) +
                                " of messaging_plugin.h, and this is version " +
                                std::to_string(LATLAB_MESSAGING_ABI));
  }
  if (plugin->open == nullptr || plugin->send == nullptr || plugin->receive == nullptr ||
      plugin->close == nullptr || plugin->name == nullptr || plugin->title == nullptr) {
    throw std::invalid_argument(path + " leaves out one of open, send, receive, close, name and title");
  }
  return *plugin;
}

PluginEnds::PluginEnds(const latlab_messaging& plugin, const ChannelSpec& spec, const std::string& options,
                       std::size_t capacity)
    : plugin_(plugin), options_(options) {
  asked_.abi = LATLAB_MESSAGING_ABI;
  asked_.role = LATLAB_RECEIVER;
  asked_.size = spec.size;
  asked_.batch = spec.batch;
  asked_.capacity = capacity;
  asked_.block = spec.poll ? 0 : 1;
  asked_.options = options_.c_str();
  const int error = plugin_.open(&asked_, &receiver_);
  if (error != 0) throw std::system_error(error, std::generic_category(), "opening the receiver");
}

PluginEnds::~PluginEnds() {
  disconnect();
  plugin_.close(receiver_);
}

void PluginEnds::connect() {
  asked_.role = LATLAB_SENDER;
  asked_.peer = receiver_;
  const int error = plugin_.open(&asked_, &sender_);
  if (error != 0) throw std::system_error(error, std::generic_category(), "opening the sender");
}

void PluginEnds::disconnect() {
  if (sender_ != nullptr && sender_ != receiver_) plugin_.close(sender_);
  sender_ = nullptr;
}

namespace {

// The way of a spec: whoever comes first opens it, for both.
std::shared_ptr<PluginEnds> way_of(const ChannelSpec& spec) {
  const Place place = place_of(spec);
  const std::scoped_lock lock(ways_mutex());
  const auto found = ways().find(place.key);
  if (found != ways().end()) {
    auto ends = found->second.lock();
    ways().erase(found);
    if (ends != nullptr) return ends;
  }
  auto ends = std::make_shared<PluginEnds>(load_plugin(place.path), spec, place.options, place.capacity);
  ways()[place.key] = ends;
  return ends;
}

}  // namespace

std::unique_ptr<Receiver> make_plugin_receiver(const ChannelSpec& spec, const StopFlag& stop) {
  return std::make_unique<PluginReceiver>(way_of(spec), spec, stop);
}

std::unique_ptr<Sender> make_plugin_sender(const ChannelSpec& spec, const StopFlag& stop) {
  auto ends = way_of(spec);
  ends->connect();
  return std::make_unique<PluginSender>(std::move(ends), spec, stop);
}

}  // namespace latlab::messaging
