// Programs with one planted limit, each a mode of this file: planted MODE SECONDS [KEY=VALUE …].
//
// Nothing of latlab is in them. Threads are pthreads with a function of their own, so that a name can be
// told; work is a calibrated loop, so that it costs the same when the thread is preempted.
//
// Over 400 lines: one program, so that whatever is planted has the same name, build and helpers.

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

#define APART __attribute__((noinline, noipa))

namespace {

using Clock = std::chrono::steady_clock;

std::map<std::string, std::string> options;
Clock::time_point deadline;
double turns_per_us = 100.0;
volatile std::uint64_t sink;  // keeps the work
std::uint64_t rounds = 0;     // of what can be counted

double number(const std::string& key, double otherwise) {
  const auto found = options.find(key);
  return found == options.end() ? otherwise : std::atof(found->second.c_str());
}

std::string text(const std::string& key, const std::string& otherwise) {
  const auto found = options.find(key);
  return found == options.end() ? otherwise : found->second;
}

bool over() {
  return Clock::now() >= deadline;
}

// Inlined into each piece of work, so that a sample shows that piece's name.
__attribute__((always_inline)) inline void turn(std::uint64_t turns) {
  std::uint64_t x = sink | 1;
  for (std::uint64_t i = 0; i < turns; ++i) x = x * 6364136223846793005U + 1442695040888963407U;
  sink = x;
}

void calibrate() {
  double best = 0;
  for (int round = 0; round < 20; ++round) {
    const auto begin = Clock::now();
    turn(200'000);
    const double us = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
    best = std::max(best, 200'000 / us);
  }
  turns_per_us = best;
}

std::uint64_t turns(double us) {
  return static_cast<std::uint64_t>(us * turns_per_us);
}

// A bounded queue of a mutex and two condition variables.
struct Queue {
  explicit Queue(std::size_t capacity) : capacity_(capacity) {}
  void put(int item) {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [&] { return items_.size() < capacity_; });
    items_.push_back(item);
    lock.unlock();
    some_.notify_one();
  }
  int take() {
    std::unique_lock lock(mutex_);
    some_.wait(lock, [&] { return !items_.empty(); });
    const int item = items_.front();
    items_.pop_front();
    lock.unlock();
    room_.notify_one();
    return item;
  }

 private:
  std::size_t capacity_;
  std::mutex mutex_;
  std::condition_variable some_, room_;
  std::deque<int> items_;
};

// A bounded queue of two semaphores.
struct SemaphoreQueue {
  explicit SemaphoreQueue(unsigned capacity) {
    sem_init(&some_, 0, 0);
    sem_init(&room_, 0, capacity);
  }
  void put(int item) {
    while (sem_wait(&room_) != 0) {
    }
    {
      std::lock_guard lock(mutex_);
      items_.push_back(item);
    }
    sem_post(&some_);
  }
  int take() {
    while (sem_wait(&some_) != 0) {
    }
    int item;
    {
      std::lock_guard lock(mutex_);
      item = items_.front();
      items_.pop_front();
    }
    sem_post(&room_);
    return item;
  }

 private:
  sem_t some_{}, room_{};
  std::mutex mutex_;
  std::deque<int> items_;
};

// A pipe between threads.
struct PipeQueue {
  explicit PipeQueue(unsigned capacity) {
    if (pipe(ends_.data()) != 0) std::abort();
    fcntl(ends_[1], F_SETPIPE_SZ, static_cast<int>(std::max(4096U, capacity * 4)));
  }
  void put(int item) {
    if (write(ends_[1], &item, sizeof item) != sizeof item) std::abort();
  }
  int take() {
    int item;
    if (read(ends_[0], &item, sizeof item) != sizeof item) std::abort();
    return item;
  }

 private:
  std::array<int, 2> ends_{};
};

struct Hop {
  std::function<int()> take;
  std::function<void(int)> put;
  std::uint64_t work = 0;
  double sleep_us = 0;
};

// One loop and one piece of work for each name: what a stack shows is which stage it is.
#define STAGE(name)                                                          \
  APART void name##_work(std::uint64_t n) {                                  \
    turn(n);                                                                 \
  }                                                                          \
  APART void* name##_loop(void* given) {                                     \
    auto& hop = *static_cast<Hop*>(given);                                   \
    for (;;) {                                                               \
      const int item = hop.take ? hop.take() : (over() ? -1 : 0);            \
      if (item >= 0) {                                                       \
        name##_work(hop.work);                                               \
        if (hop.sleep_us > 0) usleep(static_cast<useconds_t>(hop.sleep_us)); \
      }                                                                      \
      if (hop.put) hop.put(item);                                            \
      if (item < 0) return nullptr;                                          \
    }                                                                        \
  }
