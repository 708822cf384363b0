// Threads: start, wait, stop, progress and the results belong to one controlling thread; the sending and the
// receiving loop have threads of their own, which touch their own arrays only. The arrays may be read once
// wait() was true.
//
// One measured run: what was sent when, and what of it came back when. Two words a message, in memory that
// was mapped, touched and (where allowed) locked beforehand; integers only; no statistics before the end.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <latlab/clock.hpp>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "messaging/channel.hpp"
#include "messaging/message.hpp"

namespace latlab::messaging {

// Zeroed words that don't fault while measuring. Throws std::bad_alloc.
class Words {
 public:
  explicit Words(std::size_t count);
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;
  ~Words();
  std::uint64_t* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return count_; }
  bool locked() const noexcept { return locked_; }

 private:
  std::uint64_t* data_ = nullptr;
  std::size_t count_ = 0;
  std::size_t bytes_ = 0;
  bool locked_ = false;
};

struct RunPlan {
  std::uint64_t messages = 0;  // warm-up messages included
  double period_ns = 0.0;      // between bursts; 0: as fast as possible
  std::uint64_t burst = 1;
  std::vector<std::uint32_t> gaps_ns{};  // instead of a period: from each message to the next
  bool sleep = true;                     // wait for distant messages asleep, not spinning
  std::uint64_t sample_every = 1000;     // CPU clocks are read at every k-th message
  std::uint64_t receiver_work_ns = 0;    // a receiver that is slower than its sender
  int sender_cpu = -1;
  int receiver_cpu = -1;
  int priority = 0;       // SCHED_FIFO: the sender's, the receiver's is 3 above; 0 leaves them as they are
  bool pingpong = false;  // one thread sends and waits for the answer
};

// The clocks at every k-th message, on one side.
struct Sample {
  std::uint64_t message;
  std::uint64_t at_ticks;
  std::uint64_t cpu_ns;
  std::uint32_t dwell_ticks;  // in a broker of ours; 0: not known
  std::uint32_t broker_cpu_us;
};
static_assert(sizeof(Sample) == 32);

struct Side {
  std::uint64_t count = 0;  // messages sent, or received for the first time
  std::uint64_t duplicated = 0;
  std::uint64_t reordered = 0;
  std::uint64_t corrupted = 0;
  std::uint64_t cpu_ns = 0;
  std::uint64_t minor_faults = 0;
  std::uint64_t major_faults = 0;
  std::uint64_t voluntary_switches = 0;
  std::uint64_t involuntary_switches = 0;
  std::uint64_t waited_ns = 0;  // runnable, and without a CPU
  int error = 0;                // errno
  bool pinned = true;
  std::vector<Sample> samples;
};

struct Progress {
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  bool sender_done = false;
  bool receiver_done = false;
};

struct ReceiveLoop;

class Run {
 public:
  Run(const ChannelSpec& out, const ChannelSpec& in, RunPlan plan);
  ~Run();
  void start();
  bool wait(double seconds);  // true: both loops have ended
  void stop();                // ends both loops wherever they wait
  Progress progress() const;
  // The kernel's numbers of the sending and the receiving thread; 0 of one that hasn't begun.
  std::pair<int, int> threads() const { return {sending_tid_.load(), receiving_tid_.load()}; }

  const Side& sender() const { return sender_; }
  const Side& receiver() const { return receiver_; }
  const Words& sent() const { return *sent_; }
  const Words& received() const { return *received_; }
  const Words* kernel() const { return kernel_.get(); }  // CLOCK_REALTIME ns, or nullptr
  std::uint64_t base_ticks() const { return base_; }     // of intended time 0
  double ticks_per_ns() const { return ticks_per_ns_; }  // that the pacing used
  ClockReference from() const { return from_; }
  ClockReference to() const { return to_; }
  std::int64_t realtime_offset_ns() const { return realtime_offset_; }  // CLOCK_REALTIME - CLOCK_MONOTONIC
  std::uint64_t process_cpu() const { return process_cpu_; }
  bool locked() const { return sent_->locked() && received_->locked(); }

 private:
  void begin_to_send();  // what the sending thread does first
  void send();
  void receive();
  ReceiveLoop receive_loop();
  void pingpong();
  template <class S>
  void send_through(S& out);
  bool wait_until(std::uint64_t target);
  std::uint64_t intended(std::uint64_t n);
  bool paced() const;
  void set_base();
  void ended();

  RunPlan plan_;
  ChannelSpec out_spec_, in_spec_;
  Pattern pattern_;
  StopFlag stop_{false};
  std::unique_ptr<Words> sent_, received_, kernel_;
  std::unique_ptr<Sender> out_;
  std::unique_ptr<Receiver> in_;
  Side sender_, receiver_;
  std::uint64_t base_ = 0, gap_sum_ = 0;
  double ticks_per_ns_ = 1.0;
  ClockReference from_{}, to_{};
  std::int64_t realtime_offset_ = 0;
  std::uint64_t process_cpu_ = 0;
  alignas(128) std::atomic<std::uint64_t> sent_count_{0};
  alignas(128) std::atomic<std::uint64_t> received_count_{0};
  alignas(128) std::atomic<bool> receiver_ready_{false};
  std::atomic<bool> sender_done_{false}, receiver_done_{false};
  std::atomic<int> sending_tid_{0}, receiving_tid_{0};
  std::mutex mutex_;
  std::condition_variable end_;
  int running_ = 0;
  std::thread sending_, receiving_;
};

// What the harness itself adds to a message of this size, in ns. The loops with and without it, and the clock
// alone, are measured in turn, `rounds` times, since a virtual CPU has faster and slower times: the median is
// that of the rounds' differences, the best is the difference of what each loop took in its fastest round.
struct HarnessCost {
  double sender_ns;
  double receiver_ns;
  double clock_ns;
};
struct HarnessCosts {
  HarnessCost median;
  HarnessCost best;
};
HarnessCosts harness_cost(std::size_t size, int rounds);

}  // namespace latlab::messaging
