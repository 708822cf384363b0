// Over 400 lines: one discrete-event loop, whose kinds of events share the state of all threads and CPUs.
#include "schedule/simulation.hpp"

#include <algorithm>
#include <deque>
#include <limits>
#include <queue>
#include <set>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace latlab::schedule {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
constexpr std::uint64_t kAll = ~std::uint64_t{0};

enum class State : std::uint8_t { unborn, ready, running, blocked, ended };
enum class Kind : std::uint8_t { birth, timer, cpu, idle };

struct Thread {
  std::int64_t at = 0;  // step
  std::int64_t last = 0;
  std::int64_t left_ns = 0;
  std::int64_t virtual_ns = 0;
  std::int64_t cost = 1;
  std::int64_t since_ns = 0;  // of the state
  std::uint64_t allowed = kAll;
  std::uint64_t turn = 0;  // of its timer
  int cpu = -1;
  std::size_t queue = 0;  // in which it waits for a CPU, or ran last
  State state = State::unborn;
  bool halted = false;
  bool exited = false;
  std::int64_t wakes_ns = 0;  // when it may run at the earliest
  std::vector<int> joiners;
};

struct Cpu {
  int thread = -1;
  std::int64_t since_ns = 0;  // until when the running thread is charged
  std::int64_t came_ns = 0;   // since when it runs
  std::int64_t slice_end_ns = 0;
  std::uint64_t turn = 0;
};

// Threads that wait for a CPU, by their virtual time.
struct Queue {
  std::set<std::pair<std::int64_t, int>> ready;
  std::int64_t floor_ns = 0;
};

struct Gate {
  std::int64_t posts = 0;
  std::deque<int> waiters;
};

struct Lock {
  bool held = false;
  std::deque<int> waiters;
};

struct Event {
  std::int64_t time_ns;
  std::uint64_t order;
  Kind kind;
  int who;
  std::uint64_t turn;
  bool operator>(const Event& other) const {
    return std::tie(time_ns, order) > std::tie(other.time_ns, other.order);
  }
};

class Simulation {
 public:
  Simulation(const Steps& steps, const Machine& machine) : steps_(steps), machine_(machine) {
    check();
    const std::size_t count = steps.born_ns.size();
    threads_.resize(count);
    cpus_.resize(static_cast<std::size_t>(machine.cpus));
    queues_.resize(machine.own_queues ? cpus_.size() : 1);
    gates_.resize(most(Deed::wait, Deed::post));
    locks_.resize(most(Deed::lock, Deed::unlock));
    out_.ended_ns.assign(count, -1);
    out_.ready_ns.assign(count, 0);
    out_.blocked_ns.assign(count, 0);
    out_.at_ns.assign(steps.deed.size(), -1);
    out_.step_ready_ns.assign(steps.deed.size(), 0);
    for (std::size_t t = 0; t < count; ++t) {
      Thread& one = threads_[t];
      one.at = steps.first[t];
      one.last = steps.first[t + 1];
      if (!steps.allowed.empty() && steps.allowed[t] != 0) one.allowed = steps.allowed[t];
      if (!steps.cost.empty()) one.cost = std::max<std::int64_t>(1, steps.cost[t]);
      if (steps.born_ns[t] >= 0) push(steps.born_ns[t], Kind::birth, static_cast<int>(t), 0);
    }
  }

  Outcome run() {
    while (true) {
      while (step()) {
      }
      if (!force()) break;
    }
    return std::move(out_);
  }

