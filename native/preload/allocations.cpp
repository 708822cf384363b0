// Threads: any; the two counters are relaxed atomics.
//
// Preloaded (LD_PRELOAD) into a process that counts and times nothing: how often and how much it allocates.
// glibc's own functions do the work, by the names that it exports beside the standard ones.
#include <atomic>
#include <cstddef>
#include <cstdint>

extern "C" {
void* __libc_malloc(std::size_t size);                        // NOLINT(bugprone-reserved-identifier)
void* __libc_calloc(std::size_t count, std::size_t size);     // NOLINT(bugprone-reserved-identifier)
void* __libc_realloc(void* old, std::size_t size);            // NOLINT(bugprone-reserved-identifier)
void* __libc_memalign(std::size_t alignment, std::size_t n);  // NOLINT(bugprone-reserved-identifier)
}

namespace {

std::atomic<std::uint64_t> count{0};
std::atomic<std::uint64_t> bytes{0};

void note(std::size_t size) noexcept {
  count.fetch_add(1, std::memory_order_relaxed);
  bytes.fetch_add(size, std::memory_order_relaxed);
}

}  // namespace

extern "C" {

[[gnu::visibility("default")]] void latlab_allocations_so_far(std::uint64_t* count_and_bytes) {
  count_and_bytes[0] = count.load(std::memory_order_relaxed);
  count_and_bytes[1] = bytes.load(std::memory_order_relaxed);
}

[[gnu::visibility("default")]] void* malloc(std::size_t size) {
  note(size);
  return __libc_malloc(size);
}
[[gnu::visibility("default")]] void* calloc(std::size_t number, std::size_t size) {
  note(number * size);
  return __libc_calloc(number, size);
}
[[gnu::visibility("default")]] void* realloc(void* old, std::size_t size) {
  note(size);
  return __libc_realloc(old, size);
}
[[gnu::visibility("default")]] void* aligned_alloc(std::size_t alignment, std::size_t size) {
  note(size);
  return __libc_memalign(alignment, size);
}
[[gnu::visibility("default")]] int posix_memalign(void** out, std::size_t alignment, std::size_t size) {
  note(size);
  *out = __libc_memalign(alignment, size);
  return *out == nullptr ? 12 : 0;  // ENOMEM
}
}
