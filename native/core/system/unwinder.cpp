// Over 400 lines: one walk up a sampled stack, by whichever of its ways gives the next frame.
#include "system/unwinder.hpp"

#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "system/libdw.hpp"
#include "system/observed_file.hpp"

namespace latlab::system {
namespace {

constexpr int kMostFrames = 127;
constexpr std::size_t kMostCodes = 64;                                       // some megabytes each
constexpr unsigned kInlined = 0x1d, kSubprogram = 0x2e;                      // DW_TAG_*
constexpr unsigned kLinkageName = 0x6e, kCallFile = 0x58, kCallLine = 0x59;  // DW_AT_*
#if defined(__x86_64__)
constexpr unsigned kFramePointer = 6, kStackPointer = 7, kPc = 16;
#else
constexpr unsigned kFramePointer = 29, kStackPointer = 31, kPc = 32;
#endif

struct Mapping {
  std::uint64_t begin, end, offset;
  std::string path;
  int file;
};

// A process from one exec to the next.
struct Epoch {
  std::uint64_t begin_ns = 0;
  std::vector<Mapping> mappings;
  std::string key() const;
};

// Of two processes with the same code at the same addresses, as after a fork, it is the same.
std::string Epoch::key() const {
  std::string text;
  for (const Mapping& one : mappings) {
    for (const std::uint64_t part : {one.begin, one.end, one.offset, static_cast<std::uint64_t>(one.file)})
      text.append(std::to_string(part)).push_back(' ');
    text.append(one.path).push_back('\n');
  }
  return text;
}

using History = std::unordered_map<std::int32_t, std::vector<Epoch>>;

void add_mapping(Epoch& epoch, const ProcessEvent& event) {
  const std::uint64_t end = event.begin + event.bytes;
  // What was mapped there before is gone.
  std::erase_if(epoch.mappings, [&](const Mapping& one) { return one.begin < end && event.begin < one.end; });
  epoch.mappings.push_back({event.begin, end, event.offset, event.path, event.file});
}

History history_of(const std::vector<ProcessEvent>& events) {
  std::vector<const ProcessEvent*> ordered;
  ordered.reserve(events.size());
  for (const ProcessEvent& event : events) ordered.push_back(&event);
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const ProcessEvent* a, const ProcessEvent* b) { return a->time_ns < b->time_ns; });
  History history;
  for (const ProcessEvent* event : ordered) {
    std::vector<Epoch>& epochs = history[event->pid];
    if (event->kind == ProcessEvent::Kind::kFork) {
      const auto parent = history.find(event->parent);
      Epoch copy = parent == history.end() || parent->second.empty() ? Epoch{} : parent->second.back();
      copy.begin_ns = event->time_ns;
      history[event->pid].push_back(std::move(copy));  // not `epochs`: `find` may follow a rehash
    } else if (event->kind == ProcessEvent::Kind::kExec) {
      epochs.push_back({event->time_ns, {}});
    } else {
      if (epochs.empty()) epochs.push_back({});  // there from the beginning
      add_mapping(epochs.back(), *event);
    }
  }
  return history;
}

// The vDSO is the same in every process: ours, as a file.
int vdso_file() {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): getauxval(3) gives an address as a number
  const auto* base = reinterpret_cast<const std::uint8_t*>(getauxval(AT_SYSINFO_EHDR));
  if (base == nullptr) return -1;
  Elf64_Ehdr header;
  std::memcpy(&header, base, sizeof(header));
  const std::size_t bytes = header.e_shoff + (std::size_t{header.e_shnum} * header.e_shentsize);
  const int file = memfd_create("vdso", MFD_CLOEXEC);
  if (file >= 0 && write(file, base, bytes) != static_cast<ssize_t>(bytes)) {
    close(file);
    return -1;
  }
  return file;
}

bool read_stack(const StackSample& sample, std::uint64_t address, std::uint64_t& value) {
  const std::uint64_t low = sample.registers[kStackPointer];
  if (address < low || sample.stack_bytes < sizeof(value) ||
      address - low > sample.stack_bytes - sizeof(value))
    return false;
  std::memcpy(&value, sample.stack + (address - low), sizeof(value));
  return true;
}

// Where the outermost return address stands: at one place of a stack for as long as its thread or coroutine
// runs, whatever that calls.
std::uint64_t base_of(const StackSample& sample, const std::vector<std::uint64_t>& pcs) {
  if (pcs.size() < 2) return 0;
  const std::uint64_t outermost = pcs.back() + 1;
  for (std::size_t at = sample.stack_bytes / sizeof(std::uint64_t); at-- > 0;) {
    std::uint64_t word = 0;
    std::memcpy(&word, sample.stack + (at * sizeof(word)), sizeof(word));
    if (word == outermost) return sample.registers[kStackPointer] + (at * sizeof(word));
  }
  return 0;
}

