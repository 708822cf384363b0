// Threads: every function may be called from any thread at any time; none keeps state.
#pragma once

#include <string>

namespace latlab::system {

// The hypervisor by the name that it gives itself ("KVMKVMKVM", "Microsoft Hv"); empty on bare metal, or
// where the architecture has no way to ask.
std::string hypervisor();

// Whether the time-stamp counter ticks at one rate whatever the frequency or sleep state (CPUID 8000_0007h,
// EDX bit 8; Intel SDM vol. 3, 18.17.1). True on aarch64, whose generic timer is so by definition.
bool counter_is_invariant();

// What built this code.
std::string compiler();

}  // namespace latlab::system
