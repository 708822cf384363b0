// Threads: as the queue's own: one thread sends, one receives.
//
// Makes a C++ queue a plug-in of `latlab messaging` (messaging_plugin.h), from an adapter with two functions:
//
//   struct Adapter {
//     explicit Adapter(const latlab_messaging_settings& asked);        // may throw: the run is refused
//     template <class Write> bool try_push(std::size_t size, Write&& write);  // write(void* slot)
//     template <class Read> bool try_pop(std::size_t size, Read&& read);      // read(const void* slot)
//   };
//   LATLAB_MESSAGING_QUEUE(Adapter, "name", "title in words")
//
// try_push gives `write` the slot's room and publishes it, or returns false where the queue is full; try_pop
// lends `read` the oldest message and releases it, or returns false where there is none. A queue of values
// (`push(const T&)`, `pop(T&)`) copies through a value of its own in these two. See examples/messaging/.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <new>

#include "messaging_plugin.h"

namespace latlab::messaging {

template <class Adapter>
struct QueuePlugin {
  static int open(const latlab_messaging_settings* asked, void** end) noexcept {
    if (asked->role == LATLAB_SENDER) {
      *end = asked->peer;  // both ends are the queue
      return 0;
    }
    try {
      *end = new Adapter(*asked);
      return 0;
    } catch (const std::bad_alloc&) {
      return ENOMEM;
    } catch (...) {  // no exception may cross into C; which one it was can't be told there
      return EINVAL;
    }
  }
  static long send(void* end, const void* messages, std::size_t size, std::size_t count) {
    auto& queue = *static_cast<Adapter*>(end);
    const auto* at = static_cast<const std::byte*>(messages);
    std::size_t taken = 0;
    for (; taken < count; ++taken, at += size) {
      if (!queue.try_push(size, [&](void* slot) { std::memcpy(slot, at, size); })) break;
    }
    return static_cast<long>(taken);
  }
  static long receive(void* end, void* into, std::size_t size, std::size_t count) {
    auto& queue = *static_cast<Adapter*>(end);
    auto* at = static_cast<std::byte*>(into);
    std::size_t brought = 0;
    for (; brought < count; ++brought, at += size) {
      if (!queue.try_pop(size, [&](const void* slot) { std::memcpy(at, slot, size); })) break;
    }
    return static_cast<long>(brought);
  }
  static void close(void* end) noexcept { delete static_cast<Adapter*>(end); }
};

}  // namespace latlab::messaging

#define LATLAB_MESSAGING_QUEUE(ADAPTER, NAME, TITLE)                                                 \
  extern "C" const latlab_messaging* latlab_messaging_plugin(void) {                                 \
    using Plugin = latlab::messaging::QueuePlugin<ADAPTER>;                                          \
    static const latlab_messaging plugin{                                                            \
        LATLAB_MESSAGING_ABI, 0, 1U << 20, NAME, TITLE, Plugin::open, Plugin::send, Plugin::receive, \
        Plugin::close};                                                                              \
    return &plugin;                                                                                  \
  }
