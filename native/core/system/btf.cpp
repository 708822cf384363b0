#include "system/btf.hpp"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <utility>

namespace latlab::system::btf {
namespace {

constexpr std::uint32_t kMagic = 0xEB9F;
constexpr std::size_t kHeader = 24;
constexpr std::size_t kType = 12;
constexpr std::size_t kMember = 12;
constexpr int kDeepest = 16;  // of types that refer to types; the kernel's are less deep

enum Kind : std::uint32_t {
  kInt = 1,
  kPointer,
  kArray,
  kStruct,
  kUnion,
  kEnum,
  kForward,
  kTypedef,
  kVolatile,
  kConst,
  kRestrict,
  kFunction,
  kPrototype,
  kVariable,
  kSection,
  kFloat,
  kDeclarationTag,
  kTypeTag,
  kEnum64,
};

std::uint32_t kind_of(std::uint32_t info) {
  return (info >> 24U) & 0x1FU;
}
std::uint32_t entries_of(std::uint32_t info) {
  return info & 0xFFFFU;
}

// What follows the twelve bytes of a type; nothing of a kind that is not known, whose length isn't either.
std::optional<std::size_t> behind(std::uint32_t info) {
  const std::size_t entries = entries_of(info);
  switch (kind_of(info)) {
    case kInt:
    case kVariable:
    case kDeclarationTag:
      return 4;
    case kArray:
      return 12;
    case kStruct:
    case kUnion:
    case kSection:
    case kEnum64:
      return 12 * entries;
    case kEnum:
    case kPrototype:
      return 8 * entries;
    case kPointer:
    case kForward:
    case kTypedef:
    case kVolatile:
    case kConst:
    case kRestrict:
    case kFunction:
    case kFloat:
    case kTypeTag:
      return 0;
    default:
      return std::nullopt;
  }
}

std::optional<Scheduler> read_scheduler() {
  std::ifstream file("/sys/kernel/btf/vmlinux", std::ios::binary | std::ios::ate);
  const auto size = file ? static_cast<std::streamoff>(file.tellg()) : 0;
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(std::max<std::streamoff>(size, 0)));
  file.seekg(0);
  if (!file.read(reinterpret_cast<char*>(bytes.data()), size)) return std::nullopt;
  const Types types(std::move(bytes));
  Scheduler out;
  const std::pair<const char*, std::uint32_t*> members[] = {
      {"pid", &out.pid},
      {"tgid", &out.tgid},
      {"comm", &out.comm},
      {"prio", &out.prio},
      {"exit_state", &out.exit_state},
      {"jobctl", &out.jobctl},
      {"thread_info.cpu", &out.cpu},
  };
  for (const auto& [path, to] : members) {
    const auto found = types.offset("task_struct", path);
    if (!found || *found > INT16_MAX) return std::nullopt;  // a load has no more room for it
    *to = *found;
  }
  const auto family = types.offset("sock", "__sk_common.skc_family");
  const auto protocol = types.offset("sock", "sk_protocol");
  std::vector<const char*> names{
      "sched_process_fork", "sched_switch",      "sched_waking",     "sched_migrate_task", "softirq_entry",
      "softirq_exit",       "irq_handler_entry", "irq_handler_exit", "local_timer_entry",  "local_timer_exit",
      "page_fault_user",    "page_fault_kernel", "task_rename"};
  if (family && protocol && std::max(*family, *protocol) <= INT16_MAX) {
    out.family = *family;
    out.protocol = *protocol;
    names.insert(names.end(), {"sock_send_length", "sock_recv_length", "sk_data_ready"});
  }
  for (const char* name : names)
    if (const std::uint32_t type = types.tracepoint(name); type != 0)
      out.tracepoints.emplace(name, Scheduler::Tracepoint{type, types.arguments(type)});
  return out;
}

}  // namespace

Types::Types(std::vector<std::uint8_t> bytes) : bytes_(std::move(bytes)) {
  starts_.push_back(0);
  if (bytes_.size() < kHeader || (word(0) & 0xFFFFU) != kMagic) return;
  const std::size_t header = word(4);
  const std::size_t first = header + word(8);
  const std::size_t end = first + word(12);
  strings_ = header + word(16);
  strings_end_ = strings_ + word(20);
  if (end > bytes_.size() || strings_end_ > bytes_.size() || strings_end_ == strings_ ||
      bytes_[strings_end_ - 1] != 0) {
    strings_ = strings_end_ = 0;
    return;
  }
  starts_.reserve((end - first) / 24);
  for (std::size_t at = first; at + kType <= end;) {
    const auto more = behind(word(at + 4));
    if (!more || at + kType + *more > end) return;
    starts_.push_back(at);
    at += kType + *more;
  }
}