STAGE(source)
STAGE(parse)
STAGE(check)
STAGE(price)
STAGE(route)
STAGE(store)
#undef STAGE

using Loop = void* (*)(void*);
const std::vector<std::pair<std::string, Loop>> STAGES = {{"parse", parse_loop},
                                                          {"check", check_loop},
                                                          {"price", price_loop},
                                                          {"route", route_loop},
                                                          {"store", store_loop}};

// line: a source and so many stages; `slow` takes `us`, the others `fast`. `via`: condvar, sem or pipe.
template <typename Q>
void run_line() {
  const auto count = static_cast<std::size_t>(number("stages", 3));
  const double fast = number("fast", 100), slow = number("us", 400);
  const std::string which = text("slow", "price"), also = text("also", "");
  std::deque<Q> queues;
  for (std::size_t i = 0; i < count; ++i) queues.emplace_back(static_cast<unsigned>(number("capacity", 32)));
  std::vector<Hop> hops(count + 1);
  hops[0] = {{}, [&](int x) { queues[0].put(x); }, turns(number("source", 10)), number("every", 0)};
  for (std::size_t i = 0; i < count; ++i) {
    const std::string& name = STAGES[i].first;
    Hop& hop = hops[i + 1];
    hop.take = [&queues, i] { return queues[i].take(); };
    if (i + 1 < count) hop.put = [&queues, i](int x) { queues[i + 1].put(x); };
    hop.work = turns(name == which || name == also ? slow : fast);
    if (name == which) hop.sleep_us = number("sleep", 0);
    if (name == which && number("sleep", 0) > 0) hop.work = turns(fast);
  }
  std::vector<pthread_t> threads(count + 1);
  pthread_create(&threads[0], nullptr, source_loop, &hops[0]);
  for (std::size_t i = 0; i < count; ++i)
    pthread_create(&threads[i + 1], nullptr, STAGES[i].second, &hops[i + 1]);
  for (auto thread : threads) pthread_join(thread, nullptr);
}

void line() {
  const std::string via = text("via", "condvar");
  if (via == "sem")
    run_line<SemaphoreQueue>();
  else if (via == "pipe")
    run_line<PipeQueue>();
  else
    run_line<Queue>();
}

// lock: threads that hold one mutex for `us` and work outside of it for `fast`.
std::mutex the_lock;
std::shared_mutex the_shared_lock;
APART void update_book(std::uint64_t n) {
  turn(n);
}
APART void own_work(std::uint64_t n) {
  turn(n);
}
APART void* trader_loop(void*) {
  const auto held = turns(number("us", 300)), outside = turns(number("fast", 60));
  while (!over()) {
    {
      std::lock_guard guard(the_lock);
      if (number("hold_sleep", 0) > 0)
        usleep(static_cast<useconds_t>(number("hold_sleep", 0)));
      else
        update_book(held);
    }
    own_work(outside);
  }
  return nullptr;
}
APART void* reader_loop(void*) {
  const auto inside = turns(number("fast", 60));
  while (!over()) {
    std::shared_lock guard(the_shared_lock);
    own_work(inside);
  }
  return nullptr;
}
APART void* writer_loop(void*) {
  while (!over()) {
    {
      std::unique_lock guard(the_shared_lock);
      usleep(static_cast<useconds_t>(number("hold_sleep", 2000)));
    }
    usleep(200);
  }
  return nullptr;
}

