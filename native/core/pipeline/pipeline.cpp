// Over 400 lines: the stages of one pipeline, which share its queues and the order in which it starts and
// ends.
#include "pipeline/pipeline.hpp"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <chrono>
#include <latch>
#include <utility>

namespace latlab::pipeline {

namespace {

constexpr std::size_t kBatch = 64;  // events before a shared thread turns to its next instance
constexpr std::uint64_t kLongestSleepNs =
    20'000'000;  // a sleeper looks by itself now and then, to hear stop()
constexpr std::uint64_t kBlockedSleepNs =
    200'000;  // on a full ring to the other process, which can't wake us

// Steps per nanosecond of the counter, for planted service times.
double measured_ticks_per_ns() {
  const ClockReference from = clock_reference();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  return ticks_hz(from, clock_reference()) / 1e9;
}

// A queue's record and the views of its texts that registration takes.
struct Registration {
  explicit Registration(const Record& queue)
      : name(queue.text("name")),
        source_type(queue.text("source_type")),
        source(queue.text("source")),
        drain_type(queue.text("drain_type")),
        drain(queue.text("drain")),
        group(queue.text("group", "")) {}

  [[nodiscard]] QueueInfo info() const {
    return {.name = name, .source = {source_type, source}, .drain = {drain_type, drain}, .group = group};
  }

