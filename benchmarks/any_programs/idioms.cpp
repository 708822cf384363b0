// Programs as people write them: lambdas in std::thread, methods, std::async, polling without a telling name,
// several files, forked workers. Each with one planted limit; which one stands in
// benchmarks/any_program_idioms.py.
//
//     idioms MODE SECONDS [key=value ...]

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "../textbook_queue.hpp"

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace {

std::map<std::string, std::string> options;
Clock::time_point until;

long number(const std::string& key, long otherwise) {
  const auto found = options.find(key);
  return found == options.end() ? otherwise : std::atol(found->second.c_str());
}

bool over() {
  return Clock::now() > until;
}

// Work that a compiler cannot leave out, of about so many microseconds.
[[gnu::noinline]] double churn(long us) {
  double sum = 1;
  const auto end = Clock::now() + std::chrono::microseconds(us);
  while (Clock::now() < end)
    for (int i = 1; i < 200; i++) sum += 1.0 / (sum + i);
  return sum;
}

volatile double kept;

using Mailbox = TextbookQueue<int>;
constexpr int kLast = -1;

[[gnu::noinline]] void tokenize(long us) {
  kept = churn(us);
}
[[gnu::noinline]] void enrich(long us) {
  kept = churn(us + 1) + 1;
}
[[gnu::noinline]] void index_document(long us) {
  kept = churn(us + 2) + 2;
}

// Stages as lambdas: nothing but what they call has a name.
void lambdas() {
  Mailbox a(16), b(16);
  std::thread reader([&] {
    for (int i = 0; !over(); i++) tokenize(number("first", 40)), a.push(i);
    a.push(kLast);
  });
  std::thread worker([&] {
    for (int i; (i = a.pop()) != kLast; b.push(i)) enrich(number("second", 300));
    b.push(kLast);
  });
  std::thread writer([&] {
    while (b.pop() != kLast) index_document(number("third", 50));
  });
  reader.join(), worker.join(), writer.join();
}

// Stages as methods of one class, with names that the kernel shows.
class Crawler {
 public:
  void run() {
    std::vector<std::thread> all;
    all.emplace_back(&Crawler::fetch_pages, this);
    all.emplace_back(&Crawler::extract_links, this);
    all.emplace_back(&Crawler::score_pages, this);
    for (auto& one : all) one.join();
  }

 private:
  void fetch_pages() {
    for (int i = 0; !over(); i++) kept = churn(number("fetch", 50)), fetched_.push(i);
    fetched_.push(kLast);
  }
  void extract_links() {
    for (int i; (i = fetched_.pop()) != kLast; linked_.push(i)) kept = churn(number("extract", 50));
    linked_.push(kLast);
  }
  void score_pages() {
    while (linked_.pop() != kLast) kept = churn(number("score", 300));
  }
  Mailbox fetched_{32}, linked_{32};
};

// A consumer that polls an atomic: nothing in its name says that it only looks.
std::atomic<int> published{0}, taken{0};

[[gnu::noinline]] void apply_updates() {
  while (!over()) {
    while (taken.load(std::memory_order_acquire) == published.load(std::memory_order_acquire))
      if (over()) return;
    taken.fetch_add(1, std::memory_order_release);
    kept = churn(number("apply", 5));
  }
}

[[gnu::noinline]] void make_updates() {
  while (!over()) {
    kept = churn(number("make", 200));
    published.fetch_add(1, std::memory_order_release);
    while (published.load() - taken.load() > 8 && !over()) std::this_thread::yield();
  }
}

void polls() {
  std::thread consumer(apply_updates);
  std::thread producer(make_updates);
  consumer.join(), producer.join();
}

// A lock of one's own.
class Latch {
 public:
  void enter() {
    while (flag_.exchange(true, std::memory_order_acquire))
      while (flag_.load(std::memory_order_relaxed)) {
      }
  }
  void leave() { flag_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> flag_{false};
};

Latch table;
std::mutex guard;

[[gnu::noinline]] void post_entry(bool own) {
  kept = churn(number("outside", 10));
  if (own) {
    table.enter();
    kept = churn(number("inside", 300));
    table.leave();
  } else {
    const std::scoped_lock hold(guard);
    kept = churn(number("inside", 300));
  }
}

void ledger(bool own) {
  std::vector<std::jthread> all;
  for (long i = number("threads", 2); i > 0; i--)
    all.emplace_back([own] {
      while (!over()) post_entry(own);
    });
}

// Who commits, waits for the disk; who prepares, doesn't limit.
[[gnu::noinline]] void commit_record(int file, const std::string& record) {
  if (write(file, record.data(), record.size()) < 0 || fdatasync(file) < 0) std::abort();
}

void journal() {
  Mailbox orders(8);
  std::thread gateway([&] {
    for (int i = 0; !over(); i++) kept = churn(30), orders.push(i);
    orders.push(kLast);
  });
  std::thread log([&] {
    const int file = open(options["file"].c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_APPEND, 0600);
    const std::string record(static_cast<std::size_t>(number("bytes", 4096)), 'r');
    while (orders.pop() != kLast) commit_record(file, record);
    close(file);
  });
  gateway.join(), log.join();
}

// Many threads that hardly work, one that does.
void many() {
  Mailbox jobs(64), done(64);
  std::vector<std::thread> all;
  const long threads = number("threads", 40);
  for (long i = 0; i < threads; i++)
    all.emplace_back([&] {
      for (int job; (job = jobs.pop()) != kLast; done.push(job)) std::this_thread::sleep_for(1ms), churn(10);
      done.push(kLast);
    });
  std::thread collector([&] {
    for (long left = threads; left > 0;)
      if (done.pop() == kLast)
        left--;
      else
        kept = churn(number("collect", 300));
  });
  pthread_setname_np(collector.native_handle(), "collector");
  for (int i = 0; !over(); i++) jobs.push(i);
  for (long i = 0; i < threads; i++) jobs.push(kLast);
  for (auto& one : all) one.join();
  collector.join();
}

// Forked workers that read from one pipe each; one of them is slow.
[[gnu::noinline]] void digest_part(long us) {
  kept = churn(us) + 3;
}

void workers() {
  const long count = number("workers", 2);
  std::vector<int> requests, replies;
  for (long i = 0; i < count; i++) {
    int there[2], back[2];
    if (pipe(there) || pipe(back)) std::abort();
    if (fork() == 0) {
      close(there[1]), close(back[0]);
      for (char c; read(there[0], &c, 1) == 1;) {
        digest_part(i == 0 ? number("slow", 400) : number("fast", 80));
        if (write(back[1], &c, 1) != 1) break;
      }
      _exit(0);
    }
    close(there[0]), close(back[1]);
    requests.push_back(there[1]), replies.push_back(back[0]);
  }
  while (!over()) {
    char c = 'x';
    for (const int one : requests)
      if (write(one, &c, 1) != 1) std::abort();
    for (const int one : replies)
      if (read(one, &c, 1) != 1) std::abort();
    kept = churn(20);
  }
  for (const int one : requests) close(one);
  while (wait(nullptr) > 0) {
  }
}

// Tasks of std::async, joined in rounds.
[[gnu::noinline]] double fold_left(long us) {
  return churn(us) + 2;
}
[[gnu::noinline]] double fold_right(long us) {
  return churn(us) + 1;
}

void rounds() {
  while (!over()) {
    auto one = std::async(std::launch::async, fold_left, number("left", 2000));
    auto two = std::async(std::launch::async, fold_right, number("right", 500));
    kept = one.get() + two.get();
  }
}

// Producers behind one stage that is busy on its own queue; a pair of unequal consumers.
void semaphoreless() {
  Mailbox in(32);
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; i++)
    readers.emplace_back([&] {
      while (!over()) kept = churn(10), in.push(1);
    });
  std::thread merger([&] {
    for (int left = 3; left > 0;)
      if (in.pop() == kLast)
        left--;
      else
        index_document(number("merge", 200));
  });
  for (auto& one : readers) one.join();
  for (int i = 0; i < 3; i++) in.push(kLast);
  merger.join();
}

// A heartbeat beside the work: neither sleeps nor wakes of it matter.
void heartbeat() {
  std::thread beat([] {
    while (!over()) std::this_thread::sleep_for(1ms);
  });
  while (!over()) tokenize(500);
  beat.join();
}

// Retries with a pause: nothing is short, the pause is long.
[[gnu::noinline]] bool try_reserve() {
  kept = churn(30);
  return false;
}

void retries() {
  while (!over()) {
    while (!try_reserve() && !over())
      std::this_thread::sleep_for(std::chrono::microseconds(number("pause", 2000)));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  until = Clock::now() + std::chrono::microseconds(static_cast<long>(1e6 * std::atof(argv[2])));
  for (int i = 3; i < argc; i++) {
    const std::string text = argv[i];
    const auto at = text.find('=');
    options[text.substr(0, at)] = text.substr(at + 1);
  }
  const std::map<std::string, std::function<void()>> modes{
      {"lambdas", lambdas},
      {"methods", [] { Crawler().run(); }},
      {"polls", polls},
      {"spinlock", [] { ledger(true); }},
      {"mutex", [] { ledger(false); }},
      {"journal", journal},
      {"many", many},
      {"workers", workers},
      {"rounds", rounds},
      {"fan", semaphoreless},
      {"heartbeat", heartbeat},
      {"retries", retries},
  };
  const auto chosen = modes.find(argv[1]);
  if (chosen == modes.end()) return 2;
  chosen->second();
}