void all(std::initializer_list<std::pair<Loop, int>> loops) {
  std::vector<pthread_t> threads;
  for (const auto& [loop, count] : loops) {
    for (int i = 0; i < count; ++i) {
      pthread_t thread{};
      pthread_create(&thread, nullptr, loop, reinterpret_cast<void*>(static_cast<std::intptr_t>(i)));
      threads.push_back(thread);
    }
  }
  for (auto thread : threads) pthread_join(thread, nullptr);
}

void lock() {
  all({{trader_loop, static_cast<int>(number("threads", 3))}});
}
void rwlock() {
  all({{reader_loop, static_cast<int>(number("threads", 3))}, {writer_loop, 1}});
}

// spin: a consumer polls an atomic; the producer works.
std::atomic<std::uint64_t> produced{0};
APART void make_item(std::uint64_t n) {
  turn(n);
}
APART void* producer_loop(void*) {
  while (!over()) {
    make_item(turns(number("us", 300)));
    produced.fetch_add(1);
  }
  produced.store(~0ULL);
  return nullptr;
}
APART void* poller_loop(void*) {
  std::uint64_t seen = 0;
  for (;;) {
    const auto now = produced.load(std::memory_order_acquire);
    if (now == ~0ULL) return nullptr;
    if (now != seen) {
      seen = now;
      own_work(turns(number("fast", 20)));
    }
  }
}
void spin() {
  all({{producer_loop, 1}, {poller_loop, 1}});
}

// forkjoin: threads meet at a barrier; the last one has more to do.
pthread_barrier_t barrier;
std::atomic<bool> ended{false};
APART void its_share(std::uint64_t n) {
  turn(n);
}
APART void* worker_loop(void* given) {
  const bool late = reinterpret_cast<std::intptr_t>(given) == 0;
  for (;;) {
    its_share(turns(late ? number("us", 900) : number("fast", 200)));
    if (late && over()) ended = true;
    pthread_barrier_wait(&barrier);
    if (ended) return nullptr;
  }
}
void forkjoin() {
  const int count = static_cast<int>(number("threads", 3));
  pthread_barrier_init(&barrier, nullptr, static_cast<unsigned>(count));
  all({{worker_loop, count}});
}

// pool: a dispatcher hands jobs to workers; `dispatch` or `job` is what takes long.
Queue* jobs;
APART void prepare_job(std::uint64_t n) {
  turn(n);
}
APART void do_job(std::uint64_t n) {
  turn(n);
}
APART void* dispatcher_loop(void*) {
  while (!over()) {
    prepare_job(turns(number("dispatch", 20)));
    jobs->put(1);
  }
  for (int i = 0; i < static_cast<int>(number("threads", 2)); ++i) jobs->put(-1);
  return nullptr;
}
APART void* jobs_loop(void*) {
  while (jobs->take() > 0) {
    do_job(turns(number("job", 300)));
    if (number("job_sleep", 0) > 0) usleep(static_cast<useconds_t>(number("job_sleep", 0)));
  }
  return nullptr;
}
void pool() {
  Queue queue(64);
  jobs = &queue;
  all({{dispatcher_loop, 1}, {jobs_loop, static_cast<int>(number("threads", 2))}});
}