  std::string name, source_type, source, drain_type, drain, group;
};

// Where the segment of a queue between the processes lies.
std::string segment(const Plan& plan, const std::string& queue) {
  std::string path = plan.run.text("link_path");
  path += '.';
  path += queue;
  return path;
}

Pacing pacing_of(const Record& feed) {
  Pacing pacing;
  const std::string mode = feed.text("mode");
  if (mode == "fixed") {
    pacing.mode = Pacing::Mode::fixed;
  } else if (mode == "burst") {
    pacing.mode = Pacing::Mode::burst;
  } else if (mode == "market") {
    pacing.mode = Pacing::Mode::market;
  } else if (mode == "timestamps") {
    pacing.mode = Pacing::Mode::timestamps;
  } else if (mode == "fast") {
    pacing.mode = Pacing::Mode::fast;
  } else {
    throw PlanError("line " + std::to_string(feed.line) + ": unknown mode '" + mode + "'");
  }
  pacing.delay_ns = feed.number("delay_ns", 0);
  pacing.burst = feed.number("burst", 1);
  pacing.offset_ns = feed.number("offset_ns", 0);
  pacing.speed = feed.real("speed", 1.0);
  pacing.wait = feed.text("on_full", "drop") == "wait";
  pacing.packet_messages = feed.number("packet_messages", 1);
  return pacing;
}

}  // namespace

Pipeline::Pipeline(const Plan& plan, Role role) : role_(role), ticks_per_ns_(measured_ticks_per_ns()) {
  CounterFile& counters = CounterFile::process();
  counters.set_application(plan.run.text("application", "latlab-pipeline"));
  counters.set_phase(Phase::starting);
  if (role_ == Role::trading) {
    wire_trading(plan);
  } else {
    wire_execution(plan);
  }
  if (instances_.empty()) throw PlanError("no instance for this process");
  staff(plan);
  const std::uint64_t every = plan.run.number("trace_every", 0);
  if (every != 0) {
    const std::string path = plan.run.text("trace_path") + (role_ == Role::trading ? "" : ".execution");
    traces_ = std::make_unique<TraceFile>(path, static_cast<std::uint32_t>(instances_.size()),
                                          plan.run.number("trace_records", 1 << 16),
                                          static_cast<std::uint32_t>(every));
    for (std::uint32_t i = 0; i < instances_.size(); ++i) instances_[i]->set_lane(traces_->lane(i));
  }
}

Pipeline::~Pipeline() = default;

template <class T>
std::vector<Channel<T>*> Pipeline::channels(const Plan& plan, std::string_view key,
                                            const std::string& instance) {
  std::vector<Channel<T>*> found;
  for (const Record& queue : plan.queues) {
    if (queue.text(key) != instance) continue;
    const std::string name = queue.text("name");
    if constexpr (std::is_same_v<T, Packet>) {
      if (packet_channels_.contains(name)) found.push_back(packet_channels_.at(name).get());
    } else if constexpr (std::is_same_v<T, Update>) {
      if (update_channels_.contains(name)) found.push_back(update_channels_.at(name).get());
    } else {
      if (message_channels_.contains(name)) found.push_back(message_channels_.at(name).get());
    }
  }
  return found;
}

void Pipeline::wire_trading(const Plan& plan) {
  std::vector<const FeedFile*> files;
  for (const Record& feed : plan.feeds) {
    files_.push_back(std::make_unique<FeedFile>(feed.text("file")));
    files.push_back(files_.back().get());
  }
  if (files.empty() || files.size() > kVenues) throw PlanError("there must be one or two feeds");
  symbols_ = read_symbols(files);

  for (const Record& queue : plan.queues) {
    const std::string name = queue.text("name");
    const std::string drain = queue.text("drain_type");
    const std::string kind = queue.text("kind");
    const auto capacity = static_cast<std::size_t>(queue.number("capacity"));
    const Registration registration(queue);
    const QueueInfo info = registration.info();
    if (drain == "execution") {
      rings_.emplace(name, SharedRing<Order>::create(segment(plan, name), capacity, info));
    } else if (drain == "decoder") {
      packet_channels_[name] = std::make_unique<Channel<Packet>>(kind, capacity, info);
    } else if (drain == "strategy") {
      update_channels_[name] = std::make_unique<Channel<Update>>(kind, capacity, info);
    } else {
      message_channels_[name] = std::make_unique<Channel<Message*>>(kind, capacity, info);
    }
  }
  pool_ = std::make_unique<MessagePool>(
      static_cast<std::size_t>(plan.run.number("pool_capacity")),
      QueueInfo{.name = "pool", .source = {"book", ""}, .drain = {"decoder", ""}, .group = "memory"});

  const auto only = [](auto found, const Record& instance, const char* what) {
    if (found.size() != 1) {
      throw PlanError("line " + std::to_string(instance.line) + ": " + instance.text("name") + " needs one " +
                      what);
    }
    return found.front();
  };
  for (Record record : plan.instances) {
    const std::string type = record.text("type");
    const std::string name = record.text("name");
    record.values["ticks_per_ns"] = std::to_string(ticks_per_ns_);
    if (type == "decoder") {
      auto* in = only(channels<Packet>(plan, "drain", name), record, "input");
      auto* out = only(channels<Message*>(plan, "source", name), record, "output");
      instances_.push_back(std::make_unique<Decoder>(record, symbols_, *pool_, *in, *out));
    } else if (type == "market") {
      auto* in = only(channels<Message*>(plan, "drain", name), record, "input");
      auto outs = channels<Message*>(plan, "source", name);
      if (outs.empty())
        throw PlanError("line " + std::to_string(record.line) + ": " + name + " has no output");
      instances_.push_back(std::make_unique<Market>(record, *pool_, *in, std::move(outs)));
    } else if (type == "book") {
      auto book = std::make_unique<Book>(record, *pool_, channels<Message*>(plan, "drain", name),
                                         channels<Update>(plan, "source", name));
      for (std::size_t venue = 0; venue < files.size(); ++venue) book->expect(venue, files[venue]->orders());
      instances_.push_back(std::move(book));
    } else if (type == "strategy") {
      const auto ring = rings_.find(record.text("ring", ""));
      instances_.push_back(std::make_unique<Strategy>(record, symbols_, channels<Update>(plan, "drain", name),
                                                      ring == rings_.end() ? nullptr : &ring->second, stop_));
    } else if (type != "execution") {
      throw PlanError("line " + std::to_string(record.line) + ": unknown stage type '" + type + "'");
    }
  }

  std::vector<Line> lines;
  for (std::size_t i = 0; i < plan.feeds.size(); ++i) {
    const Record& feed = plan.feeds[i];
    lines.push_back({.venue = static_cast<std::uint8_t>(i),
                     .file = files[i],
                     .out = packet_channels_.at(feed.text("queue")).get(),
                     .pacing = pacing_of(feed),
                     .trace_every = plan.run.number("trace_every", 0)});
  }
  exchange_ = std::make_unique<Exchange>(std::move(lines),
                                         static_cast<std::uint64_t>(plan.run.real("seconds", 1.0) * 1e9),
                                         plan.run.number("messages", 0), plan.run.number("spin", 0) != 0);
}

void Pipeline::wire_execution(const Plan& plan) {
  for (const Record& queue : plan.queues) {
    if (queue.text("drain_type") != "execution") continue;
    const std::string name = queue.text("name");
    const Registration registration(queue);
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    for (;;) {
      try {
        rings_.emplace(name, SharedRing<Order>::attach(segment(plan, name), registration.info()));
        break;
      } catch (const std::runtime_error&) {
        if (std::chrono::steady_clock::now() > until) throw;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    }
  }
  for (Record record : plan.instances) {
    if (record.text("type") != "execution") continue;
    record.values["ticks_per_ns"] = std::to_string(ticks_per_ns_);
    instances_.push_back(std::make_unique<Execution>(record, rings_.at(record.text("ring"))));
  }
}

Pipeline::Crew* Pipeline::crew_of(const std::string& instance) {
  for (auto& [name, crew] : crews_) {
    for (const auto* member : crew->instances) {
      if (member->name() == instance) return crew.get();
    }
  }
  return nullptr;
}

void Pipeline::staff(const Plan& plan) {
  for (const auto& instance : instances_) {
    for (const Record& record : plan.instances) {
      if (record.text("name") != instance->name()) continue;
      auto& crew = crews_[record.text("crew")];
      if (crew == nullptr) crew = std::make_unique<Crew>();
      crew->instances.push_back(instance.get());
    }
  }
  for (const Record& thread : plan.threads) {
    const auto crew = crews_.find(thread.text("crew"));
    if (crew == crews_.end()) continue;  // of the other process
    const std::string wait = thread.text("wait", "block");
    crew->second->wait = wait == "poll"     ? WaitPolicy::poll
                         : wait == "hybrid" ? WaitPolicy::hybrid
                                            : WaitPolicy::block;
    crew->second->spin_ticks =
        static_cast<std::uint64_t>(static_cast<double>(thread.number("spin_ns", 20'000)) * ticks_per_ns_);
    const std::uint64_t cpu = thread.number("cpu", UINT32_MAX);
    workers_.push_back({.crew = crew->second.get(),
                        .name = thread.text("name"),
                        .cpu = cpu == UINT32_MAX ? -1 : static_cast<int>(cpu)});
  }
  for (const auto& [name, crew] : crews_) {
    bool staffed = false;
    for (const auto& worker : workers_) staffed = staffed || worker.crew == crew.get();
    if (!staffed) throw PlanError("crew " + name + " has no thread");
  }
  // Who polls needs no waking.
  const auto signal = [this](const std::string& instance) -> EventCount* {
    Crew* const crew = crew_of(instance);
    return crew == nullptr || crew->wait == WaitPolicy::poll ? nullptr : &crew->signal;
  };
  for (const Record& queue : plan.queues) {
    const std::string name = queue.text("name");
    const auto connect = [&](auto& channels) {
      const auto found = channels.find(name);
      if (found == channels.end()) return;
      found->second->wake_consumer(signal(queue.text("drain")));
      found->second->wake_producer(signal(queue.text("source")));
    };
    connect(packet_channels_);
    connect(message_channels_);
    connect(update_channels_);
    if (role_ == Role::execution && rings_.contains(name)) {
      if (Crew* const crew = crew_of(queue.text("drain"))) crew->ring = &rings_.at(name);
    }
  }
}

void Pipeline::pause(Crew& crew, bool spun_out) {
  const auto runnable = [&] {
    for (const auto* instance : crew.instances) {
      if (instance->finished()) continue;
      if (instance->exhausted() || (instance->has_input() && instance->has_room())) return true;
    }
    return stop_.load(std::memory_order_acquire);
  };
  if (crew.wait == WaitPolicy::poll || (crew.wait == WaitPolicy::hybrid && !spun_out)) {
    spin_pause();
    return;
  }
  if (crew.ring != nullptr && crew.instances.size() == 1) {
    crew.ring->wait(kLongestSleepNs);
    return;
  }
  bool blocked = crew.ring != nullptr;  // one of several rings, and only one can be slept on
  for (const auto* instance : crew.instances)
    blocked = blocked || (instance->has_input() && !instance->has_room());
  crew.signal.wait(runnable, blocked ? kBlockedSleepNs : kLongestSleepNs);
}

void Pipeline::work(Worker& worker) {
  Crew& crew = *worker.crew;
  ::pthread_setname_np(::pthread_self(), worker.name.substr(0, 15).c_str());
  if (worker.cpu >= 0) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<unsigned>(worker.cpu), &set);
    ::sched_setaffinity(0, sizeof set, &set);  // a refusal shows in the affinity that an observer reads
  }
  const auto tid = static_cast<std::uint32_t>(::syscall(SYS_gettid));
  for (auto* instance : crew.instances) instance->stage().set_thread(tid, worker.cpu);
  std::uint64_t idle_since = 0;
  for (;;) {
    bool worked = false;
    bool all_finished = true;
    for (auto* instance : crew.instances) {
      if (instance->finished()) continue;
      all_finished = false;
      if (!instance->claim()) continue;
      worked = instance->step(kBatch) != 0 || worked;
      if (instance->exhausted()) instance->finish();
      if (crew.instances.size() > 1 || !instance->has_input()) instance->rest();
      instance->release();
    }
    if (all_finished) break;
    if (worked) {
      idle_since = 0;
      continue;
    }
    const std::uint64_t now = crew.wait == WaitPolicy::hybrid ? ticks() : 0;
    if (idle_since == 0) idle_since = now;
    pause(crew, now - idle_since > crew.spin_ticks);
  }
  crew.signal.notify();  // the others of a pool may sleep on the same end
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  const auto ns = [](const timeval& time) {
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000U +
           static_cast<std::uint64_t>(time.tv_usec) * 1000U;
  };
  worker.cpu_ns = ns(usage.ru_utime) + ns(usage.ru_stime);
  worker.voluntary_switches = static_cast<std::uint64_t>(usage.ru_nvcsw);
  worker.involuntary_switches = static_cast<std::uint64_t>(usage.ru_nivcsw);
}

void Pipeline::run() {
  CounterFile& counters = CounterFile::process();
  // Making threads is start-up: on few CPUs the first would work for a while before the last one stands.
  std::latch standing(static_cast<std::ptrdiff_t>(workers_.size()));
  std::vector<std::thread> threads;
  threads.reserve(workers_.size());
  for (auto& worker : workers_) {
    threads.emplace_back([this, &worker, &standing] {
      standing.arrive_and_wait();
      work(worker);
    });
  }
  standing.wait();
  began_ns_ = monotonic_ns();
  counters.set_phase(Phase::running);
  if (exchange_ != nullptr) {
    std::thread exchange([this] {
      ::pthread_setname_np(::pthread_self(), "exchange");
      exchange_->run();
    });
    exchange.join();
    counters.set_phase(Phase::stopping);
  }
  for (auto& thread : threads) thread.join();
  if (role_ == Role::trading) {
    for (auto& [name, ring] : rings_) ring.close();
  }
  wall_ns_ = monotonic_ns() - began_ns_;
  counters.set_phase(Phase::ended);
}

void Pipeline::stop() noexcept {
  stop_.store(true, std::memory_order_release);
  if (exchange_ != nullptr) exchange_->stop();
}

std::string Pipeline::summary() const {
  const auto number = [](const char* name, std::uint64_t value) {
    return '"' + std::string(name) + "\":" + std::to_string(value);
  };
  std::string text = "{" + number("began_ns", began_ns_) + ',' + number("wall_ns", wall_ns_) + ',' +
                     number("symbols", symbols_.count) + ",\"instances\":[";
  const char* comma = "";
  for (const auto& instance : instances_) {
    const std::string own = instance->summary();
    text += comma + std::string("{\"type\":\"") + instance->type() + "\",\"name\":\"" + instance->name() +
            "\"," + number("events", instance->stage().line().events.load()) +
            (own.empty() ? "" : "," + own) + '}';
    comma = ",";
  }
  text += "],\"threads\":[";
  comma = "";
  for (const auto& worker : workers_) {
    text += comma + std::string("{\"name\":\"") + worker.name + "\"," + number("cpu_ns", worker.cpu_ns) +
            ',' + number("voluntary_switches", worker.voluntary_switches) + ',' +
            number("involuntary_switches", worker.involuntary_switches) + '}';
    comma = ",";
  }
  text += "],\"feeds\":[";
  comma = "";
  if (exchange_ != nullptr) {
    for (const Line& line : exchange_->lines()) {
      text += comma + std::string("{") + number("venue", line.venue) + ',' + number("sent", line.sent) + ',' +
              number("dropped", line.dropped) + ',' + number("passes", line.passes) + ',' +
              number("first_drop_ns", line.first_drop_ns) + '}';
      comma = ",";
    }
    text += "],\"lateness_ns\":{" + number("p50", exchange_->lateness_ns(0.5)) + ',' +
            number("p99", exchange_->lateness_ns(0.99)) + ',' + number("max", exchange_->lateness_ns(1.0)) +
            "}}";
  } else {
    text += "]}";
  }
  return text;
}

}  // namespace latlab::pipeline
