// Threads: insist() belongs to the main thread, as signal.signal() does.
//
// A signal whose handler is a function in Python comes again until that function has run. The interpreter
// only notes a signal and looks at its notes between two instructions and after a system call that was
// interrupted: one that comes just before a thread starts to wait, for a pool's lock say, is noted, and the
// thread waits.
#pragma once

#include <unistd.h>

#include <csignal>
#include <ctime>

namespace latlab::stubs::python {

using SignalHandler = void (*)(int);
constexpr long kAgain_ns = 20'000'000;

inline SignalHandler& noting_handler() noexcept {
  static SignalHandler of_the_interpreter = nullptr;
  return of_the_interpreter;
}
inline timer_t& again_timer() noexcept {
  static timer_t timer{};
  return timer;
}

extern "C" inline void note_again(int number) {
  noting_handler()(number);
  const itimerspec every{{0, kAgain_ns}, {0, kAgain_ns}};
  timer_settime(again_timer(), 0, &every, nullptr);  // in vain in a child, which has no timer yet
}

// Call it after signal.signal(number, function). The function has to set another handler: till then it is
// called again. Without a timer to be had the signal comes once, as it did.
inline void insist(int number) noexcept {
  struct sigaction set{};
  if (sigaction(number, nullptr, &set) != 0) return;
  if (set.sa_handler == SIG_DFL || set.sa_handler == SIG_IGN) return;
  if (set.sa_handler != note_again) noting_handler() = set.sa_handler;
  static pid_t owner = 0;  // a child inherits the handler, and no timer
  if (owner == getpid()) return;
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = number;
  if (timer_create(CLOCK_MONOTONIC, &event, &again_timer()) != 0) return;
  owner = getpid();
  set.sa_handler = note_again;
  sigaction(number, &set, nullptr);
}

}  // namespace latlab::stubs::python
