// Threads: everything runs on the main thread of a process of its own.
//
// One process measures one side of a benchmark once: it sets itself up (processor, scheduling, memory),
// constructs the fixture, warms up, measures, and writes one line of JSON and the raw ticks to what was its
// standard output. `latlab bench` starts such processes; a program of fixtures becomes one by
// LATLAB_BENCHMARK_MAIN().
#pragma once

#include <latlab/bench.hpp>
#include <latlab/bench_counts.hpp>
#include <latlab/bench_loop.hpp>

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <exception>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace latlab::bench {

// Found in a file, it tells `latlab bench` that the program speaks this protocol.
[[gnu::used]] inline const char program_marker[] = "latlab-bench-program 1";

// How the process ends; `latlab bench` turns each into a sentence.
enum Exit : int {
  exit_ok = 0,
  exit_usage = 2,
  exit_threw = 10,
  exit_uneven = 11,
  exit_affinity = 12,
  exit_memory = 13,
  exit_missing = 14,
  exit_command = 16,
  exit_peer = 17,
};

struct Config {
  std::string fixture;  // of a command: the file that stands for its program; empty: its first word
  std::vector<Parameter> parameters;
  std::size_t iterations = 100;
  std::size_t warmup = 10;
  std::uint64_t batch = 0;  // 0: find it
  int cpu = -1;
  int priority = 0;  // of SCHED_FIFO; 0: leave the scheduling alone
  bool lock = false;
  std::uint64_t memory_bytes = 0;
  std::uint64_t layout = 0;  // where an object and its data come to lie; 0: wherever the kernel puts them
  std::uint64_t count = 0;   // calls whose costs are counted, instead of measuring their times
  bool cold = false;         // whether the caches are emptied before each iteration
  Turns turns;
};

// What the process could bring about of what was asked; the rest is said, and not an error.
struct Context {
  bool pinned = false;
  bool fifo = false;
  bool locked = false;
  bool placed = false;  // by Config::layout
};

// Whether other threads than this one have run in this process, those that have ended included.
inline bool had_threads() noexcept {
  // One that only spins neither waits nor, with locked memory, faults: then it is there still, or the
  // processor time that it had is more than this one's, which is read later.
  struct stat tasks{};
  if (stat("/proc/self/task", &tasks) == 0 && tasks.st_nlink > 3) return true;
  const auto used = [](clockid_t clock) {
    timespec at{};
    return clock_gettime(clock, &at) == 0 ? std::int64_t{at.tv_sec} * 1'000'000'000 + at.tv_nsec : 0;
  };
  const std::int64_t process = used(CLOCK_PROCESS_CPUTIME_ID);
  if (process > used(CLOCK_THREAD_CPUTIME_ID)) return true;
  rusage all{};
  rusage own{};
  if (getrusage(RUSAGE_SELF, &all) != 0 || getrusage(RUSAGE_THREAD, &own) != 0) return false;
  return all.ru_minflt > own.ru_minflt || all.ru_nvcsw > own.ru_nvcsw;
}

// Operations that are timed one by one for each iteration of a batch of so many: a batch's mean hides the one
// that was slow. They take an eighth of a batch's time or less, unless a batch has fewer than eight.
inline std::size_t singles_of(std::uint64_t batch, std::size_t iterations) noexcept {
  if (batch <= 1 || iterations == 0) return 0;
  const std::uint64_t wanted = std::clamp<std::uint64_t>(batch / 8, 1, 32);
  return std::min<std::uint64_t>(wanted, std::max<std::uint64_t>(1, 8192 / iterations));
}

inline Context enter(const Config& config) noexcept {
  Context out;
  if (config.memory_bytes != 0) {
    const rlimit limit{config.memory_bytes, config.memory_bytes};
    setrlimit(RLIMIT_AS, &limit);
  }
  if (config.cpu >= 0) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(config.cpu, &set);
    cpu_set_t back;
    CPU_ZERO(&back);
    sched_setaffinity(0, sizeof set, &set);
    out.pinned = sched_getaffinity(0, sizeof back, &back) == 0 && CPU_EQUAL(&set, &back) != 0;
  }
  if (config.priority > 0) {
    const sched_param parameters{.sched_priority = config.priority};
    sched_setscheduler(0, SCHED_FIFO, &parameters);
  }
  // Read back, since what was asked for may have been refused, and more may have been inherited.
  out.fifo = (sched_getscheduler(0) & ~SCHED_RESET_ON_FORK) == SCHED_FIFO;
  out.placed = config.layout != 0 && (personality(0xffffffff) & ADDR_NO_RANDOMIZE) != 0;
  if (config.lock) out.locked = mlockall(MCL_CURRENT | MCL_FUTURE) == 0;
  return out;
}

