// Throughput of single-producer single-consumer queues, latlab's beside those of others, in turn; and one
// sweep over the counters of many queues. Prints "<name> <million events per second>" a line, and "sweep
// <ns>".
//
// Usage: core_queue ROUNDS EVENTS [only-latlab]
#include <pthread.h>
#include <sched.h>
#include <latlab/queue.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#if __has_include(<boost/lockfree/spsc_queue.hpp>)
#include <boost/lockfree/spsc_queue.hpp>
#define HAVE_BOOST 1
#endif
#if __has_include(<concurrentqueue/concurrentqueue.h>)
#include <concurrentqueue/concurrentqueue.h>
#define HAVE_MOODYCAMEL 1
#endif

namespace {

constexpr std::size_t kCapacity = 1024;
constexpr std::size_t kSweptQueues = 165;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

void pin(unsigned cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu % std::thread::hardware_concurrency(), &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

// The textbook ring: two indices on lines of their own, each side with a cached copy of the other's.
class Textbook {
 public:
  Textbook() : cells_(std::make_unique<std::uint64_t[]>(kCapacity + 1)) {}
  bool push(std::uint64_t value) {
    const std::size_t write = write_.load(std::memory_order_relaxed);
    const std::size_t next = write == kCapacity ? 0 : write + 1;
    if (next == cached_read_) {
      cached_read_ = read_.load(std::memory_order_acquire);  // the cells that the consumer has left
      if (next == cached_read_) return false;
    }
    cells_[write] = value;
    write_.store(next, std::memory_order_release);  // the event before its index
    return true;
  }
  bool pop(std::uint64_t& value) {
    const std::size_t read = read_.load(std::memory_order_relaxed);
    if (read == cached_write_) {
      cached_write_ = write_.load(std::memory_order_acquire);  // the events that it covers
      if (read == cached_write_) return false;
    }
    value = cells_[read];
    read_.store(read == kCapacity ? 0 : read + 1, std::memory_order_release);  // we are out of the cell
    return true;
  }

 private:
  std::unique_ptr<std::uint64_t[]> cells_;
  alignas(64) std::atomic<std::size_t> write_{0};
  alignas(64) std::size_t cached_read_ = 0;
  alignas(64) std::atomic<std::size_t> read_{0};
  alignas(64) std::size_t cached_write_ = 0;
};

struct Latlab {
  latlab::SpscRing<std::uint64_t> ring{kCapacity};
  bool push(std::uint64_t value) { return ring.try_push(value); }
  bool pop(std::uint64_t& value) { return ring.try_pop(value); }
};

#if defined(HAVE_BOOST)
struct Boost {
  boost::lockfree::spsc_queue<std::uint64_t> ring{kCapacity};
  bool push(std::uint64_t value) { return ring.push(value); }
  bool pop(std::uint64_t& value) { return ring.pop(value); }
};
#endif

#if defined(HAVE_MOODYCAMEL)
struct Moodycamel {
  moodycamel::ConcurrentQueue<std::uint64_t> queue{kCapacity};
  moodycamel::ProducerToken producer{queue};
  moodycamel::ConsumerToken consumer{queue};
  bool push(std::uint64_t value) { return queue.try_enqueue(producer, value); }
  bool pop(std::uint64_t& value) { return queue.try_dequeue(consumer, value); }
};
#endif

template <class Queue>
void run(const char* name, std::uint64_t events) {
  const auto queue = std::make_unique<Queue>();
  std::atomic<bool> ready{false};
  std::uint64_t sum = 0;
  std::thread consumer([&] {
    pin(1);
    ready.store(true, std::memory_order_release);  // the consumer spins before the clock starts
    std::uint64_t value = 0;
    for (std::uint64_t taken = 0; taken < events;) {
      if (queue->pop(value)) {
        sum += value;
        ++taken;
      } else {
        relax();
      }
    }
  });
  pin(0);
  while (!ready.load(std::memory_order_acquire)) relax();
  const auto begin = std::chrono::steady_clock::now();
  for (std::uint64_t pushed = 0; pushed < events;) {
    if (queue->push(pushed)) {
      ++pushed;
    } else {
      relax();
    }
  }
  consumer.join();
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  if (sum != events * (events - 1) / 2) {
    std::fprintf(stderr, "core_queue: %s lost or invented events\n", name);
    std::exit(1);
  }
  std::printf("%s %.3f\n", name, static_cast<double>(events) / spent.count() / 1e6);
}

// One sweep: out, in, out of every queue with one time stamp, which is what a sampler reads.
void sweep() {
  std::vector<std::unique_ptr<latlab::SpscRing<std::uint64_t>>> rings;
  for (std::size_t i = 0; i < kSweptQueues; ++i) {
    rings.push_back(std::make_unique<latlab::SpscRing<std::uint64_t>>(8));
  }
  struct Sample {
    std::uint64_t at, out, in, out_again;
  };
  std::vector<Sample> samples(kSweptQueues);
  constexpr int repeats = 2000;
  const auto begin = std::chrono::steady_clock::now();
  for (int repeat = 0; repeat < repeats; ++repeat) {
    for (std::size_t i = 0; i < kSweptQueues; ++i) {
      const auto& slot = rings[i]->slot();
      samples[i].at = latlab::ticks();
      samples[i].out = slot.consumer().out.load(std::memory_order_acquire);
      samples[i].in = slot.producer().in.load(std::memory_order_acquire);
      samples[i].out_again = slot.consumer().out.load(std::memory_order_acquire);
    }
    asm volatile("" : : "r"(samples.data()) : "memory");  // every sweep is made
  }
  const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - begin;
  std::printf("sweep %.1f\n", spent.count() / repeats);
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 5;
  const std::uint64_t events = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 5'000'000;
  const bool only_latlab = argc > 3;
  for (int round = 0; round < rounds; ++round) {
    run<Latlab>("latlab", events);
    if (only_latlab) continue;
    run<Textbook>("textbook", events);
#if defined(HAVE_BOOST)
    run<Boost>("boost", events);
#endif
#if defined(HAVE_MOODYCAMEL)
    run<Moodycamel>("moodycamel", events);
#endif
  }
  if (!only_latlab) sweep();
  return 0;
}