// A chain of frame pointers: each points at the next one, the return address stands above it.
void along_frame_pointers(const StackSample& sample, std::vector<std::uint64_t>& pcs) {
  pcs.push_back(sample.registers[kPc]);
  std::uint64_t frame = sample.registers[kFramePointer];
  while (pcs.size() < kMostFrames) {
    std::uint64_t next = 0;
    std::uint64_t back = 0;
    if (!read_stack(sample, frame, next) || !read_stack(sample, frame + 8, back) || back == 0) return;
    pcs.push_back(back - 1);
    if (next <= frame) return;
    frame = next;
  }
}

constexpr const char* kCopied = "";  // the path of a file of which the library has a copy

// What describes a stranger's file may be anything, beside it: it isn't looked for.
int find_debuginfo(Dwfl_Module* module, void** data, const char* name, std::uint64_t base, const char* path,
                   const char* link, std::uint32_t sum, char** found) {
  if (path == nullptr || *path == '\0') return -1;
  return libdw()->standard_find_debuginfo(module, data, name, base, path, link, sum, found);
}

int no_elf(Dwfl_Module* /*module*/, void** /*data*/, const char* /*name*/, std::uint64_t /*base*/,
           char** /*path*/, void** /*elf*/) {
  return -1;  // every module is reported with its file
}

// One process' code, between two execs.
class Code {
 public:
  Code(std::int32_t pid, const Epoch& epoch) : pid_(pid), mappings_(epoch.mappings) {
    std::sort(mappings_.begin(), mappings_.end(),
              [](const Mapping& a, const Mapping& b) { return a.begin < b.begin; });
    const Libdw* library = libdw();
    if (library == nullptr) return;
    path_ = "+:.debug:/usr/lib/debug";
    const std::string process = "/proc/" + std::to_string(pid);
    if (is_trusted(process)) path_ += ":" + process + "/root/usr/lib/debug";
    path_pointer_ = path_.data();
    callbacks_ = {no_elf, find_debuginfo, nullptr, &path_pointer_};
    dwfl_.reset(library->begin(&callbacks_));
    if (dwfl_ == nullptr) return;
    library->report_begin(dwfl_.get());
    // Of one file the lowest mapping tells where the file's beginning would be.
    std::unordered_set<std::string> reported;
    for (const Mapping& mapping : mappings_) {
      const bool vdso = mapping.path == "[vdso]";
      if (!vdso && (mapping.file < 0 || !reported.insert(mapping.path).second)) continue;
      const bool trusted = vdso || is_trusted(mapping.file);
      const int file = vdso ? vdso_file() : trusted ? dup(mapping.file) : observed_copy(mapping.file);
      if (file < 0) continue;
      const std::uint64_t base = mapping.begin - first_bytes(file, mapping);
      const char* path = trusted ? mapping.path.c_str() : kCopied;
      if (library->report_elf(dwfl_.get(), mapping.path.c_str(), path, file, base, false) == nullptr)
        close(file);
    }
    library->report_end(dwfl_.get(), nullptr, nullptr);
    static const DwflThreadCallbacks threads{no_thread, the_thread, memory, registers, nullptr, nullptr};
    attached_ = library->attach_state(dwfl_.get(), nullptr, pid, &threads, this);
  }

  void unwind(const StackSample& sample, std::vector<std::uint64_t>& pcs) {
    pcs.clear();
    if (attached_) {
      sample_ = &sample;
      libdw()->getthread_frames(dwfl_.get(), sample.tid, frame, &pcs);
      sample_ = nullptr;
    }
    if (pcs.size() > 1) return;
    // A leaf without any description (compiled at run time), or no libdw.
    std::vector<std::uint64_t> others;
    along_frame_pointers(sample, others);
    if (others.size() > pcs.size()) pcs.swap(others);
  }

  // The open file that an address is of, and where in it; -1: of none.
  std::pair<int, std::uint64_t> where(std::uint64_t pc) const {
    const Mapping* mapping = mapping_of(pc);
    if (mapping == nullptr || mapping->file < 0 || mapping->path.starts_with("//anon")) return {-1, 0};
    return {mapping->file, pc - mapping->begin + mapping->offset};
  }

