#include "system/machine.hpp"

#include <array>
#include <cstring>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace latlab::system {

std::string hypervisor() {
#if defined(__x86_64__)
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned hypervisor_present = 1U << 31U;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & hypervisor_present) == 0) return "";
  // Leaf 4000_0000h lies beyond what __get_cpuid thinks is the maximum, so it is asked directly.
  __cpuid(0x40000000U, eax, ebx, ecx, edx);
  std::array<char, 13> name{};
  std::memcpy(name.data(), &ebx, 4);
  std::memcpy(name.data() + 4, &ecx, 4);
  std::memcpy(name.data() + 8, &edx, 4);
  return name.data();
#else
  return "";
#endif
}

bool counter_is_invariant() {
#if defined(__x86_64__)
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned invariant_tsc = 1U << 8U;
  return __get_cpuid(0x80000007U, &eax, &ebx, &ecx, &edx) != 0 && (edx & invariant_tsc) != 0;
#elif defined(__aarch64__)
  return true;
#else
  return false;
#endif
}

std::string compiler() {
#if defined(__clang__)
  return "clang " __clang_version__;
#else
  return "gcc " __VERSION__;
#endif
}

}  // namespace latlab::system
