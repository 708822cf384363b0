// Threads: `libdw` may be called from any; the library itself is for one thread at a time.
//
// elfutils' libdw, loaded when it is there: unwinding by DWARF and the names and lines of addresses. Only
// what `unwinder.cpp` calls is declared, after the library's documented interface (libdwfl.h, libdw.h, 0.158
// and later), so that building needs no headers of it and running needs no library.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

struct Dwfl;         // NOLINT(readability-identifier-naming): the library's names
struct Dwfl_Module;  // NOLINT(readability-identifier-naming)
struct Dwfl_Thread;  // NOLINT(readability-identifier-naming)
struct Dwfl_Frame;   // NOLINT(readability-identifier-naming)
struct Dwfl_Line;    // NOLINT(readability-identifier-naming)

namespace latlab::system {

struct DwflCallbacks {
  int (*find_elf)(Dwfl_Module*, void**, const char*, std::uint64_t, char**, void**);
  int (*find_debuginfo)(Dwfl_Module*, void**, const char*, std::uint64_t, const char*, const char*,
                        std::uint32_t, char**);
  int (*section_address)(Dwfl_Module*, void**, const char*, std::uint64_t, const char*, std::uint32_t,
                         const void*, std::uint64_t*);
  char** debuginfo_path;
};

struct DwflThreadCallbacks {
  pid_t (*next_thread)(Dwfl*, void*, void**);
  bool (*get_thread)(Dwfl*, pid_t, void*, void**);
  bool (*memory_read)(Dwfl*, std::uint64_t, std::uint64_t*, void*);
  bool (*set_initial_registers)(Dwfl_Thread*, void*);
  void (*detach)(Dwfl*, void*);
  void (*thread_detach)(Dwfl_Thread*, void*);
};

struct DwarfDie {
  void* address;
  void* unit;
  void* abbreviation;
  long padding;
};

struct DwarfAttribute {
  unsigned code, form;
  unsigned char* value;
  void* unit;
};

struct ElfSymbol {
  std::uint32_t name;
  unsigned char info, other;
  std::uint16_t section;
  std::uint64_t value, size;
};

struct Libdw {
  Dwfl* (*begin)(const DwflCallbacks*);
  void (*end)(Dwfl*);
  void (*report_begin)(Dwfl*);
  int (*report_end)(Dwfl*, int (*)(Dwfl_Module*, void*, const char*, std::uint64_t, void*), void*);
  Dwfl_Module* (*report_elf)(Dwfl*, const char*, const char*, int, std::uint64_t, bool);
  bool (*attach_state)(Dwfl*, void*, pid_t, const DwflThreadCallbacks*, void*);
  int (*getthread_frames)(Dwfl*, pid_t, int (*)(Dwfl_Frame*, void*), void*);
  bool (*thread_state_registers)(Dwfl_Thread*, int, unsigned, const std::uint64_t*);
  void (*thread_state_register_pc)(Dwfl_Thread*, std::uint64_t);
  bool (*frame_pc)(Dwfl_Frame*, std::uint64_t*, bool*);
  Dwfl_Module* (*addrmodule)(Dwfl*, std::uint64_t);
  const char* (*module_addrinfo)(Dwfl_Module*, std::uint64_t, std::uint64_t*, ElfSymbol*, std::uint32_t*,
                                 void**, std::uint64_t*);
  Dwfl_Line* (*module_getsrc)(Dwfl_Module*, std::uint64_t);
  const char* (*lineinfo)(Dwfl_Line*, std::uint64_t*, int*, int*, std::uint64_t*, std::uint64_t*);
  DwarfDie* (*module_addrdie)(Dwfl_Module*, std::uint64_t, std::uint64_t*);
  DwarfDie* (*module_nextcu)(Dwfl_Module*, DwarfDie*, std::uint64_t*);
  std::ptrdiff_t (*ranges)(DwarfDie*, std::ptrdiff_t, std::uint64_t*, std::uint64_t*, std::uint64_t*);
  void* (*getsrc_die)(DwarfDie*, std::uint64_t);
  int (*lineno)(void*, int*);
  const char* (*linesrc)(void*, std::uint64_t*, std::uint64_t*);
  int (*getscopes)(DwarfDie*, std::uint64_t, DwarfDie**);
  int (*getscopes_die)(DwarfDie*, DwarfDie**);
  int (*tag)(DwarfDie*);
  const char* (*diename)(DwarfDie*);
  DwarfAttribute* (*attr_integrate)(DwarfDie*, unsigned, DwarfAttribute*);
  const char* (*formstring)(DwarfAttribute*);
  int (*formudata)(DwarfAttribute*, std::uint64_t*);
  int (*getsrcfiles)(DwarfDie*, void**, std::size_t*);
  const char* (*filesrc)(void*, std::size_t, std::uint64_t*, std::uint64_t*);
  decltype(DwflCallbacks::find_elf) build_id_find_elf;
  decltype(DwflCallbacks::find_debuginfo) standard_find_debuginfo;
};

// Null where libdw.so.1 isn't installed, or lacks one of these.
const Libdw* libdw();

}  // namespace latlab::system
