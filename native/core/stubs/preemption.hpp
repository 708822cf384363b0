// Threads: a SwitchFlag belongs to the thread that arms it; nothing is shared.
//
// Says, without a system call, whether this thread was switched out since the flag was armed. The kernel
// looks at rseq_cs whenever it returns to a thread that was preempted, migrated or signalled, and clears it
// when the instruction pointer lies outside the critical section that it names (rseq(2), kernel/rseq.c). A
// section of length zero is always outside: the pointer is a flag that a context switch takes down, and that
// costs one store to raise. A timer tick that resumes the same thread leaves it up, which a gap between two
// counter readings can't tell.
#pragma once

#include <cstdint>

#if defined(__x86_64__) && defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 35)
#define LATLAB_HAS_RSEQ 1
#include <sys/rseq.h>
#endif
#endif

namespace latlab::stubs {

#if defined(LATLAB_HAS_RSEQ)
namespace detail {
// The kernel wants the signature in the four bytes before the abort address. It never jumps there.
inline constexpr std::uint32_t kSignature[2] = {RSEQ_SIG, 0};
inline const rseq_cs kNeverInside{0, 0, 0, 0, reinterpret_cast<std::uint64_t>(&kSignature[1])};
}  // namespace detail
#endif

class SwitchFlag {
 public:
  // False where the C library registered no rseq area: then only gaps between readings tell.
  static bool available() noexcept {
#if defined(LATLAB_HAS_RSEQ)
    return __rseq_size != 0;
#else
    return false;
#endif
  }

  void arm() noexcept {
#if defined(LATLAB_HAS_RSEQ)
    if (available()) *slot() = reinterpret_cast<std::uint64_t>(&detail::kNeverInside);
#endif
  }

  // True once the kernel has resumed this thread after a switch (or a signal).
  [[nodiscard]] bool down() const noexcept {
#if defined(LATLAB_HAS_RSEQ)
    return available() && *slot() == 0;
#else
    return false;
#endif
  }

  void disarm() noexcept {
#if defined(LATLAB_HAS_RSEQ)
    if (available()) *slot() = 0;
#endif
  }

 private:
#if defined(LATLAB_HAS_RSEQ)
  // volatile: the kernel writes it behind the compiler's back.
  static volatile std::uint64_t* slot() noexcept {
    auto* area =
        reinterpret_cast<struct rseq*>(static_cast<char*>(__builtin_thread_pointer()) + __rseq_offset);
    return reinterpret_cast<volatile std::uint64_t*>(&area->rseq_cs);
  }
#endif
};

}  // namespace latlab::stubs