 private:
  void check() const {
    const std::size_t steps = steps_.deed.size();
    const std::size_t threads = steps_.born_ns.size();
    const bool sizes = steps_.first.size() == threads + 1 && steps_.work_ns.size() == steps &&
                       steps_.argument.size() == steps &&
                       (steps_.recorded_ns.empty() || steps_.recorded_ns.size() == steps) &&
                       (steps_.cost.empty() || steps_.cost.size() == threads) &&
                       (steps_.allowed.empty() || steps_.allowed.size() == threads) &&
                       (steps_.delay_ns.empty() || steps_.delay_ns.size() == steps);
    if (!sizes) throw std::invalid_argument("the columns of a simulation differ in length");
    if (machine_.cpus < 1) throw std::invalid_argument("a simulation needs a CPU");
    if (steps_.first.front() != 0 || steps_.first.back() != static_cast<std::int64_t>(steps) ||
        !std::is_sorted(steps_.first.begin(), steps_.first.end()))
      throw std::invalid_argument("the threads' steps do not follow each other");
    for (std::size_t i = 0; i < steps; ++i) {
      const auto deed = static_cast<Deed>(steps_.deed[i]);
      const bool other = deed == Deed::start || deed == Deed::join || deed == Deed::halt;
      if (steps_.work_ns[i] < 0 || deed > Deed::none || steps_.argument[i] < 0 ||
          (other && steps_.argument[i] >= static_cast<std::int64_t>(threads)) ||
          (deed <= Deed::wait && steps_.argument[i] > static_cast<std::int64_t>(steps)) ||
          ((deed == Deed::lock || deed == Deed::unlock) &&
           steps_.argument[i] > static_cast<std::int64_t>(steps)))
        throw std::invalid_argument("a step of a simulation is none");
    }
  }

  std::size_t most(Deed a, Deed b) const {
    std::int64_t found = -1;
    for (std::size_t i = 0; i < steps_.deed.size(); ++i)
      if (static_cast<Deed>(steps_.deed[i]) == a || static_cast<Deed>(steps_.deed[i]) == b)
        found = std::max(found, steps_.argument[i]);
    return static_cast<std::size_t>(found + 1);
  }

  void push(std::int64_t time_ns, Kind kind, int who, std::uint64_t turn) {
    events_.push({time_ns, order_++, kind, who, turn});
  }

  // Takes one event; false where there is none.
  bool step() {
    if (events_.empty()) return false;
    const Event next = events_.top();
    events_.pop();
    now_ = next.time_ns;
    happen(next);
    dispatch();
    return true;
  }

  void happen(const Event& event) {
    const auto who = static_cast<std::size_t>(event.who);
    if (event.kind == Kind::birth) {
      begin(event.who, 0);
    } else if (event.kind == Kind::timer) {
      if (threads_[who].state == State::blocked && threads_[who].turn == event.turn) wake(event.who);
    } else if (event.kind == Kind::cpu && cpus_[who].turn == event.turn && cpus_[who].thread >= 0) {
      settle(cpus_[who]);
      proceed(event.who);
    }
  }

  void begin(int who, std::int64_t delay_ns) {
    Thread& one = threads_[static_cast<std::size_t>(who)];
    if (one.state != State::unborn) return;
    load(one);
    one.queue = queues_.size() > 1 ? emptiest(one) : 0;
    one.virtual_ns = least(one.queue);
    one.wakes_ns = now_ + delay_ns;
    enqueue(who);
  }

  void load(Thread& one) const {
    one.left_ns = one.at < one.last && !one.halted ? steps_.work_ns[static_cast<std::size_t>(one.at)] : 0;
  }

  void enqueue(int who) {
    Thread& one = threads_[static_cast<std::size_t>(who)];
    one.state = State::ready;
    one.since_ns = now_;
    queues_[one.queue].ready.insert({one.virtual_ns, who});
    if (queues_.size() > 1 && machine_.stay_ns > 0) push(now_ + machine_.stay_ns, Kind::idle, who, 0);
  }

  std::size_t queue_of(std::size_t cpu) const { return queues_.size() > 1 ? cpu : 0; }

  // The virtual time from which on everybody of a queue goes.
  std::int64_t least(std::size_t number) {
    Queue& queue = queues_[number];
    std::int64_t found = queue.ready.empty() ? kNever : queue.ready.begin()->first;
    for (std::size_t i = 0; i < cpus_.size(); ++i)
      if (queue_of(i) == number && cpus_[i].thread >= 0) {
        settle(cpus_[i]);
        found = std::min(found, threads_[static_cast<std::size_t>(cpus_[i].thread)].virtual_ns);
      }
    if (found != kNever) queue.floor_ns = std::max(queue.floor_ns, found);
    return queue.floor_ns;
  }

