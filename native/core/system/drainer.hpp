// Threads: the owner's.
//
// What owners of a thread share that drains rings until it is woken.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>
#include <thread>

namespace latlab::system {

// What wakes it. Throws std::system_error.
inline int wake_descriptor() {
  const int descriptor = eventfd(0, EFD_CLOEXEC);
  if (descriptor < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
  return descriptor;
}

inline void wake(int descriptor) {
  const std::uint64_t one = 1;
  while (write(descriptor, &one, sizeof(one)) < 0 && errno == EINTR) {
  }
}

// In the owner's destructor.
template <class Owner>
void stop_at_last(Owner& owner, std::thread& drainer) {
  try {
    owner.stop();
  } catch (const std::system_error&) {
    // The descriptors are closed in any case, and a destructor has nobody to tell.
    if (drainer.joinable()) drainer.detach();
  }
}

}  // namespace latlab::system