std::uint32_t Types::word(std::size_t at) const {
  std::uint32_t out = 0;
  std::memcpy(&out, bytes_.data() + at, sizeof(out));
  return out;
}

std::string_view Types::text(std::uint32_t at) const {
  if (at >= strings_end_ - strings_) return {};
  return reinterpret_cast<const char*>(bytes_.data() + strings_ + at);
}

Types::Type Types::type(std::uint32_t number) const {
  if (number == 0 || number >= count()) return {0, 0, 0};
  const std::size_t at = starts_[number];
  return {word(at), word(at + 4), word(at + 8)};
}

// The type itself behind its other names.
std::uint32_t Types::resolved(std::uint32_t number) const {
  for (int depth = 0; depth < kDeepest; ++depth) {
    const Type one = type(number);
    switch (kind_of(one.info)) {
      case kTypedef:
      case kVolatile:
      case kConst:
      case kRestrict:
      case kTypeTag:
        number = one.size;
        break;
      default:
        return number;
    }
  }
  return 0;
}

bool Types::named(std::uint32_t at, std::string_view name) const {
  return at + name.size() < strings_end_ - strings_ &&
         std::memcmp(bytes_.data() + strings_ + at, name.data(), name.size()) == 0;
}

// The first type of this kind whose name is these two, one behind the other; or 0.
std::uint32_t Types::find(std::uint32_t kind, std::string_view before, std::string_view name) const {
  for (std::uint32_t number = 1; number < count(); ++number) {
    const Type one = type(number);
    if (kind_of(one.info) != kind || !named(one.name, before)) continue;
    if (text(one.name).substr(before.size()) == name) return number;
  }
  return 0;
}

std::optional<std::uint32_t> Types::offset(std::string_view structure, std::string_view path) const {
  return member(find(kStruct, structure, ""), path, 0);
}

std::uint32_t Types::tracepoint(std::string_view name) const {
  return find(kTypedef, "btf_trace_", name);
}

std::optional<std::uint32_t> Types::member(std::uint32_t structure, std::string_view path, int depth) const {
  const Type one = type(structure);
  if ((kind_of(one.info) != kStruct && kind_of(one.info) != kUnion) || depth > kDeepest) return std::nullopt;
  const bool has_bits = (one.info >> 31U) != 0;  // the offset's upper byte is then a bit field's width
  const std::string_view head = path.substr(0, path.find('.'));
  for (std::uint32_t i = 0; i < entries_of(one.info); ++i) {
    const std::size_t at = starts_[structure] + kType + kMember * i;
    const std::string_view name = text(word(at));
    const std::uint32_t bits = has_bits ? word(at + 8) & 0xFFFFFFU : word(at + 8);
    if ((has_bits && word(at + 8) >> 24U != 0) || bits % 8 != 0) continue;
    std::optional<std::uint32_t> inner;
    if (name.empty())
      inner = member(resolved(word(at + 4)), path, depth + 1);
    else if (name == head)
      inner = head.size() == path.size()
                  ? 0
                  : member(resolved(word(at + 4)), path.substr(head.size() + 1), depth + 1);
    if (inner) return bits / 8 + *inner;
  }
  return std::nullopt;
}

std::string Types::arguments(std::uint32_t tracepoint) const {
  const std::uint32_t pointer = resolved(tracepoint);
  const std::uint32_t prototype = kind_of(type(pointer).info) == kPointer ? type(pointer).size : 0;
  const Type one = type(prototype);
  std::string out;
  if (kind_of(one.info) != kPrototype) return out;
  // The first is the kernel's own, and no program sees it.
  for (std::uint32_t i = 1; i < entries_of(one.info); ++i) {
    const Type passed = type(resolved(word(starts_[prototype] + kType + std::size_t{8} * i + 4)));
    const std::uint32_t kind = kind_of(passed.info);
    if (kind == kInt || kind == kEnum) {
      out += 'i';
    } else if (kind == kPointer) {
      const Type at = type(resolved(passed.size));
      out += kind_of(at.info) == kStruct && text(at.name) == "task_struct" ? 't' : 'p';
    } else {
      out += '?';
    }
  }
  return out;
}

const Scheduler* scheduler() {
  static const std::optional<Scheduler> kRead = read_scheduler();
  return kRead ? &*kRead : nullptr;
}

}  // namespace latlab::system::btf
