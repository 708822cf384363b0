#include "system/libdw.hpp"

#include <dlfcn.h>

namespace latlab::system {
namespace {

template <class F>
bool find(void* library, const char* name, F& function) {
  void* found = dlsym(library, name);
  function = reinterpret_cast<F>(found);  // as dlsym(3) has it
  return found != nullptr;
}

// Never closed: what it has handed out may be asked at any time.
const Libdw* load() {
  void* library = dlopen("libdw.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  static Libdw all{};
  const bool whole =
      find(library, "dwfl_begin", all.begin) && find(library, "dwfl_end", all.end) &&
      find(library, "dwfl_report_begin", all.report_begin) &&
      find(library, "dwfl_report_end", all.report_end) && find(library, "dwfl_report_elf", all.report_elf) &&
      find(library, "dwfl_attach_state", all.attach_state) &&
      find(library, "dwfl_getthread_frames", all.getthread_frames) &&
      find(library, "dwfl_thread_state_registers", all.thread_state_registers) &&
      find(library, "dwfl_thread_state_register_pc", all.thread_state_register_pc) &&
      find(library, "dwfl_frame_pc", all.frame_pc) && find(library, "dwfl_addrmodule", all.addrmodule) &&
      find(library, "dwfl_module_addrinfo", all.module_addrinfo) &&
      find(library, "dwfl_module_getsrc", all.module_getsrc) &&
      find(library, "dwfl_lineinfo", all.lineinfo) &&
      find(library, "dwfl_module_addrdie", all.module_addrdie) &&
      find(library, "dwfl_module_nextcu", all.module_nextcu) && find(library, "dwarf_ranges", all.ranges) &&
      find(library, "dwarf_getsrc_die", all.getsrc_die) && find(library, "dwarf_lineno", all.lineno) &&
      find(library, "dwarf_linesrc", all.linesrc) && find(library, "dwarf_getscopes", all.getscopes) &&
      find(library, "dwarf_getscopes_die", all.getscopes_die) && find(library, "dwarf_tag", all.tag) &&
      find(library, "dwarf_diename", all.diename) &&
      find(library, "dwarf_attr_integrate", all.attr_integrate) &&
      find(library, "dwarf_formstring", all.formstring) && find(library, "dwarf_formudata", all.formudata) &&
      find(library, "dwarf_getsrcfiles", all.getsrcfiles) && find(library, "dwarf_filesrc", all.filesrc) &&

      find(library, "dwfl_build_id_find_elf", all.build_id_find_elf) &&
      find(library, "dwfl_standard_find_debuginfo", all.standard_find_debuginfo);
  return whole ? &all : nullptr;
}

}  // namespace

const Libdw* libdw() {
  static const Libdw* const loaded = load();
  return loaded;
}

}  // namespace latlab::system
