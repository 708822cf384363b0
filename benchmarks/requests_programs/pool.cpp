// A key-value store of lines, as somebody else would write it: one thread polls all connections (epoll), a
// pool of workers answers. pool CAUSE [PATH of a unix socket]
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <deque>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "listener.hpp"

namespace {

using namespace std::chrono_literals;

struct Job {
  int connection;
  long number;
  std::string line;
};

std::string cause;
std::mutex gate;
std::condition_variable arrived;
std::deque<Job> jobs;
std::shared_mutex table_lock;
std::unordered_map<std::string, std::string> table;
int journal = -1;

void snapshot_forever() {
  while (true) {
    std::this_thread::sleep_for(230ms);
    const std::unique_lock held(table_lock);  // nobody reads meanwhile
    std::size_t bytes = 0;
    const auto until = std::chrono::steady_clock::now() + 22ms;
    while (std::chrono::steady_clock::now() < until)
      for (const auto& [key, value] : table) bytes += key.size() + value.size();
    if (bytes == 1) std::puts("");
  }
}

std::string sorted_report() {
  std::vector<std::string> keys;
  for (int i = 0; i < 60'000; ++i) keys.push_back("k" + std::to_string((i * 7919L) % 100'003));
  std::sort(keys.begin(), keys.end());
  return keys[keys.size() / 2];
}

std::string fresh_pages() {
  std::size_t total = 0;
  std::vector<std::vector<char>> blocks;
  for (int i = 0; i < 20; ++i) {
    blocks.emplace_back(3 << 20);
    total += blocks.back().size();
  }
  return std::to_string(total);
}

std::string look_up(const std::string& key) {
  const std::shared_lock held(table_lock);
  const auto at = table.find(key);
  return at == table.end() ? "none" : at->second;
}

std::string answer_to(const Job& job) {
  std::string answer = look_up("key" + std::to_string(job.number % 5000));
  if (cause == "sort" && job.number % 210 == 0) answer = sorted_report();
  if (cause == "pages" && job.number % 190 == 0) answer = fresh_pages();
  if (cause == "blob" && job.number % 170 == 0) answer = std::string(20 << 20, 'b');
  if (cause == "nap" && job.number % 160 == 0) std::this_thread::sleep_for(17ms);
  if (cause == "naps" && job.number % 300 < 12) std::this_thread::sleep_for(14ms);  // takes all workers
  if (cause == "journal" && job.number % 240 == 0) {
    static const std::vector<char> block(1 << 20, 'j');
    if (pwrite(journal, block.data(), block.size(), 0) < 0) return "lost";
    fdatasync(journal);
  }
  return answer + "\n";
}

void work() {
  while (true) {
    Job job;
    {
      std::unique_lock held(gate);
      arrived.wait(held, [] { return !jobs.empty(); });
      job = std::move(jobs.front());
      jobs.pop_front();
    }
    const std::string answer = answer_to(job);
    for (std::size_t at = 0; at < answer.size();) {
      const auto sent = write(job.connection, answer.data() + at, answer.size() - at);
      if (sent <= 0) break;
      at += static_cast<std::size_t>(sent);
    }
  }
}

int listen_at(const char* path) {
  const int listener = socket(path ? AF_UNIX : AF_INET, SOCK_STREAM, 0);
  if (path) {
    sockaddr_un here{};
    here.sun_family = AF_UNIX;
    std::strncpy(here.sun_path, path, sizeof(here.sun_path) - 1);
    bind(listener, reinterpret_cast<sockaddr*>(&here), sizeof(here));
    listen(listener, 128);
    std::printf("0\n");
  } else {
    std::printf("%d\n", listen_anywhere(listener));
  }
  std::fflush(stdout);
  return listener;
}

}  // namespace

int main(int count, char** arguments) {
  cause = count > 1 ? arguments[1] : "none";
  for (int i = 0; i < 5000; ++i) table["key" + std::to_string(i)] = std::string(60, 'v');
  char name[] = "./latlab-planted-XXXXXX";
  journal = mkstemp(name);
  unlink(name);
  const int listener = listen_at(count > 2 ? arguments[2] : nullptr);
  if (cause == "snapshot") std::thread(snapshot_forever).detach();
  for (int i = 0; i < 4; ++i) std::thread(work).detach();
  const int poll = epoll_create1(0);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = listener;
  epoll_ctl(poll, EPOLL_CTL_ADD, listener, &event);
  long number = 0;
  while (true) {
    epoll_event events[64];
    const int ready = epoll_wait(poll, events, 64, -1);
    for (int i = 0; i < ready; ++i) {
      if (events[i].data.fd == listener) {
        const int connection = accept(listener, nullptr, nullptr);
        const int on = 1;
        setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        event.events = EPOLLIN;
        event.data.fd = connection;
        epoll_ctl(poll, EPOLL_CTL_ADD, connection, &event);
        continue;
      }
      char buffer[2048];
      const auto got = read(events[i].data.fd, buffer, sizeof(buffer));
      if (got <= 0) {
        close(events[i].data.fd);
        continue;
      }
      const std::scoped_lock held(gate);
      jobs.push_back({events[i].data.fd, ++number, std::string(buffer, static_cast<std::size_t>(got))});
      arrived.notify_one();
    }
  }
}
