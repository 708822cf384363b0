// Threads: one. The process that measures a fixture or a C function of a shared object, or a whole command.
#include <dlfcn.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <latlab/bench_runner.hpp>

#include <cstring>
#include <utility>
#include <vector>

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX wants it declared by the program

namespace bench = latlab::bench;

namespace {

// A C function by its symbol. It is given the parameter "size" in the register where a first argument
// lies, which a function without arguments doesn't notice; what it returns is not looked at.
using Function = std::uint64_t (*)(std::uint64_t);
Function called = nullptr;
std::uint64_t argument = 0;

std::uint64_t run_function(void* /*fixture*/, std::uint64_t batch) {
  for (std::uint64_t i = 0; i < batch; ++i) {
    bench::do_not_optimize(called(argument));
    bench::clobber();
  }
  return 1;
}

const bench::Descriptor& as_descriptor(const char* name) {
  static bench::Descriptor out{bench::descriptor_version,
                               nullptr,
                               nullptr,
                               nullptr,
                               nullptr,
                               nullptr,
                               nullptr,
                               nullptr,
                               nullptr,
                               nullptr};
  out.name = name;
  out.create = [](const bench::Parameters& parameters) -> void* {
    argument = parameters.get("size", 0);
    return nullptr;
  };
  out.destroy = [](void* /*fixture*/) {};
  out.run = &run_function;
  return out;
}

// Opens an object at an address, and moves the heap by a distance, that `layout` draws. The kernel's own draw
// is off then (the parent saw to that), so that the two processes of a pair lie alike and one pair not like
// the next: where branches lie decides what the processor's tables hold of them, which is worth a tenth to a
// map's lookups.
void* open_placed(const char* path, std::uint64_t layout) {
  if (layout == 0) return dlopen(path, RTLD_NOW | RTLD_LOCAL);
  constexpr std::size_t page = 4096;
  const std::size_t gap = page * (1 + layout % 16'384);
  // Never given back: what is allocated from now on lies behind it. Below malloc's threshold, so on the heap.
  static void* const moved = std::malloc(16 * (1 + (layout >> 16U) % 4'096));
  bench::do_not_optimize(moved);
  // The kernel puts an object into the highest gap that is large enough, so all above the drawn one are
  // filled.
  const auto reserve = [](std::size_t size) {
    return mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  };
  void* const drawn = reserve(gap);
  if (drawn == MAP_FAILED) return dlopen(path, RTLD_NOW | RTLD_LOCAL);
  std::vector<std::pair<void*, std::size_t>> filled{{drawn, gap}};
  for (std::size_t size = gap; size >= page; size = size / 2 / page * page) {
    for (void* at = reserve(size); at != MAP_FAILED; at = reserve(size)) {
      if (at < drawn || filled.size() > 1'000) {
        munmap(at, size);
        break;
      }
      filled.emplace_back(at, size);
    }
  }
  void* const object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  for (const auto& [at, size] : filled) munmap(at, size);  // or they would count against the memory limit
  return object;
}

int run_object(const char* path, std::span<char*> arguments, int file) {
  const bool listed = arguments.size() == 2 && std::string_view(arguments[0]) == "--list";
  bench::Config config;
  if (!listed && !bench::parse(arguments, config)) return bench::fail(bench::exit_usage, "unknown option");
  void* const object = open_placed(path, config.layout);
  if (object == nullptr) return bench::fail(bench::exit_missing, dlerror());
  using List = const bench::Descriptor* (*)();
  const auto list = reinterpret_cast<List>(dlsym(object, "latlab_benchmarks"));
  const bench::Descriptor* first = list == nullptr ? nullptr : list();
  if (listed) {
    using Text = const bench::Words* (*)();
    const auto text = reinterpret_cast<Text>(dlsym(object, "latlab_benchmark_words"));
    return bench::list(first, text == nullptr ? nullptr : text(), file);
  }
  for (const bench::Descriptor* test = first; test != nullptr; test = test->next) {
    if (config.fixture == test->name) return bench::run_one(first, config, file);
  }
  called = reinterpret_cast<Function>(dlsym(object, config.fixture.c_str()));
  if (called == nullptr) return bench::fail(bench::exit_missing, "there is no such fixture or function");
  return bench::run_one(&as_descriptor(config.fixture.c_str()), config, file);
}

// A command's time is from just before it is started until it has been waited for.
int run_command(char** command, const bench::Config& config, int file) {
  const bench::Context context = bench::enter(config);
  bench::Outcome out;
  out.grain = bench::clock_grain();
  out.ticks.assign(config.iterations, 0);
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  constexpr bench::Costs none{};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  const char* const program = config.fixture.empty() ? command[0] : config.fixture.c_str();
  const latlab::ClockReference begin = latlab::clock_reference();
  for (std::size_t i = 0; i < config.warmup + config.iterations; ++i) {
    pid_t child = 0;
    int status = 0;
    const std::uint64_t from = latlab::ticks_ordered();
    const int error = posix_spawnp(&child, program, &actions, nullptr, command, environ);
    if (error != 0)
      return bench::fail(bench::exit_missing, std::strerror(error));  // NOLINT(concurrency-mt-unsafe)
    rusage usage{};
    while (wait4(child, &status, 0, &usage) < 0 && errno == EINTR) {
    }
    const std::uint64_t to = latlab::ticks_ordered();
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
      const std::string how = WIFEXITED(status) ? "exit status " + std::to_string(WEXITSTATUS(status))
                                                : "signal " + std::to_string(WTERMSIG(status));
      return bench::fail(bench::exit_command, ("the command ended with " + how).c_str());
    }
    if (i >= config.warmup) out.ticks[i - config.warmup] = to - from;
    if (i >= config.warmup && config.count > 0) {
      bench::Costs used{};
      used.fill(-1.0);
      bench::put_usage(used, usage);
      bench::add_difference(out.costs, none, used);
      ++out.counted;
    }
    if (i == config.warmup) first = from;
    last = to;
  }
  out.hz = latlab::ticks_hz(begin, latlab::clock_reference());
  out.measuring_ns = static_cast<std::uint64_t>(static_cast<double>(last - first) * 1e9 / out.hz);
  bench::publish(file, out, context);
  return bench::exit_ok;
}

}  // namespace

// latlab-bench object FILE OPTIONS... | latlab-bench command OPTIONS... -- CMD...
int main(int argc, char** argv) try {
  const std::span<char*> arguments{argv + 1, static_cast<std::size_t>(argc - 1)};
  const int file = bench::claim_output();
  if (arguments.size() >= 2 && std::string_view(arguments[0]) == "object") {
    return run_object(arguments[1], arguments.subspan(2), file);
  }
  if (!arguments.empty() && std::string_view(arguments[0]) == "command") {
    std::size_t dashes = 1;
    while (dashes < arguments.size() && std::string_view(arguments[dashes]) != "--") ++dashes;
    bench::Config config;
    if (dashes + 1 < arguments.size() && bench::parse(arguments.subspan(1, dashes - 1), config)) {
      return run_command(argv + 1 + dashes + 1, config, file);
    }
  }
  return bench::fail(bench::exit_usage, "this program is started by: latlab bench");
} catch (const std::exception& error) {
  return bench::fail(bench::exit_threw, error.what());
}
