// An application with a queue of its own: what makes it visible is the line that constructs it.
#include <latlab/counted.hpp>

#include <condition_variable>
#include <iostream>
#include <mutex>
#include <queue>
#include <thread>

namespace {

// A queue as thousands of applications have one. It knows nothing of latlab.
template <class T>
class BlockingQueue {
 public:
  using value_type = T;

  void push(T value) {
    {
      const std::lock_guard guard(lock_);
      events_.push(std::move(value));
    }
    arrived_.notify_one();
  }
  T pop() {
    std::unique_lock guard(lock_);
    arrived_.wait(guard, [this] { return !events_.empty(); });
    T value = std::move(events_.front());
    events_.pop();
    return value;
  }

 private:
  std::mutex lock_;
  std::condition_variable arrived_;
  std::queue<T> events_;
};

}  // namespace

int main() {
  // Before: BlockingQueue<int> orders;
  latlab::Counted<BlockingQueue<int>, latlab::Writers::one> orders(
      {.name = "orders", .source = {"feed", "feed-1"}, .drain = {"book", "book-1"}});
  constexpr int kEvents = 1000;
  std::thread feed([&] {
    for (int i = 0; i < kEvents; ++i) orders.push(i);
  });
  long sum = 0;
  for (int i = 0; i < kEvents; ++i) sum += orders.pop();
  feed.join();
  std::cout << "put in " << orders.slot().producer().in.load() << ", taken out "
            << orders.slot().consumer().out.load() << ", sum " << sum << '\n';
  return sum == kEvents * (kEvents - 1L) / 2 ? 0 : 1;
}
