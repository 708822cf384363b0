#include "system/stack_events.hpp"

#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <ctime>
#include <system_error>

namespace latlab::system {
namespace {

#if defined(__x86_64__)
// The kernel's numbers (asm/perf_regs.h) in the order of the DWARF numbering: rax rdx rcx rbx rsi rdi rbp rsp
// r8..r15 and the pc.
constexpr std::array<unsigned, kStackRegisters> kKernelRegister{0,  3,  2,  1,  4,  5,  6,  7, 16,
                                                                17, 18, 19, 20, 21, 22, 23, 8};
#elif defined(__aarch64__)
constexpr std::array<unsigned, kStackRegisters> kKernelRegister = [] {
  std::array<unsigned, kStackRegisters> all{};
  for (unsigned i = 0; i < kStackRegisters; ++i) all[i] = i;
  return all;
}();
#else
constexpr std::array<unsigned, 1> kKernelRegister{};
#endif

constexpr std::uint64_t register_mask() {
  std::uint64_t mask = 0;
  for (const unsigned one : kKernelRegister) mask |= std::uint64_t{1} << one;
  return kStackRegisters == 0 ? 0 : mask;
}

}  // namespace

// The kernel writes the registers that are sampled by rising number.
unsigned place_of(unsigned dwarf_register) {
  const unsigned kernel_register = kKernelRegister[dwarf_register];
  const std::uint64_t below = register_mask() & ((std::uint64_t{1} << kernel_register) - 1);
  return static_cast<unsigned>(__builtin_popcountll(below));
}

perf_event_attr attributes_of(const StackRequest& request, std::uint64_t config) {
  perf_event_attr attributes{};
  attributes.size = sizeof(attributes);
  attributes.type = PERF_TYPE_SOFTWARE;
  attributes.config = config;
  attributes.sample_type = std::uint64_t{PERF_SAMPLE_IDENTIFIER} + PERF_SAMPLE_TID + PERF_SAMPLE_TIME +
                           PERF_SAMPLE_REGS_USER + PERF_SAMPLE_STACK_USER;
  attributes.sample_regs_user = register_mask();
  attributes.sample_stack_user = request.stack_bytes;
  attributes.disabled = 1;
  attributes.exclude_idle = 1;
  attributes.use_clockid = 1;
  attributes.clockid = CLOCK_MONOTONIC;
  attributes.sample_id_all = 1;
  attributes.watermark = 1;
  attributes.wakeup_watermark = static_cast<std::uint32_t>(request.ring_bytes / 3);
  return attributes;
}

int open_event(perf_event_attr& attributes, int cpu) {
  return static_cast<int>(syscall(SYS_perf_event_open, &attributes, -1, cpu, -1,
                                  static_cast<unsigned long>(PERF_FLAG_FD_CLOEXEC)));
}

void fail(int error, const std::string& what) {
  throw std::system_error(error, std::generic_category(), what);
}

std::uint64_t id_of(int descriptor) {
  std::uint64_t id = 0;
  if (ioctl(descriptor, PERF_EVENT_IOC_ID, &id) != 0) fail(errno, "the event's number");
  return id;
}

}  // namespace latlab::system
