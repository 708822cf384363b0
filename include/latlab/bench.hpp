// Threads: a fixture belongs to the one thread that runs it; the list of benchmarks is built before main and
// read afterwards.
//
// What a benchmark is written with. A fixture is any class that is set up by its constructor and tested by
// run():
//
//   struct Lookup {
//     explicit Lookup(const latlab::bench::Parameters& p) : book(p.get("size", 20'000)) {}
//     void set_up();                 // optional, before each iteration, not measured
//     void run();                    // measured; what it returns is kept from the optimizer and not looked
//     at
//     // static constexpr bool counts_operations = true;   // ... unless this says that it is a number of
//     // operations, the same each time, by which the times are divided
//     void tear_down();              // optional, after each iteration, not measured
//     double items_per_run() const;  // optional, for items/s; bytes_per_run() for bytes/s
//   };
//   LATLAB_BENCHMARK(Lookup)
//
// A shared object of such fixtures is run by `latlab bench run FILE.so`. A program is one, too, when one of
// its files includes latlab/bench_runner.hpp and says LATLAB_BENCHMARK_MAIN().
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <type_traits>

namespace latlab::bench {

// Makes the compiler believe that the value is read here: what computes it can't be left out. No instruction,
// besides a store where the value must lie in memory.
template <class T>
inline void do_not_optimize(const T& value) noexcept {
#if defined(__x86_64__)
  if constexpr (std::is_floating_point_v<T> && sizeof(T) <= 8) {
    asm volatile("" : : "x"(value) : "memory");
    return;
  }
#endif
  // NOLINTNEXTLINE(bugprone-branch-clone): the two differ in their constraints
  if constexpr (std::is_scalar_v<T> && !std::is_floating_point_v<T> && sizeof(T) <= sizeof(void*)) {
    asm volatile("" : : "r"(value) : "memory");
  } else {
    asm volatile("" : : "m"(value) : "memory");
  }
}

// Makes the compiler believe that the value is read and changed here: nothing is known of it afterwards, so
// a constant input can't be folded into the result.
template <class T>
  requires(!std::is_const_v<T>)
inline void do_not_optimize(T& value) noexcept {
#if defined(__x86_64__)
  if constexpr (std::is_floating_point_v<T> && sizeof(T) <= 8) {
    asm volatile("" : "+x"(value) : : "memory");
    return;
  }
#endif
  // NOLINTNEXTLINE(bugprone-branch-clone): the two differ in their constraints
  if constexpr (std::is_scalar_v<T> && !std::is_floating_point_v<T> && sizeof(T) <= sizeof(void*)) {
    asm volatile("" : "+r"(value) : : "memory");
  } else {
    asm volatile("" : "+m"(value) : : "memory");
  }
}

// Makes the compiler believe that all of memory is read and written here: pending stores are made, loads are
// made again. No instruction.
inline void clobber() noexcept {
  asm volatile("" : : : "memory");
}

struct Parameter {
  const char* name;
  const char* value;
};

// The parameters of a run, by name. Plain data, since it crosses into shared objects of other compilers.
struct Parameters {
  const Parameter* first = nullptr;
  std::size_t count = 0;