  // Where a new thread begins: of the CPUs that it may use the one with the fewest.
  std::size_t emptiest(const Thread& one) const {
    std::size_t best = cpus_.size(), fewest = 0;
    for (std::size_t i = 0; i < cpus_.size(); ++i) {
      const std::size_t there = queues_[i].ready.size() + (cpus_[i].thread >= 0 ? 1 : 0);
      if (may(one, i) && (best == cpus_.size() || there < fewest)) best = i, fewest = there;
    }
    return best < cpus_.size() ? best : 0;
  }

  bool idle(const Thread& one, std::size_t cpu) const {
    return may(one, cpu) && cpus_[cpu].thread < 0 && queues_[cpu].ready.empty();
  }

  // A woken thread goes to where it ran last, but to an idle CPU where that one is busy.
  void place(Thread& one) {
    if (queues_.size() < 2 || idle(one, one.queue)) return;
    for (std::size_t i = 0; i < cpus_.size(); ++i)
      if (idle(one, i)) {
        move(one, i);
        return;
      }
  }

  // To another queue, as far from the others there as from those here.
  void move(Thread& one, std::size_t queue) {
    one.virtual_ns += least(queue) - least(one.queue);
    one.queue = queue;
  }

  void settle(Cpu& cpu) {
    if (cpu.thread < 0 || now_ <= cpu.since_ns) return;
    Thread& one = threads_[static_cast<std::size_t>(cpu.thread)];
    const std::int64_t ran = now_ - cpu.since_ns;
    one.left_ns -= std::min(one.left_ns, ran);
    one.virtual_ns += ran * one.cost;
    cpu.since_ns = now_;
  }

  void wake(int who) {
    Thread& one = threads_[static_cast<std::size_t>(who)];
    out_.blocked_ns[static_cast<std::size_t>(who)] += now_ - one.since_ns;
    ++one.turn;
    one.wakes_ns = now_ + delay(one.at);
    ++one.at;
    load(one);
    // Who slept gets ahead by half a slice at most.
    one.virtual_ns = std::max(one.virtual_ns, least(one.queue) - machine_.slice_ns / 2);
    place(one);
    enqueue(who);
    displace(who);
  }

  std::int64_t delay(std::int64_t step) const {
    const std::int64_t own = steps_.delay_ns.empty() ? -1 : steps_.delay_ns[static_cast<std::size_t>(step)];
    return own < 0 ? machine_.wake_ns : own;
  }

  bool may(const Thread& one, std::size_t cpu) const { return cpu >= 64 || (one.allowed >> cpu & 1U) != 0; }

  // Without an idle CPU a woken thread takes that of the one that is furthest ahead.
  void displace(int who) {
    const Thread& one = threads_[static_cast<std::size_t>(who)];
    std::size_t best = cpus_.size();
    std::int64_t ahead = one.virtual_ns + machine_.behind_ns;
    for (std::size_t i = 0; i < cpus_.size(); ++i) {
      if (!may(one, i) || queue_of(i) != one.queue) continue;
      if (cpus_[i].thread < 0) return;
      const std::int64_t other = threads_[static_cast<std::size_t>(cpus_[i].thread)].virtual_ns;
      if (cpus_[i].thread != acting_ && other > ahead) best = i, ahead = other;
    }
    if (best < cpus_.size()) give_up(cpus_[best]);
  }

  void keep_turn(const Cpu& cpu) {
    if (machine_.turns && now_ > cpu.came_ns) out_.turns.push_back({cpu.thread, cpu.came_ns, now_});
  }

  void give_up(Cpu& cpu) {
    if (cpu.thread < 0) return;
    settle(cpu);
    const int who = cpu.thread;
    if (cpu.since_ns > now_)  // it was on its way, and never ran
      out_.ready_ns[static_cast<std::size_t>(who)] -= cpu.since_ns - now_;
    keep_turn(cpu);
    cpu.thread = -1;
    ++cpu.turn;
    enqueue(who);
  }

