// Threads: `Types` is a value of one owner; `scheduler` may be called by any thread.
//
// What this kernel's types are, by the description that it carries with it (BTF,
// Documentation/bpf/btf.rst): only what BPF programs on the kernel's own tracepoints need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace latlab::system::btf {

class Types {
 public:
  // The bytes of /sys/kernel/btf/vmlinux. Of bytes that are none, or are cut off, nothing is found.
  explicit Types(std::vector<std::uint8_t> bytes);

  // Where a structure has a member, by its path ("thread_info.cpu"), also inside of members without a name;
  // nothing if there is none, or it is a bit field.
  std::optional<std::uint32_t> offset(std::string_view structure, std::string_view path) const;
  // The number of the type that the kernel makes for each tracepoint, or 0.
  std::uint32_t tracepoint(std::string_view name) const;
  // What the tracepoint of this number passes, a letter each: a task (t), another pointer (p), a number (i),
  // anything else (?).
  std::string arguments(std::uint32_t tracepoint) const;

 private:
  struct Type {
    std::uint32_t name, info, size;  // `size` is another type's number, where the kind refers to one
  };
  std::size_t count() const { return starts_.size(); }
  Type type(std::uint32_t number) const;
  std::uint32_t word(std::size_t at) const;
  std::string_view text(std::uint32_t at) const;
  std::uint32_t resolved(std::uint32_t number) const;
  bool named(std::uint32_t at, std::string_view name) const;
  std::uint32_t find(std::uint32_t kind, std::string_view before, std::string_view name) const;
  std::optional<std::uint32_t> member(std::uint32_t structure, std::string_view path, int depth) const;

  std::vector<std::uint8_t> bytes_;
  std::vector<std::size_t> starts_;  // of each type, by its number; there is no type 0
  std::size_t strings_ = 0, strings_end_ = 0;
};

// Of `task_struct`, in bytes, and the tracepoints' types; of `sock`, 0 where it isn't told, and tracepoints
// that pass a socket are none of them then.
struct Scheduler {
  std::uint32_t pid = 0, tgid = 0, comm = 0, prio = 0, exit_state = 0, jobctl = 0, cpu = 0;
  std::uint32_t family = 0, protocol = 0;
  struct Tracepoint {
    std::uint32_t type;
    std::string arguments;
  };
  std::map<std::string, Tracepoint, std::less<>> tracepoints;
};

// Of this kernel, read once; nullptr where it doesn't tell, or a task has other members.
const Scheduler* scheduler();

}  // namespace latlab::system::btf