// fsync: a writer that makes each record durable.
APART void log_record(int file) {
  static const std::string record(static_cast<std::size_t>(number("bytes", 4096)), 'x');
  if (write(file, record.data(), record.size()) < 0 || fsync(file) != 0) std::abort();
}
void sync_each() {
  const int file = open(text("file", "any-program.log").c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
  while (!over()) {
    own_work(turns(number("fast", 50)));
    log_record(file);
    lseek(file, 0, SEEK_SET);
  }
  close(file);
  unlink(text("file", "any-program.log").c_str());
}

// pace: sleeps between short work; `by`: usleep, timerfd or poll with a time limit.
APART void tick(std::uint64_t n) {
  turn(n);
}
void pace() {
  const auto every = static_cast<long>(number("every", 2000));
  int timer = -1;
  if (text("by", "usleep") == "timerfd") {
    timer = timerfd_create(CLOCK_MONOTONIC, 0);
    const itimerspec spec{{0, every * 1000}, {0, every * 1000}};
    timerfd_settime(timer, 0, &spec, nullptr);
  }
  while (!over()) {
    tick(turns(number("fast", 100)));
    std::uint64_t times = 0;
    if (timer < 0)
      usleep(static_cast<useconds_t>(every));
    else if (read(timer, &times, sizeof times) < 0)
      std::abort();
  }
}

// cpu: threads that only work, more than there are CPUs.
void cpu() {
  static auto loop = +[](void*) -> void* {
    while (!over()) own_work(turns(1000));
    return nullptr;
  };
  all({{loop, static_cast<int>(number("threads", 6))}});
}

// single: one thread that works, waiting for nobody.
APART void crunch(std::uint64_t n) {
  turn(n);
}
void single() {
  while (!over()) crunch(turns(1000));
}

// faults: a thread that touches new memory all the time.
APART void touch_pages() {
  const std::size_t size = 64 << 20;
  auto* memory =
      static_cast<char*>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  for (std::size_t at = 0; at < size && !over(); at += 4096) memory[at] = 1;
  munmap(memory, size);
}
void faults() {
  while (!over()) touch_pages();
}

// ask: a client asks another process for each item over `via` (socketpair, pipe, tcp, unix); it works or
// sleeps.
APART void serve_one(double us, double sleep_us) {
  turn(turns(us));
  if (sleep_us > 0) usleep(static_cast<useconds_t>(sleep_us));
}
APART void use_reply(std::uint64_t n) {
  turn(n);
}
[[noreturn]] void serve(int in, int out) {
  char byte = 0;
  while (read(in, &byte, 1) == 1) {
    serve_one(number("us", 400), number("sleep", 0));
    if (write(out, &byte, 1) != 1) break;
  }
  _exit(0);
}
void ask() {
  const std::string via = text("via", "socketpair");
  std::array<int, 2> to{}, from{};
  int in = -1, out = -1;
  pid_t child = -1;
  if (via == "pipe") {
    if (pipe(to.data()) != 0 || pipe(from.data()) != 0) std::abort();
    child = fork();
    if (child == 0) {
      close(to[1]);
      close(from[0]);
      serve(to[0], from[1]);
    }
    close(to[0]);
    close(from[1]);
    in = from[0];
    out = to[1];
  } else if (via == "socketpair") {
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, to.data()) != 0) std::abort();
    child = fork();
    if (child == 0) {
      close(to[0]);
      serve(to[1], to[1]);
    }
    close(to[1]);
    in = out = to[0];
  } else {
    const bool tcp = via == "tcp";
    const int listener = socket(tcp ? AF_INET : AF_UNIX, SOCK_STREAM, 0);
    sockaddr_in inet{};
    sockaddr_un local{};
    inet.sin_family = AF_INET;
    inet.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    local.sun_family = AF_UNIX;
    std::snprintf(local.sun_path + 1, sizeof local.sun_path - 1, "any-program-%d", getpid());
    auto* address = tcp ? reinterpret_cast<sockaddr*>(&inet) : reinterpret_cast<sockaddr*>(&local);
    socklen_t size = tcp ? sizeof inet : sizeof local;
    if (bind(listener, address, size) != 0 || listen(listener, 4) != 0) std::abort();
    getsockname(listener, address, &size);
    child = fork();
    if (child == 0) {
      const int peer = accept(listener, nullptr, nullptr);
      close(listener);
      serve(peer, peer);
    }
    close(listener);
    in = out = socket(tcp ? AF_INET : AF_UNIX, SOCK_STREAM, 0);
    const int one = 1;
    if (tcp) setsockopt(in, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(in, address, size) != 0) std::abort();
  }
  char byte = 0;
  while (!over()) {
    if (write(out, &byte, 1) != 1 || read(in, &byte, 1) != 1) break;
    use_reply(turns(number("fast", 60)));
    ++rounds;
  }
  close(in);
  if (out != in) close(out);
  waitpid(child, nullptr, 0);
}