  void dispatch() {
    for (std::size_t i = 0; i < cpus_.size(); ++i) {
      if (cpus_[i].thread >= 0) continue;
      int who = next(i, queue_of(i));
      for (std::size_t q = 0; who < 0 && q < queues_.size(); ++q) who = next(i, q);  // it takes over others'
      if (who < 0) continue;
      Thread& one = threads_[static_cast<std::size_t>(who)];
      queues_[one.queue].ready.erase({one.virtual_ns, who});
      if (one.queue != queue_of(i)) move(one, i);
      give(i, who);
    }
  }

  // Of those that wait in a queue and may use this CPU, the one that goes first; -1: there is none.
  int next(std::size_t cpu, std::size_t queue) const {
    const std::int64_t stay = queue == queue_of(cpu) ? 0 : machine_.stay_ns;
    for (const auto& [virtual_ns, who] : queues_[queue].ready) {
      const Thread& one = threads_[static_cast<std::size_t>(who)];
      if (may(one, cpu) && now_ - one.since_ns >= stay) return who;
    }
    return -1;
  }

  void give(std::size_t number, int who) {
    Cpu& cpu = cpus_[number];
    Thread& one = threads_[static_cast<std::size_t>(who)];
    cpu.thread = who;
    cpu.since_ns = cpu.came_ns = std::max(now_, one.wakes_ns);
    cpu.slice_end_ns = cpu.since_ns + machine_.slice_ns;
    const std::int64_t waited = cpu.since_ns - one.since_ns;
    out_.ready_ns[static_cast<std::size_t>(who)] += waited;
    if (one.at < one.last) out_.step_ready_ns[static_cast<std::size_t>(one.at)] += waited;
    one.state = State::running;
    one.cpu = static_cast<int>(number);
    plan(cpu, static_cast<int>(number));
  }

  void plan(Cpu& cpu, int number) {
    const Thread& one = threads_[static_cast<std::size_t>(cpu.thread)];
    const std::int64_t done = std::max(cpu.since_ns, now_) + one.left_ns;
    push(std::min(done, std::max(cpu.slice_end_ns, now_ + 1)), Kind::cpu, number, ++cpu.turn);
  }

  // The thread on this CPU does what is due; then it goes on, or leaves the CPU.
  void proceed(int number) {
    Cpu& cpu = cpus_[static_cast<std::size_t>(number)];
    const int who = cpu.thread;
    Thread& one = threads_[static_cast<std::size_t>(who)];
    acting_ = who;
    while (one.left_ns == 0 && one.state == State::running) {
      if (one.at >= one.last) {
        leave(cpu, State::ended);
        out_.ended_ns[static_cast<std::size_t>(who)] = now_;
        let_go(one);
        break;
      }
      out_.at_ns[static_cast<std::size_t>(one.at)] = now_;
      if (!act(who)) {
        leave(cpu, State::blocked);
        break;
      }
      ++one.at;
      load(one);
    }
    acting_ = -1;
    if (cpu.thread != who) return;
    if (now_ >= cpu.slice_end_ns) {
      const auto here = static_cast<std::size_t>(number);
      const int other = next(here, queue_of(here));
      if (other >= 0 && threads_[static_cast<std::size_t>(other)].virtual_ns < one.virtual_ns) {
        give_up(cpu);
        return;
      }
      cpu.slice_end_ns = now_ + machine_.slice_ns;
    }
    plan(cpu, number);
  }

  void leave(Cpu& cpu, State state) {
    Thread& one = threads_[static_cast<std::size_t>(cpu.thread)];
    one.state = state;
    one.since_ns = now_;
    keep_turn(cpu);
    cpu.thread = -1;
    ++cpu.turn;
  }

  void let_go(Thread& one) {
    one.exited = true;
    for (const int joiner : std::exchange(one.joiners, {})) wake(joiner);
  }

