#include "stubs/memory.hpp"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <random>
#include <stdexcept>

#include <latlab/hardware_count.hpp>
#include "stubs/sleep.hpp"

namespace latlab::stubs {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::int64_t kFrame = 16'384;

// Chunks of one size, so that shrinking returns pages to the kernel at once.
class Heap {
 public:
  static constexpr std::int64_t kChunk = 65'536;
  Heap() = default;
  ~Heap() { shrink(0); }
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;
  void resize(std::int64_t bytes) {
    const auto wanted = static_cast<std::size_t>((bytes + kChunk - 1) / kChunk);
    while (chunks_.size() < wanted) {
      void* memory = mmap(nullptr, kChunk, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (memory == MAP_FAILED) throw std::runtime_error("the kernel gives no more memory");
      auto* bytes_of = static_cast<volatile char*>(memory);
      for (std::size_t i = 0; i < kChunk; i += kPage) bytes_of[i] = 1;
      chunks_.push_back(memory);
    }
    shrink(wanted);
  }

 private:
  void shrink(std::size_t wanted) noexcept {
    while (chunks_.size() > wanted) {
      munmap(chunks_.back(), kChunk);
      chunks_.pop_back();
    }
  }

  std::vector<void*> chunks_;
};

struct Plan {
  const std::vector<MemoryStep>* steps = nullptr;
  std::size_t next = 0;
  std::int64_t start_ns = 0;
  Heap heap;
  MemoryResult result;
  bool failed = false;
};

std::int64_t faults() noexcept {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_minflt + usage.ru_majflt;
}

// Runs steps at this depth of the stack: deeper for more, back to the caller for less.
__attribute__((noinline)) void walk(Plan& plan, std::int64_t depth_bytes) {  // NOLINT(misc-no-recursion)
  volatile char frame[kFrame];
  for (std::int64_t i = 0; i < kFrame; i += static_cast<std::int64_t>(kPage)) frame[i] = 1;
  asm volatile("" : : "r"(&frame[0]) : "memory");
  while (plan.next < plan.steps->size()) {
    const MemoryStep& step = (*plan.steps)[plan.next];
    if (step.stack_bytes > depth_bytes) {
      walk(plan, depth_bytes + kFrame);
      continue;
    }
    if (step.stack_bytes <= depth_bytes - kFrame) return;
    thread_sleeper().sleep_until(plan.start_ns + step.at_ns, SleepMode::kCorrected);
    plan.result.worst_lateness_ns =
        std::max(plan.result.worst_lateness_ns, now_ns() - plan.start_ns - step.at_ns);
    try {
      plan.heap.resize(step.heap_bytes);
    } catch (const std::runtime_error&) {
      plan.failed = true;
      plan.next = plan.steps->size();
      return;
    }
    ++plan.next;
  }
}

void* run(void* argument) {
  auto& plan = *static_cast<Plan*>(argument);
  const std::int64_t before = faults();
  plan.start_ns = now_ns();
  while (plan.next < plan.steps->size()) walk(plan, 0);
  plan.heap.resize(0);
  plan.result.wall_ns = now_ns() - plan.start_ns;
  plan.result.page_faults = faults() - before;
  return nullptr;
}

}  // namespace

CacheStub::CacheStub(std::size_t working_set_bytes, std::size_t stride_bytes, double write_fraction,
                     std::uint64_t seed)
    : writes_per_256_(static_cast<std::uint32_t>(std::clamp(write_fraction, 0.0, 1.0) * 256.0)) {
  if (stride_bytes < 16 || working_set_bytes / stride_bytes < 2) {
    throw std::invalid_argument("a cache stub needs a stride of 16 bytes or more and room for two strides");
  }
  const std::size_t step = stride_bytes / sizeof(std::uint64_t);
  const std::size_t count = working_set_bytes / stride_bytes;
  std::vector<std::uint64_t> order(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = i * step;
  std::mt19937_64 random(seed);
  std::shuffle(order.begin() + 1, order.end(), random);
  cells_.assign(count * step, 0);
  for (std::size_t i = 0; i < count; ++i) cells_[order[i]] = order[(i + 1) % count];
}

CacheResult CacheStub::run(std::int64_t accesses) noexcept {
  const auto start = now_ns();
  std::size_t at = position_;
  std::uint64_t* cells = cells_.data();
  std::uint32_t phase = phase_;
  for (std::int64_t i = 0; i < accesses; ++i) {
    phase += writes_per_256_;
    if (phase >= 256) {
      phase -= 256;
      cells[at + 1] += 1;
    }
    at = cells[at];
    asm volatile("" : "+r"(at));  // the load happens, in this order
  }
  position_ = at;
  phase_ = phase;
  return {.accesses = accesses, .wall_ns = now_ns() - start};
}

CacheResult CacheStub::run_counted(std::int64_t accesses) noexcept {
  // Most virtual machines have no such counter.
  const HardwareCount counter(Counted::cache_misses, 0, false);
  const std::int64_t before = counter.now();
  CacheResult result = run(accesses);
  if (before >= 0) result.misses = counter.now() - before;
  return result;
}

CacheResult CacheStub::run_for(std::int64_t ns) noexcept {
  CacheResult total;
  const auto start = now_ns();
  while (now_ns() - start < ns) total.accesses += run(64).accesses;
  total.wall_ns = now_ns() - start;
  return total;
}

MemoryResult run_memory_plan(const std::vector<MemoryStep>& steps) {
  Plan plan;
  plan.steps = &steps;
  std::int64_t deepest = 0;
  for (const auto& step : steps) {
    plan.result.peak_heap_bytes = std::max(plan.result.peak_heap_bytes, step.heap_bytes);
    deepest = std::max(deepest, step.stack_bytes);
  }
  plan.result.peak_stack_bytes = deepest;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  // A frame of walk() takes its array and about 200 bytes more.
  const auto stack = static_cast<std::size_t>(deepest + deepest / 16) + (1U << 20U);
  pthread_attr_setstacksize(&attributes, (stack + kPage - 1) / kPage * kPage);
  pthread_t thread{};
  const int error = pthread_create(&thread, &attributes, run, &plan);
  pthread_attr_destroy(&attributes);
  if (error != 0) throw std::runtime_error("no thread with a stack of that size can be had");
  pthread_join(thread, nullptr);
  if (plan.failed) throw std::runtime_error("the kernel gives no more memory");
  return plan.result;
}

}  // namespace latlab::stubs
