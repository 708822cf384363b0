// Threads: one thread owns a block.
//
// Memory that is read at random: asked for ahead, in huge pages, and touched only where it is used.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <memory_resource>
#include <new>
#include <utility>

namespace latlab::market {

// Ask for the cache line of an address that is written soon.
inline void prefetch_line(const void* at) noexcept {
  __builtin_prefetch(at, 1);
  // GCC takes a function that does nothing but prefetch for one without effects and drops its calls (seen
  // with 12.2: no prefetch was left in the program); an empty volatile statement is an effect.
  asm volatile("");
}

namespace detail {
// An allocator of huge pages: a market's books are read at random, and would take a page of the TLB each.
template <class T>
struct HugePages {
  using value_type = T;
  static constexpr std::size_t kPage = 1U << 21;

  HugePages() = default;
  template <class U>
  explicit(false) HugePages(const HugePages<U>&) noexcept {}

  [[nodiscard]] T* allocate(std::size_t count) {
    // What is less than half of a page would only fill it with zeros.
    if (count * sizeof(T) < kPage / 2) return std::allocator<T>().allocate(count);
    const std::size_t bytes = (count * sizeof(T) + kPage - 1) / kPage * kPage;
    void* at = std::aligned_alloc(kPage, bytes);
    if (at == nullptr) throw std::bad_alloc();
    ::madvise(at, bytes, MADV_HUGEPAGE);  // advice: without it the books are only slower
    return static_cast<T*>(at);
  }
  void deallocate(T* at, std::size_t count) noexcept {
    if (count * sizeof(T) < kPage / 2) {
      std::allocator<T>().deallocate(at, count);
    } else {
      std::free(at);
    }
  }
  friend bool operator==(const HugePages&, const HugePages&) = default;
};

// Where a pool gets its blocks: huge pages, given back together.
class HugeBlocks final : public std::pmr::memory_resource {
  void* do_allocate(std::size_t bytes, std::size_t) override {
    return HugePages<std::byte>().allocate(bytes);
  }
  void do_deallocate(void* at, std::size_t bytes, std::size_t) override {
    HugePages<std::byte>().deallocate(static_cast<std::byte*>(at), bytes);
  }
  [[nodiscard]] bool do_is_equal(const memory_resource& other) const noexcept override {
    return this == &other;
  }
};

// Zeroed memory whose pages cost nothing before they are touched.
class LazyZeros {
 public:
  LazyZeros() = default;
  explicit LazyZeros(std::size_t words) : words_(words) {
    void* at = ::mmap(nullptr, words * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<std::uint64_t*>(at);
  }
  LazyZeros(LazyZeros&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), words_(std::exchange(other.words_, 0)) {}
  LazyZeros& operator=(LazyZeros&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(words_, other.words_);
    return *this;
  }
  LazyZeros(const LazyZeros&) = delete;
  LazyZeros& operator=(const LazyZeros&) = delete;
  ~LazyZeros() {
    if (data_ != nullptr) ::munmap(data_, words_ * 8);
  }
  [[nodiscard]] std::uint64_t* data() const noexcept { return data_; }

 private:
  std::uint64_t* data_ = nullptr;
  std::size_t words_ = 0;
};
}  // namespace detail

}  // namespace latlab::market