  // Does the deed of the thread's step; false where it blocks.
  bool act(int who) {
    Thread& one = threads_[static_cast<std::size_t>(who)];
    const auto step = static_cast<std::size_t>(one.at);
    const std::int64_t argument = steps_.argument[step];
    const auto index = static_cast<std::size_t>(argument);
    switch (static_cast<Deed>(steps_.deed[step])) {
      case Deed::post:
        post(gates_[index]);
        return true;
      case Deed::wait:
        if (one.halted) return true;
        if (gates_[index].posts > 0) {
          --gates_[index].posts;
          return true;
        }
        gates_[index].waiters.push_back(who);
        return false;
      case Deed::sleep:
        if (one.halted || argument == 0) return true;
        push(now_ + argument, Kind::timer, who, ++one.turn);
        return false;
      case Deed::until:
        if (one.halted || argument <= now_) return true;
        push(argument, Kind::timer, who, ++one.turn);
        return false;
      case Deed::start:
        begin(static_cast<int>(argument),
              steps_.delay_ns.empty() ? 0 : std::max<std::int64_t>(0, steps_.delay_ns[step]));
        return true;
      case Deed::join:
        if (threads_[index].exited) return true;
        threads_[index].joiners.push_back(who);
        return false;
      case Deed::lock:
        if (!locks_[index].held) {
          locks_[index].held = true;
          return true;
        }
        locks_[index].waiters.push_back(who);
        return false;
      case Deed::unlock:
        unlock(locks_[index]);
        return true;
      case Deed::halt:
        halt(threads_[index]);
        return true;
      case Deed::exit:
        let_go(one);
        return true;
      case Deed::none:
        break;
    }
    return true;
  }

  void post(Gate& gate) {
    if (gate.waiters.empty()) {
      ++gate.posts;
      return;
    }
    const int who = gate.waiters.front();
    gate.waiters.pop_front();
    wake(who);
  }

  void unlock(Lock& lock) {
    if (lock.waiters.empty()) {
      lock.held = false;
      return;
    }
    const int who = lock.waiters.front();
    lock.waiters.pop_front();
    wake(who);
  }

  void halt(Thread& other) {
    other.halted = true;
    if (other.state == State::running) {
      // Its work is over at its CPU's next event.
      Cpu& cpu = cpus_[static_cast<std::size_t>(other.cpu)];
      settle(cpu);
      other.left_ns = 0;
      plan(cpu, other.cpu);
    } else if (other.state == State::ready) {
      other.left_ns = 0;
    }
  }

  // Everybody waits: the one whose turn came first in truth goes on.
  bool force() {
    std::size_t best = threads_.size();
    std::int64_t earliest = kNever;
    for (std::size_t t = 0; t < threads_.size(); ++t) {
      const Thread& one = threads_[t];
      if (one.state != State::blocked) continue;
      const std::int64_t when =
          steps_.recorded_ns.empty() ? 0 : steps_.recorded_ns[static_cast<std::size_t>(one.at)];
      if (when < earliest) earliest = when, best = t;
    }
    if (best == threads_.size()) return false;
    ++out_.forced;
    const auto who = static_cast<int>(best);
    const auto step = static_cast<std::size_t>(threads_[best].at);
    const auto index = static_cast<std::size_t>(steps_.argument[step]);
    std::vector<int>& joiners = threads_[std::min(index, threads_.size() - 1)].joiners;
    switch (static_cast<Deed>(steps_.deed[step])) {
      case Deed::wait:
        std::erase(gates_[index].waiters, who);
        break;
      case Deed::lock:
        std::erase(locks_[index].waiters, who);
        break;
      case Deed::join:
        std::erase(joiners, who);
        break;
      default:
        break;
    }
    wake(who);
    dispatch();
    return true;
  }

  const Steps& steps_;
  const Machine& machine_;
  Outcome out_;
  std::vector<Thread> threads_;
  std::vector<Cpu> cpus_;
  std::vector<Gate> gates_;
  std::vector<Lock> locks_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<Queue> queues_;
  std::uint64_t order_ = 0;
  std::int64_t now_ = 0;
  int acting_ = -1;
};

}  // namespace

Outcome simulate(const Steps& steps, const Machine& machine) {
  return Simulation(steps, machine).run();
}

}  // namespace latlab::schedule