  // The places of one address, inlined functions first.
  std::vector<CodePlace> places(std::uint64_t pc) {
    CodePlace place;
    place.address = pc;
    place.pid = pid_;
    const Mapping* mapping = mapping_of(pc);
    if (mapping != nullptr && !mapping->path.starts_with("//anon")) {
      place.module = mapping->path;
      place.offset = pc - mapping->begin + mapping->offset;
    }
    const Libdw* library = libdw();
    Dwfl_Module* module = dwfl_ == nullptr ? nullptr : library->addrmodule(dwfl_.get(), pc);
    if (module == nullptr) return {place};
    std::uint64_t offset = 0;
    ElfSymbol symbol{};
    const char* name = library->module_addrinfo(module, pc, &offset, &symbol, nullptr, nullptr, nullptr);
    // A symbol names what lies within its size. One without a size, as assembly has, is but the nearest.
    if (name != nullptr && (symbol.size == 0 || offset < symbol.size)) {
      place.function = demangled(name);
      if (symbol.size == 0) place.behind = offset;
    }
    std::uint64_t bias = 0;
    DwarfDie* unit = unit_of(module, pc, bias);
    const char* file = nullptr;
    if (Dwfl_Line* line = library->module_getsrc(module, pc); line != nullptr) {
      file = library->lineinfo(line, nullptr, &place.line, nullptr, nullptr, nullptr);
    } else if (unit != nullptr) {
      void* found = library->getsrc_die(unit, pc - bias);
      if (found != nullptr && library->lineno(found, &place.line) == 0)
        file = library->linesrc(found, nullptr, nullptr);
    }
    if (file != nullptr) place.file = file;
    return with_inlined(unit, pc - bias, place);
  }

 private:
  struct End {
    void operator()(Dwfl* dwfl) const { libdw()->end(dwfl); }
  };

