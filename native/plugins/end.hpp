// Threads: none of its own; an end is used as messaging_plugin.h has it.
//
// What the plug-ins of products' clients share: an end as an object, and the four functions over it.
#pragma once

#include <dlfcn.h>
#include <latlab/messaging_plugin.h>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include "../core/not_copied.hpp"

namespace latlab::plugins {

inline constexpr int kWaitMs = 100;  // at most, by messaging_plugin.h

class End : NotCopied {
 public:
  virtual ~End() = default;
  virtual long send(const std::byte*, std::size_t, std::size_t) { return -EBADF; }
  virtual long receive(std::byte*, std::size_t, std::size_t) { return -EBADF; }
};

// open(): make() gives the end. No exception may cross into C.
template <class Make>
int opened(void** end, Make&& make) {
  try {
    *end = static_cast<End*>(make());
    return 0;
  } catch (const std::system_error& error) {
    return error.code().value();
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  } catch (const std::exception&) {
    return EINVAL;
  }
}

// The receiver's end of the same plug-in, by which a sender is opened.
template <class Receiver>
const Receiver& peer_of(const latlab_messaging_settings& asked) {
  if (asked.peer == nullptr) throw std::invalid_argument("a sender without its receiver");
  return *static_cast<const Receiver*>(static_cast<const End*>(asked.peer));
}

// Whatever fails by exception within a call is memory.
inline long send_all(void* end, const void* messages, std::size_t size, std::size_t count) {
  try {
    return static_cast<End*>(end)->send(static_cast<const std::byte*>(messages), size, count);
  } catch (const std::exception&) {
    return -ENOMEM;
  }
}

inline long receive_some(void* end, void* into, std::size_t size, std::size_t count) {
  try {
    return static_cast<End*>(end)->receive(static_cast<std::byte*>(into), size, count);
  } catch (const std::exception&) {
    return -ENOMEM;
  }
}

inline void close_end(void* end) {
  delete static_cast<End*>(end);
}

// open() of a plug-in: a sender is told by the `name` of its receiver where to send.
template <class Receiver, class Sender, auto options_of,
          const std::string& (Receiver::*name)() const noexcept>
int open_end(const latlab_messaging_settings* asked, void** end) {
  return opened(end, [asked]() -> End* {
    auto options = options_of(asked->options);
    if (asked->role == LATLAB_RECEIVER) return new Receiver(std::move(options), *asked);
    return new Sender(options, *asked, (peer_of<Receiver>(*asked).*name)());
  });
}

// A plug-in whose ends are opened by `open`, an instance of open_end.
inline latlab_messaging plugin_of(std::uint32_t traits, std::uint64_t max_bytes, const char* name,
                                  const char* title, decltype(latlab_messaging::open) open) {
  return {LATLAB_MESSAGING_ABI, traits, max_bytes, name, title, open, send_all, receive_some, close_end};
}

// A client's library, opened at run time and never closed: it may have started threads. Throws
// std::invalid_argument where there is none at `path` (a name that the linker knows is one, too).
inline void* open_library(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) throw std::invalid_argument(dlerror());
  return handle;
}

// What a library's functions are found by: `int (*member)(int) = symbol("its_name");`.
class Symbols {
 protected:
  struct Symbol {
    void* address;
    template <class Function>
    operator Function*() const noexcept {
      return reinterpret_cast<Function*>(address);
    }
  };

  explicit Symbols(const std::string& path) : handle_(open_library(path)) {}
  Symbol symbol(const char* name) const {
    if (!has(name)) throw std::invalid_argument(std::string("the library has no ") + name);
    return {dlsym(handle_, name)};
  }
  bool has(const char* name) const noexcept { return dlsym(handle_, name) != nullptr; }

 private:
  void* handle_;
};

// The library at a path, which is opened once.
template <class Library>
const Library& library_of(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::string, Library> loaded;
  const std::scoped_lock lock(mutex);
  return loaded.try_emplace(path, path).first->second;
}

}  // namespace latlab::plugins
