#include "system/thread_names.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace latlab::system {

void ThreadNames::add(const bpf::NameSlot& told) {
  const auto thread = static_cast<std::int32_t>(told.pid_tgid & 0xFFFFFFFFU);
  if (thread == 0) return;  // each CPU's idle task has this number
  Since since{told.time_ns, {}};
  std::memcpy(since.name.data(), &told.first, sizeof(told.first));
  std::memcpy(since.name.data() + sizeof(told.first), &told.second, sizeof(told.second));
  std::fill(std::ranges::find(since.name, 0), since.name.end(), 0);
  std::vector<Since>& all = names_[thread];
  // The rings of the CPUs are read one after another: a later name may come before an earlier one.
  const auto behind = std::ranges::upper_bound(all, since.time_ns, {}, &Since::time_ns);
  if (behind != all.begin() && (behind - 1)->name == since.name) return;
  all.insert(behind, since);
}

ThreadName ThreadNames::of(std::int32_t thread, std::uint64_t time_ns, std::int32_t cpu) const {
  ThreadName out{};
  if (thread == 0) {
    std::snprintf(out.data(), out.size(), "swapper/%d", cpu);
    return out;
  }
  const auto found = names_.find(thread);
  if (found == names_.end()) return out;
  const std::vector<Since>& all = found->second;
  const auto behind = std::ranges::upper_bound(all, time_ns, {}, &Since::time_ns);
  return behind == all.begin() ? all.front().name : (behind - 1)->name;
}

}  // namespace latlab::system