  // How far behind its first loaded segment's page this mapping of a file begins.
  static std::uint64_t first_bytes(int file, const Mapping& mapping) {
    Elf64_Ehdr header{};
    if (pread(file, &header, sizeof(header), 0) != static_cast<ssize_t>(sizeof(header)) ||
        std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_phentsize != sizeof(Elf64_Phdr))
      return mapping.offset;
    const std::uint64_t page = ~(static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)) - 1);
    std::uint64_t first = 0;
    bool seen = false;
    for (unsigned i = 0; i < header.e_phnum; ++i) {
      Elf64_Phdr segment{};
      const auto at = static_cast<off_t>(header.e_phoff + (i * sizeof(segment)));
      if (pread(file, &segment, sizeof(segment), at) != static_cast<ssize_t>(sizeof(segment))) break;
      if (segment.p_type != PT_LOAD) continue;
      if (!seen) first = segment.p_vaddr & page;
      seen = true;
      const std::uint64_t low = segment.p_offset & page;
      if (mapping.offset >= low &&
          mapping.offset < segment.p_offset + std::max<std::uint64_t>(segment.p_filesz, 1))
        if ((segment.p_flags & PF_X) != 0) return (segment.p_vaddr & page) + (mapping.offset - low) - first;
    }
    return mapping.offset;
  }

  const Mapping* mapping_of(std::uint64_t pc) const {
    auto after = std::upper_bound(mappings_.begin(), mappings_.end(), pc,
                                  [](std::uint64_t value, const Mapping& one) { return value < one.begin; });
    if (after == mappings_.begin()) return nullptr;
    --after;
    return pc < after->end ? &*after : nullptr;
  }

  struct Unit {
    std::uint64_t begin, end, bias;
    DwarfDie* unit;
  };

  // The compilation unit of an address. The library finds it by .debug_aranges, which Go, Rust and clang
  // leave out: for a module without them all its units are asked, once.
  DwarfDie* unit_of(Dwfl_Module* module, std::uint64_t pc, std::uint64_t& bias) {
    if (DwarfDie* unit = libdw()->module_addrdie(module, pc, &bias); unit != nullptr) return unit;
    const auto [known, missing] = units_.try_emplace(module);
    if (missing) known->second = units_in(module);
    const std::vector<Unit>& units = known->second;
    auto after = std::upper_bound(units.begin(), units.end(), pc,
                                  [](std::uint64_t value, const Unit& one) { return value < one.begin; });
    if (after == units.begin()) return nullptr;
    --after;
    if (pc >= after->end) return nullptr;
    bias = after->bias;
    return after->unit;
  }

  static std::vector<Unit> units_in(Dwfl_Module* module) {
    const Libdw* library = libdw();
    std::vector<Unit> units;
    std::uint64_t bias = 0;
    for (DwarfDie* unit = nullptr; (unit = library->module_nextcu(module, unit, &bias)) != nullptr;) {
      std::uint64_t base = 0;
      std::uint64_t begin = 0;
      std::uint64_t end = 0;
      for (std::ptrdiff_t at = 0; (at = library->ranges(unit, at, &base, &begin, &end)) > 0;)
        units.push_back({begin + bias, end + bias, bias, unit});
    }
    std::sort(units.begin(), units.end(), [](const Unit& a, const Unit& b) { return a.begin < b.begin; });
    return units;
  }

  // By an address within the file.
  static std::vector<CodePlace> with_inlined(DwarfDie* unit, std::uint64_t address, const CodePlace& place) {
    const Libdw* library = libdw();
    if (unit == nullptr) return {place};
    // The innermost scope, then those around it at the call: the first list goes on where an inlined function
    // was written.
    DwarfDie* written = nullptr;
    if (library->getscopes(unit, address, &written) <= 0) return {place};
    DwarfDie* scopes = nullptr;
    const int count = library->getscopes_die(written, &scopes);
    std::free(written);  // NOLINT(cppcoreguidelines-no-malloc): the library's malloc
    std::vector<CodePlace> out;
    CodePlace next = place;
    for (int i = 0; i < count; ++i) {
      DwarfDie& scope = scopes[i];
      const auto tag = static_cast<unsigned>(library->tag(&scope));
      if (tag != kInlined && tag != kSubprogram) continue;
      next.function = name_of(scope, next.function);
      out.push_back(next);
      if (tag == kSubprogram) break;
      DwarfAttribute attribute{};
      std::uint64_t value = 0;
      next = place;
      next.line = 0;
      if (library->formudata(library->attr_integrate(&scope, kCallLine, &attribute), &value) == 0)
        next.line = static_cast<int>(value);
      void* files = nullptr;
      std::size_t known = 0;
      if (library->formudata(library->attr_integrate(&scope, kCallFile, &attribute), &value) == 0 &&
          library->getsrcfiles(unit, &files, &known) == 0 && value < known) {
        const char* file = library->filesrc(files, value, nullptr, nullptr);
        if (file != nullptr) next.file = file;
      }
    }
    std::free(scopes);  // NOLINT(cppcoreguidelines-no-malloc): the library's malloc
    if (out.empty()) return {place};
    // The symbol table says it with the arguments, as everywhere else.
    if (!place.function.empty()) out.back().function = place.function;
    return out;
  }

  static std::string name_of(DwarfDie& scope, const std::string& otherwise) {
    const Libdw* library = libdw();
    DwarfAttribute attribute{};
    const char* linkage = library->formstring(library->attr_integrate(&scope, kLinkageName, &attribute));
    if (linkage != nullptr) return demangled(linkage);
    const char* name = library->diename(&scope);
    return name == nullptr ? otherwise : name;
  }

  static pid_t no_thread(Dwfl* /*dwfl*/, void* /*owner*/, void** /*thread*/) { return 0; }
  static bool the_thread(Dwfl* /*dwfl*/, pid_t /*tid*/, void* owner, void** thread) {
    *thread = owner;
    return true;
  }
  static bool memory(Dwfl* /*dwfl*/, std::uint64_t address, std::uint64_t* value, void* owner) {
    const auto* code = static_cast<const Code*>(owner);
    return code->sample_ != nullptr && read_stack(*code->sample_, address, *value);
  }
  static bool registers(Dwfl_Thread* thread, void* owner) {
    const StackSample& sample = *static_cast<const Code*>(owner)->sample_;
#if defined(__x86_64__)
    return libdw()->thread_state_registers(thread, 0, kStackRegisters, sample.registers);
#else
    libdw()->thread_state_register_pc(thread, sample.registers[kPc]);
    return libdw()->thread_state_registers(thread, 0, kPc, sample.registers);
#endif
  }
  static int frame(Dwfl_Frame* state, void* to) {
    auto& pcs = *static_cast<std::vector<std::uint64_t>*>(to);
    std::uint64_t pc = 0;
    bool exact = false;
    if (!libdw()->frame_pc(state, &pc, &exact) || pc == 0) return 1;
    pcs.push_back(exact || pcs.empty() ? pc : pc - 1);  // a return address belongs to the call before it
    return pcs.size() < kMostFrames ? 0 : 1;
  }

  std::int32_t pid_;
  std::vector<Mapping> mappings_;
  std::string path_;
  char* path_pointer_ = nullptr;
  DwflCallbacks callbacks_{};
  std::unique_ptr<Dwfl, End> dwfl_;
  std::unordered_map<Dwfl_Module*, std::vector<Unit>> units_;
  bool attached_ = false;
  const StackSample* sample_ = nullptr;
};

}  // namespace