// children: worker processes that are handed numbers over pipes, in turn; the first has more to do.
void children() {
  const int count = static_cast<int>(number("threads", 3));
  std::vector<std::array<int, 2>> to(static_cast<std::size_t>(count)), from(to);
  std::vector<pid_t> pids;
  for (int i = 0; i < count; ++i) {
    auto& a = to[static_cast<std::size_t>(i)];
    auto& b = from[static_cast<std::size_t>(i)];
    if (pipe2(a.data(), O_CLOEXEC) != 0 || pipe2(b.data(), O_CLOEXEC) != 0) std::abort();
    const pid_t pid = fork();
    if (pid == 0) {
      for (int j = 0; j <= i; ++j) {
        close(to[static_cast<std::size_t>(j)][1]);
        close(from[static_cast<std::size_t>(j)][0]);
      }
      char byte = 0;
      while (read(a[0], &byte, 1) == 1) {
        its_share(turns(i == 0 ? number("us", 900) : number("fast", 200)));
        if (write(b[1], &byte, 1) != 1) break;
      }
      _exit(0);
    }
    pids.push_back(pid);
    close(a[0]);
    close(b[1]);
  }
  char byte = 0;
  while (!over()) {
    for (auto& one : to)
      if (write(one[1], &byte, 1) != 1) std::abort();
    for (auto& one : from)
      if (read(one[0], &byte, 1) != 1) std::abort();
  }
  for (auto& one : to) close(one[1]);
  for (auto pid : pids) waitpid(pid, nullptr, 0);
}

// events: a producer wakes a consumer by an eventfd; the consumer answers by another.
APART void handle_event(std::uint64_t n) {
  turn(n);
}
int there, back;
APART void* handler_loop(void*) {
  std::uint64_t value = 0;
  while (read(there, &value, 8) == 8 && value < 1000) {
    handle_event(turns(number("us", 400)));
    value = 1;
    if (write(back, &value, 8) != 8) break;
  }
  return nullptr;
}
APART void* emitter_loop(void*) {
  std::uint64_t value = 1;
  while (!over()) {
    own_work(turns(number("fast", 40)));
    value = 1;
    if (write(there, &value, 8) != 8 || read(back, &value, 8) != 8) break;
    ++rounds;
  }
  value = 1000;
  if (write(there, &value, 8) != 8) std::abort();
  return nullptr;
}
void events() {
  there = eventfd(0, 0);
  back = eventfd(0, 0);
  all({{handler_loop, 1}, {emitter_loop, 1}});
}

}  // namespace

int main(int count, char** words) {
  if (count < 3) return std::fprintf(stderr, "usage: planted MODE SECONDS [KEY=VALUE …]\n"), 2;
  for (int i = 3; i < count; ++i) {
    const std::string word = words[i];
    options[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
  }
  calibrate();
  deadline = Clock::now() + std::chrono::microseconds(static_cast<long>(1e6 * std::atof(words[2])));
  const std::map<std::string, void (*)()> modes = {
      {"line", line},         {"lock", lock},     {"rwlock", rwlock},   {"spin", spin},
      {"forkjoin", forkjoin}, {"pool", pool},     {"fsync", sync_each}, {"pace", pace},
      {"cpu", cpu},           {"single", single}, {"faults", faults},   {"ask", ask},
      {"children", children}, {"events", events}};
  const auto mode = modes.find(words[1]);
  if (mode == modes.end()) return std::fprintf(stderr, "no mode '%s'\n", words[1]), 2;
  mode->second();
  if (rounds > 0) std::printf("rounds %llu\n", static_cast<unsigned long long>(rounds));
  return 0;
}
