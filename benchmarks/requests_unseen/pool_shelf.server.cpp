#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>
using namespace std::chrono;
std::mutex queue_lock, shelf;
std::condition_variable filled;
std::deque<int> jobs;
std::atomic<long> count{0};
volatile long books = 0;
double each_ms = 0;   // that a request takes,
bool before = false;  // before its lock, or inside;
long every = 0;       // the request that sorts the shelf with the lock held
__attribute__((noinline)) void spin(double ms) {
  auto until = steady_clock::now() + duration<double, std::milli>(ms);
  while (steady_clock::now() < until) books = books + 1;
}
__attribute__((noinline)) void sort_shelf() {
  spin(20);
}
__attribute__((noinline)) void fetch_book(long n) {
  if (before) spin(each_ms);
  std::lock_guard held(shelf);
  if (!before) spin(each_ms);
  if (every != 0 && n % every == 0) sort_shelf();
}
void work() {
  for (;;) {
    int fd;
    {
      std::unique_lock held(queue_lock);
      filled.wait(held, [] { return !jobs.empty(); });
      fd = jobs.front();
      jobs.pop_front();
    }
    char line[256];
    ssize_t got = read(fd, line, sizeof line);
    if (got <= 0) continue;
    fetch_book(++count);
    (void)!write(fd, line, got);
  }
}
int main(int, char** argv) {
  each_ms = atof(argv[2]);
  every = atol(argv[3]);
  before = strcmp(argv[4], "before") == 0;
  int s = socket(AF_INET, SOCK_STREAM, 0), one = 1;
  setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_port = htons(atoi(argv[1]));
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  bind(s, (sockaddr*)&a, sizeof a);
  listen(s, 100);
  int e = epoll_create1(0);
  epoll_event ev{};
  ev.events = EPOLLIN;
  ev.data.fd = s;
  epoll_ctl(e, EPOLL_CTL_ADD, s, &ev);
  std::vector<std::thread> pool;
  for (int i = 0; i < 4; ++i) pool.emplace_back(work);
  for (;;) {
    epoll_event got[64];
    int n = epoll_wait(e, got, 64, -1);
    for (int i = 0; i < n; ++i) {
      if (got[i].data.fd == s) {
        int c = accept(s, nullptr, nullptr);
        setsockopt(c, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        epoll_event w{};
        w.events = EPOLLIN | EPOLLET;
        w.data.fd = c;
        epoll_ctl(e, EPOLL_CTL_ADD, c, &w);
      } else {
        {
          std::lock_guard held(queue_lock);
          jobs.push_back(got[i].data.fd);
        }
        filled.notify_one();
      }
    }
  }
}
