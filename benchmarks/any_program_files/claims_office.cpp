// limit: thread,cpu | clerk|assess|match_history|Pool|cpu|CPU
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

class Pool {
 public:
  explicit Pool(int n) {
    for (int i = 0; i < n; ++i) clerks_.emplace_back([this] { clerk(); });
  }
  ~Pool() {
    {
      std::lock_guard g(m_);
      closed_ = true;
    }
    work_.notify_all();
    for (auto& c : clerks_) c.join();
  }
  void submit(std::function<void()> job) {
    std::unique_lock g(m_);
    space_.wait(g, [&] { return jobs_.size() < 64; });
    jobs_.push_back(std::move(job));
    work_.notify_one();
  }

 private:
  void clerk() {
    for (;;) {
      std::unique_lock g(m_);
      work_.wait(g, [&] { return closed_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      auto job = std::move(jobs_.front());
      jobs_.pop_front();
      space_.notify_one();
      g.unlock();
      job();
    }
  }
  std::mutex m_;
  std::condition_variable work_, space_;
  std::deque<std::function<void()>> jobs_;
  std::vector<std::thread> clerks_;
  bool closed_ = false;
};

[[gnu::noinline]] std::size_t match_history(const std::vector<std::string>& files, unsigned id) {
  std::string all;
  std::vector<std::string> s(files);
  std::rotate(s.begin(), s.begin() + id % s.size(), s.end());
  std::sort(s.begin(), s.end(), [](auto& a, auto& b) { return a.substr(3) < b.substr(3); });
  for (auto& x : s) all += x;
  return std::hash<std::string>{}(all);
}
[[gnu::noinline]] std::size_t acknowledge(unsigned id) {
  return std::hash<std::string>{}("claim " + std::to_string(id));
}

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[argc - 1]) : 6;
  std::vector<std::string> files;
  for (int i = 0; i < 4000; ++i)
    files.push_back("no-" + std::to_string(i * 7919 % 100003) + "-history-of-this-customer");
  std::vector<std::size_t> result(1 << 16);
  unsigned n = 0;
  {
    Pool office(2);
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    for (; std::chrono::steady_clock::now() < end; ++n)
      office.submit([&, n] { result[n & 0xffff] = n % 10 ? acknowledge(n) : match_history(files, n); });
  }
  std::printf("%u claims\n", n);
}
