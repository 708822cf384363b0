// limit: thread,cpu | carrier|spin_yarn|resume|Yarn|weave|Mill|cpu|CPU
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <coroutine>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

struct Mill {
  std::mutex m;
  std::condition_variable cv;
  std::deque<std::coroutine_handle<>> ready;
  bool stop = false;
  void schedule(std::coroutine_handle<> h) {
    {
      std::lock_guard g(m);
      ready.push_back(h);
    }
    cv.notify_one();
  }
  void carrier() {
    for (;;) {
      std::unique_lock g(m);
      cv.wait(g, [&] { return stop || !ready.empty(); });
      if (stop) return;
      auto h = ready.front();
      ready.pop_front();
      g.unlock();
      h.resume();
    }
  }
} mill;

struct Hop {
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> h) const { mill.schedule(h); }
  void await_resume() const noexcept {}
};

struct Yarn {
  struct promise_type {
    Yarn get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

std::atomic<long> hops{0};

[[gnu::noinline]] static std::uint64_t weave(std::vector<std::uint64_t>& cloth, std::uint64_t seed) {
  for (int pass = 0; pass < 40; ++pass)
    for (auto& thread : cloth)
      thread ^= (seed = seed * 6364136223846793005ull + 1442695040888963407ull) >> 17;
  return seed;
}

static Yarn spin_yarn(std::uint64_t id) {
  std::vector<std::uint64_t> cloth(4096, id);
  for (;;) {
    co_await Hop{};
    id = weave(cloth, id);
    hops.fetch_add(1, std::memory_order_relaxed);
  }
}

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[argc - 1]) : 6;
  for (std::uint64_t i = 0; i < 300; ++i) spin_yarn(i);
  std::vector<std::thread> carriers;
  for (int i = 0; i < 2; ++i) carriers.emplace_back(&Mill::carrier, &mill);
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  {
    std::lock_guard g(mill.m);
    mill.stop = true;
  }
  mill.cv.notify_all();
  for (auto& t : carriers) t.join();
  std::printf("%ld hops\n", hops.load());
}