struct Outcome {
  std::vector<std::uint64_t> ticks;    // of each iteration, a whole batch
  std::vector<std::uint64_t> singles;  // of operations between the batches, one by one
  bool threads = false;                // whether the fixture started some
  std::uint64_t operations = 1;        // of one run
  std::uint64_t batch = 1;
  double hz = 0.0;
  std::uint64_t measuring_ns = 0;  // from the first to the last iteration, the other side's turns included
  ClockGrain grain;
  double items = 0.0;  // of one run; 0 where the fixture doesn't say
  double bytes = 0.0;
  std::uint64_t counted = 0;  // calls that `costs` are of
  Costs costs{};
};

// Measures a fixture. Throws what the fixture throws; `operations` is `uneven` where run() didn't always
// return the same count.
inline Outcome measure(const Descriptor& test, const Config& config) {
  Outcome out;
  out.grain = clock_grain();
  const Parameters parameters{config.parameters.data(), config.parameters.size()};
  struct Owner {
    const Descriptor& test;
    void* fixture;
    ~Owner() { test.destroy(fixture); }
  } const owner{test, test.create(parameters)};
  void* const fixture = owner.fixture;
  if (test.version >= 2 && test.items != nullptr) out.items = test.items(fixture);
  if (test.version >= 2 && test.bytes != nullptr) out.bytes = test.bytes(fixture);
  const bool prepares = test.set_up != nullptr || test.tear_down != nullptr || config.cold;
  std::vector<Evictor> evictor(config.cold ? 1 : 0);

  bool even = true;
  std::uint64_t operations = 0;
  const auto run = [&](std::uint64_t batch) {
    const std::uint64_t now = test.run(fixture, batch);
    if (operations == 0) operations = now;
    even = even && now == operations;
    return even;
  };
  const auto set_up = [&] {
    if (test.set_up != nullptr) test.set_up(fixture);
    for (Evictor& evict : evictor) evict();
    return true;
  };
  const auto tear_down = [&] {
    if (test.tear_down != nullptr) test.tear_down(fixture);
    return true;
  };
  const auto once = [&](std::uint64_t batch) {
    set_up();
    run(batch);
    tear_down();
  };

  // A batch would hide all but the first of its runs from set_up().
  out.batch = prepares ? 1 : config.batch;
  once(1);
  if (out.batch == 0) out.batch = find_batch(run, out.grain.quantum_ticks);
  out.ticks.assign(config.iterations, 0);  // written, so its pages are there
  for (std::size_t i = 0; i < config.warmup && even; ++i) once(out.batch);

  if (config.count > 0) {
    const CostReader reader;
    const std::uint64_t group = prepares ? 1 : config.count;  // set-up isn't counted either
    for (; out.counted < config.count && even; out.counted += group) {
      set_up();
      const Costs before = reader.now();
      run(group);
      add_difference(out.costs, before, reader.now());
      tear_down();
    }
  }
  const ClockReference begin = clock_reference();
  const std::size_t each = singles_of(out.batch, config.iterations);
  out.singles.assign(each * config.iterations, 0);
  std::size_t single = 0;
  const auto part = [&](std::uint64_t* to, std::size_t count) {
    if (prepares)
      return measure_with_setup(to, count, set_up, [&](std::size_t) { return run(1); }, tear_down);
    const std::size_t finished = measure_back_to_back(to, count, [&](std::size_t) { return run(out.batch); });
    for (std::size_t i = 0; i < each * finished; ++i) {
      const std::uint64_t from = stamp();
      run(1);
      out.singles[single++] = stamp() - from;
    }
    return finished;
  };
  const std::size_t finished =
      measure_in_turns(config.turns, out.ticks.data(), config.iterations, [&] { once(out.batch); }, part);
  out.ticks.resize(finished);
  out.singles.resize(single);
  out.threads = had_threads();
  // A rate over a very short interval would carry the uncertainty of its ends.
  ClockReference end = clock_reference();
  out.measuring_ns = end.ns - begin.ns;
  while (end.ns - begin.ns < 200'000) end = clock_reference();
  out.hz = ticks_hz(begin, end);
  out.operations = even && operations != uneven ? operations : uneven;
  return out;
}

inline void write_all(int file, const void* data, std::size_t size) noexcept {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t done = write(file, at, size);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return;
    at += done;
    size -= static_cast<std::size_t>(done);
  }
}