  [[nodiscard]] const char* text(const char* name, const char* otherwise) const noexcept {
    for (std::size_t i = 0; i < count; ++i) {
      if (std::strcmp(first[i].name, name) == 0) return first[i].value;
    }
    return otherwise;
  }
  [[nodiscard]] std::uint64_t get(const char* name, std::uint64_t otherwise) const noexcept {
    const char* value = text(name, nullptr);
    return value == nullptr ? otherwise : std::strtoull(value, nullptr, 0);
  }
  [[nodiscard]] std::uint64_t seed() const noexcept { return get("seed", 1); }
};

// What the runner knows of a fixture. Version 1: up to `next`; 2: as below.
struct Descriptor {
  std::uint64_t version;
  const char* name;
  void* (*create)(const Parameters& parameters);
  void (*destroy)(void* fixture);
  void (*set_up)(void* fixture);     // null where the fixture has none
  void (*tear_down)(void* fixture);  // null where the fixture has none
  // `batch` runs, one after another; returns the operations of one of them, or `uneven` if they differ.
  std::uint64_t (*run)(void* fixture, std::uint64_t batch);
  const Descriptor* next;
  double (*items)(void* fixture);  // of one run; null where the fixture doesn't say
  double (*bytes)(void* fixture);
};
inline constexpr std::uint64_t descriptor_version = 2;
inline constexpr std::uint64_t uneven = ~std::uint64_t{0};
static_assert(sizeof(Descriptor) == 10 * sizeof(void*) || sizeof(void*) != 8);

// Hidden: a shared object's list must not be merged with that of the program that loads it.
[[gnu::visibility("hidden")]] inline const Descriptor* first_benchmark = nullptr;

// A number that run() returns is a result like any other, unless the fixture says that it counts operations.
template <class Fixture>
constexpr bool counts_operations() {
  if constexpr (requires { Fixture::counts_operations; }) return Fixture::counts_operations;
  return false;
}

template <class Fixture>
std::uint64_t run_batch(void* fixture, std::uint64_t batch) {
  auto& it = *static_cast<Fixture*>(fixture);
  std::uint64_t operations = 1;
  for (std::uint64_t i = 0; i < batch; ++i) {
    if constexpr (std::is_void_v<decltype(it.run())>) {
      it.run();
    } else if constexpr (!counts_operations<Fixture>()) {
      do_not_optimize(it.run());
    } else {
      const auto now = static_cast<std::uint64_t>(it.run());
      if (i > 0 && now != operations) operations = uneven;
      if (operations != uneven) operations = now;
    }
    clobber();  // or the compiler may do in one go what runs have in common
  }
  return operations;
}

template <class Fixture>
void* create(const Parameters& parameters) {
  if constexpr (std::constructible_from<Fixture, const Parameters&>) {
    return new Fixture(parameters);
  } else {
    return new Fixture();
  }
}

template <class Fixture>
Descriptor describe(const char* name) {
  Descriptor out{descriptor_version,
                 name,
                 &create<Fixture>,
                 [](void* fixture) { delete static_cast<Fixture*>(fixture); },
                 nullptr,
                 nullptr,
                 &run_batch<Fixture>,
                 nullptr,
                 nullptr,
                 nullptr};
  if constexpr (requires(Fixture& it) { it.set_up(); }) {
    out.set_up = [](void* fixture) { static_cast<Fixture*>(fixture)->set_up(); };
  }
  if constexpr (requires(Fixture& it) { it.tear_down(); }) {
    out.tear_down = [](void* fixture) { static_cast<Fixture*>(fixture)->tear_down(); };
  }
  if constexpr (requires(Fixture& it) { static_cast<double>(it.items_per_run()); }) {
    out.items = [](void* fixture) {
      return static_cast<double>(static_cast<Fixture*>(fixture)->items_per_run());
    };
  }
  if constexpr (requires(Fixture& it) { static_cast<double>(it.bytes_per_run()); }) {
    out.bytes = [](void* fixture) {
      return static_cast<double>(static_cast<Fixture*>(fixture)->bytes_per_run());
    };
  }
  return out;
}

struct Registrar {
  explicit Registrar(Descriptor& descriptor) noexcept {
    descriptor.next = first_benchmark;
    first_benchmark = &descriptor;
  }
};

// The author's words for the report. Version 1: as below.
struct Words {
  const char* key;
  const char* text;
  const Words* next;
};
[[gnu::visibility("hidden")]] inline const Words* first_words = nullptr;

struct WordsRegistrar {
  explicit WordsRegistrar(Words& words) noexcept {
    words.next = first_words;
    first_words = &words;
  }
};

}  // namespace latlab::bench

// How the runner finds a shared object's benchmarks.
extern "C" [[gnu::visibility("default"), gnu::used]] inline const latlab::bench::Descriptor*
latlab_benchmarks() {
  return latlab::bench::first_benchmark;
}
extern "C" [[gnu::visibility("default"), gnu::used]] inline const latlab::bench::Words*
latlab_benchmark_words() {
  return latlab::bench::first_words;
}

#define LATLAB_BENCHMARK_JOIN2(a, b) a##b
#define LATLAB_BENCHMARK_JOIN(a, b) LATLAB_BENCHMARK_JOIN2(a, b)
#define LATLAB_BENCHMARK_AT(count, name, ...)                                         \
  static latlab::bench::Descriptor LATLAB_BENCHMARK_JOIN(latlab_descriptor_, count) = \
      latlab::bench::describe<__VA_ARGS__>(name);                                     \
  static const latlab::bench::Registrar LATLAB_BENCHMARK_JOIN(                        \
      latlab_registrar_, count){LATLAB_BENCHMARK_JOIN(latlab_descriptor_, count)};
// LATLAB_BENCHMARK_NAMED("name", Fixture): offers a fixture to the runner under a name.
#define LATLAB_BENCHMARK_NAMED(name, ...) LATLAB_BENCHMARK_AT(__COUNTER__, name, __VA_ARGS__)
// LATLAB_BENCHMARK(Fixture): the same under its own name.
#define LATLAB_BENCHMARK(...) LATLAB_BENCHMARK_AT(__COUNTER__, #__VA_ARGS__, __VA_ARGS__)
#define LATLAB_BENCHMARK_WORDS_AT(count, key, text)                                            \
  static latlab::bench::Words LATLAB_BENCHMARK_JOIN(latlab_words_, count){key, text, nullptr}; \
  static const latlab::bench::WordsRegistrar LATLAB_BENCHMARK_JOIN(                            \
      latlab_words_registrar_, count){LATLAB_BENCHMARK_JOIN(latlab_words_, count)};
// LATLAB_BENCHMARK_REPORT("why", "..."): what the report says to one of its questions in the author's own
// words: context, problem, why, weakness, inputs.
#define LATLAB_BENCHMARK_REPORT(key, text) LATLAB_BENCHMARK_WORDS_AT(__COUNTER__, key, text)
