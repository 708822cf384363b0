// Threads: a Forwarder's loop runs on one thread (its own, or a broker process's main thread); stop() may be
// called from anywhere.
//
// The trivial broker: whatever comes in goes out again. It can be told to err, so that what measures it can
// be checked: to stand still at a message, to lose, repeat, swap or damage messages.
#pragma once

#include <pthread.h>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "messaging/channel.hpp"

namespace latlab::messaging {

struct Stall {
  std::uint64_t message;  // counted from 0 in the order of arrival
  std::uint64_t ns;
};

struct ForwardPlan {
  std::vector<Stall> stalls{};     // by message, rising
  std::uint64_t sample_every = 0;  // write our times into every k-th message; 0: never
  std::uint64_t work_ns = 0;       // spin this long on every message
  std::uint64_t drop_every = 0;    // of each k-th message: 0 never
  std::uint64_t repeat_every = 0;
  std::uint64_t swap_every = 0;
  std::uint64_t damage_every = 0;
  int cpu = -1;
  int priority = 0;  // of SCHED_FIFO; 0 leaves the thread as it is
};

// A stall as it was really made: a sleeper wakes up late, and what measures the broker is checked against
// this.
struct StallMade {
  std::uint64_t message;
  std::uint64_t from_ticks;
  std::uint64_t to_ticks;
};

struct ForwardResult {
  std::uint64_t forwarded = 0;
  std::uint64_t cpu_ns = 0;
  int error = 0;
  std::vector<StallMade> stalls{};
};

// Runs until the input ends or the flag is raised.
ForwardResult forward(Receiver& in, Sender& out, std::size_t size, const ForwardPlan& plan,
                      const StopFlag& stop);

class Forwarder {
 public:
  Forwarder(const ChannelSpec& in, const ChannelSpec& out, ForwardPlan plan);
  ~Forwarder();
  void stop();
  ForwardResult result();  // waits for the thread
  std::uint64_t cpu_ns() const;

 private:
  StopFlag stop_{false};
  std::atomic<bool> done_{false};
  std::unique_ptr<Receiver> in_;
  std::unique_ptr<Sender> out_;
  ForwardPlan plan_;
  ForwardResult result_;
  std::thread thread_;
};

// The CPU time of the calling thread.
std::uint64_t thread_cpu_ns() noexcept;
std::uint64_t process_cpu_ns() noexcept;
// Pins the calling thread; does nothing for a negative number. False when the system refuses.
bool pin_thread(int cpu) noexcept;
// Runs the calling thread under SCHED_FIFO, before every ordinary one; does nothing for 0. Returns errno.
int raise_priority(int priority) noexcept;
// A signal that interrupts a waiting system call and does nothing else.
void install_interrupt();
void interrupt_thread(pthread_t thread) noexcept;

}  // namespace latlab::messaging