namespace {

// A process' code, and the places of its addresses that were met.
struct Known {
  Known(std::int32_t pid, const Epoch& epoch) : code(pid, epoch) {}
  Code code;
  std::unordered_map<std::uint64_t, std::vector<std::int32_t>> places;
  std::uint64_t used = 0;
};

// The code of those processes that were met last: of a program with thousands of short ones, not all at once.
class Codes {
 public:
  Known& of(std::int32_t pid, const Epoch& epoch) {
    auto& key = keys_[&epoch];
    if (key.empty()) key = epoch.key();
    auto found = known_.find(key);
    if (found == known_.end()) {
      if (known_.size() >= kMostCodes) {
        const auto oldest = std::min_element(known_.begin(), known_.end(), [](const auto& a, const auto& b) {
          return a.second.used < b.second.used;
        });
        known_.erase(oldest);
      }
      found = known_.try_emplace(key, pid, epoch).first;
    }
    found->second.used = ++now_;
    return found->second;
  }

 private:
  std::unordered_map<const Epoch*, std::string> keys_;
  std::map<std::string, Known> known_;
  std::uint64_t now_ = 0;
};

}  // namespace

std::string demangled(const char* name) {
  if (std::strncmp(name, "_Z", 2) != 0) return name;
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status),
                                                         &std::free);
  return status == 0 && text != nullptr ? text.get() : name;
}

Unwound unwind(const std::vector<StackSample>& samples, const std::vector<ProcessEvent>& processes,
               std::size_t most) {
  Unwound out;
  out.by_dwarf = libdw() != nullptr;
  const History history = history_of(processes);
  Codes codes;
  std::map<std::tuple<std::string, std::string, std::string, int, std::uint64_t, std::uint64_t>, std::int32_t>
      numbers;
  std::map<std::vector<std::int32_t>, std::int32_t> stacks;
  // What a file says of a place in it holds for every process: of thousands of short ones each would read,
  // and perhaps inflate, the same descriptions.
  std::map<std::pair<int, std::uint64_t>, std::vector<std::int32_t>> of_files;
  std::vector<std::uint64_t> pcs;
  const std::size_t step = most == 0 ? 1 : std::max<std::size_t>(1, (samples.size() + most - 1) / most);
  for (std::size_t i = 0; i < samples.size(); i += step) {
    const StackSample& sample = samples[i];
    const auto process = history.find(sample.pid);
    if (process == history.end() || process->second.empty()) continue;
    const std::vector<Epoch>& epochs = process->second;
    std::size_t epoch = epochs.size() - 1;
    while (epoch > 0 && epochs[epoch].begin_ns > sample.time_ns) --epoch;
    Known& known = codes.of(sample.pid, epochs[epoch]);
    known.code.unwind(sample, pcs);
    std::vector<std::int32_t> stack;
    for (const std::uint64_t pc : pcs) {
      auto [found, fresh] = known.places.try_emplace(pc);
      const auto where = known.code.where(pc);
      const auto told = of_files.find(where);
      if (fresh && where.first >= 0 && told != of_files.end()) {
        found->second = told->second;
      } else if (fresh) {
        for (CodePlace& place : known.code.places(pc)) {
          const std::uint64_t address = place.module.empty() ? place.address : 0;
          const auto key =
              std::tuple(place.function, place.file, place.module, place.line, place.offset, address);
          const auto [number, added] = numbers.try_emplace(key, static_cast<std::int32_t>(out.places.size()));
          if (added) out.places.push_back(std::move(place));
          found->second.push_back(number->second);
        }
        if (where.first >= 0) of_files.emplace(where, found->second);
      }
      stack.insert(stack.end(), found->second.begin(), found->second.end());
    }
    const auto [number, added] = stacks.try_emplace(stack, static_cast<std::int32_t>(out.stacks.size()));
    if (added) out.stacks.push_back(std::move(stack));
    out.time_ns.push_back(static_cast<std::int64_t>(sample.time_ns));
    out.pid.push_back(sample.pid);
    out.tid.push_back(sample.tid);
    out.running.push_back(sample.running ? 1 : 0);
    out.stack.push_back(number->second);
    out.base.push_back(base_of(sample, pcs));
  }
  return out;
}

}  // namespace latlab::system