inline void publish(int file, const Outcome& outcome, const Context& context) {
  char counted[512] = "";
  if (outcome.counted > 0) {
    int at = std::snprintf(counted, sizeof counted, ",\"counted\":%llu,\"costs\":[",
                           static_cast<unsigned long long>(outcome.counted));
    for (std::size_t i = 0; i < costs; ++i) {
      at += std::snprintf(counted + at, sizeof counted - static_cast<std::size_t>(at), "%s%.17g",
                          i == 0 ? "" : ",", outcome.costs[i]);
    }
    std::snprintf(counted + at, sizeof counted - static_cast<std::size_t>(at), "]");
  }
  char head[1280];
  const int length = std::snprintf(
      head, sizeof head,
      "{\"latlab_bench\":1,\"iterations\":%zu,\"batch\":%llu,\"operations\":%llu,\"hz\":%.17g,"
      "\"quantum_ticks\":%llu,\"read_ticks\":%.17g,\"measuring_ns\":%llu,\"pinned\":%s,\"fifo\":%s,"
      "\"locked\":%s,\"placed\":%s,\"threads\":%s,\"singles\":%zu,\"items\":%.17g,\"bytes\":%.17g%s}\n",
      outcome.ticks.size(), static_cast<unsigned long long>(outcome.batch),
      static_cast<unsigned long long>(outcome.operations), outcome.hz,
      static_cast<unsigned long long>(outcome.grain.quantum_ticks), outcome.grain.read_ticks,
      static_cast<unsigned long long>(outcome.measuring_ns), context.pinned ? "true" : "false",
      context.fifo ? "true" : "false", context.locked ? "true" : "false", context.placed ? "true" : "false",
      outcome.threads ? "true" : "false", outcome.singles.size(), outcome.items, outcome.bytes, counted);
  write_all(file, head, static_cast<std::size_t>(length));
  write_all(file, outcome.ticks.data(), outcome.ticks.size() * sizeof(std::uint64_t));
  write_all(file, outcome.singles.data(), outcome.singles.size() * sizeof(std::uint64_t));
}

// From here on what the fixture prints goes to standard error, and the results alone to standard output.
inline int claim_output() noexcept {
  const int file = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  dup2(STDERR_FILENO, STDOUT_FILENO);
  return file;
}

// Reads the options that `latlab bench` gives; false on one that is unknown.
inline bool parse(std::span<char*> arguments, Config& config) {
  for (std::size_t i = 0; i + 1 < arguments.size(); i += 2) {
    const std::string_view name = arguments[i];
    char* const value = arguments[i + 1];
    if (name == "--fixture") {
      config.fixture = value;
    } else if (name == "--iterations") {
      config.iterations = std::strtoull(value, nullptr, 10);
    } else if (name == "--warmup") {
      config.warmup = std::strtoull(value, nullptr, 10);
    } else if (name == "--batch") {
      config.batch = std::strtoull(value, nullptr, 10);
    } else if (name == "--cpu") {
      config.cpu = static_cast<int>(std::strtol(value, nullptr, 10));
    } else if (name == "--fifo") {
      config.priority = static_cast<int>(std::strtol(value, nullptr, 10));
    } else if (name == "--lock") {
      config.lock = *value == '1';
    } else if (name == "--turn") {
      config.turns.length = std::strtoull(value, nullptr, 10);
    } else if (name == "--unmeasured") {
      config.turns.unmeasured = std::strtoull(value, nullptr, 10);
    } else if (name == "--peer") {
      config.turns.peer = static_cast<int>(std::strtol(value, nullptr, 10));
    } else if (name == "--first") {
      config.turns.first = *value == '1';
    } else if (name == "--memory") {
      config.memory_bytes = std::strtoull(value, nullptr, 10);
    } else if (name == "--count") {
      config.count = std::strtoull(value, nullptr, 10);
    } else if (name == "--cold") {
      config.cold = *value == '1';
    } else if (name == "--layout") {
      config.layout = std::strtoull(value, nullptr, 10);
    } else if (name == "--param") {
      char* const equals = std::strchr(value, '=');
      if (equals == nullptr) return false;
      *equals = '\0';
      config.parameters.push_back({value, equals + 1});
    } else {
      return false;
    }
  }
  return arguments.size() % 2 == 0;
}

inline int fail(Exit code, const char* what) noexcept {
  std::fprintf(stderr, "%s\n", what);
  return code;
}

// Measures one fixture of a list and publishes the result; returns the exit code.
inline int run_one(const Descriptor* first, const Config& config, int file) {
  const Descriptor* test = first;
  while (test != nullptr && config.fixture != test->name) test = test->next;
  if (test == nullptr) return fail(exit_missing, "there is no such fixture");
  if (test->version == 0 || test->version > descriptor_version)
    return fail(exit_missing, "built with another version of bench.hpp");
  const Context context = enter(config);
  cpu_set_t before;
  CPU_ZERO(&before);
  sched_getaffinity(0, sizeof before, &before);
  const int policy = sched_getscheduler(0);
  try {
    const Outcome outcome = measure(*test, config);
    cpu_set_t after;
    CPU_ZERO(&after);
    sched_getaffinity(0, sizeof after, &after);
    if (CPU_EQUAL(&before, &after) == 0) return fail(exit_affinity, "the fixture changed its own affinity");
    if (sched_getscheduler(0) != policy) return fail(exit_affinity, "the fixture changed its own scheduling");
    if (outcome.operations == uneven) return fail(exit_uneven, "run() returned different counts");
    if (outcome.ticks.size() != config.iterations) return fail(exit_peer, "the other side has ended");
    publish(file, outcome, context);
  } catch (const std::bad_alloc&) {
    return fail(exit_memory, "the memory limit was reached");
  } catch (const std::exception& error) {
    return fail(exit_threw, error.what());
  } catch (...) {
    return fail(exit_threw, "something that is not a std::exception");
  }
  return exit_ok;
}

inline std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) out += c;
    if (c == '\n') out += "\\n";
  }
  return out + '"';
}

inline int list(const Descriptor* first, const Words* words, int file) {
  std::string out = "{\"latlab_bench\":1,\"fixtures\":[";
  for (const Descriptor* test = first; test != nullptr; test = test->next) {
    out += (test == first ? "" : ",") + quoted(test->name);
  }
  out += "],\"report\":{";
  for (const Words* at = words; at != nullptr; at = at->next) {
    out += (at == words ? "" : ",") + quoted(at->key) + ':' + quoted(at->text);
  }
  out += "}}\n";
  write_all(file, out.data(), out.size());
  return exit_ok;
}

// The main function of a program of fixtures: `--list 1`, or one measurement.
inline int main(const Descriptor* first, const Words* words, std::span<char*> arguments) {
  const int file = claim_output();
  if (arguments.size() == 2 && std::string_view(arguments[0]) == "--list") return list(first, words, file);
  Config config;
  if (!parse(arguments, config)) return fail(exit_usage, "run me by: latlab bench run PROGRAM");
  return run_one(first, config, file);
}

}  // namespace latlab::bench

#define LATLAB_BENCHMARK_MAIN()                                                 \
  int main(int argc, char** argv) {                                             \
    if (latlab::bench::program_marker[0] == '\0') return 1;                     \
    return latlab::bench::main(latlab_benchmarks(), latlab_benchmark_words(),   \
                               {argv + 1, static_cast<std::size_t>(argc - 1)}); \
  }
