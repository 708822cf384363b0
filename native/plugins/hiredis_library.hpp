// Threads: opened once, under a lock; immutable afterwards. A context belongs to one thread at a time.
//
// hiredis, the C client of Redis, opened at run time: latlab is built without it and links to no product.
// What is declared here is what its header gives to everybody. Its 1.0 put fields into two structures;
// versions before (Debian 12 has 0.14) lack redisConnectWithOptions.
#pragma once

#include <dlfcn.h>
#include <cstddef>
#include <stdexcept>
#include <string>

#include <sys/time.h>

#include "end.hpp"

namespace latlab::hiredis {

inline constexpr int kOk = 0;
inline constexpr int kErrIo = 1, kErrEof = 3;  // redisContext.err; of kErrIo errno tells
inline constexpr int kBlocking = 1;            // of redisContext.flags
inline constexpr int kString = 1, kArray = 2, kInteger = 3, kNil = 4, kStatus = 5, kError = 6;

// Its redisReply and the beginning of its redisContext: before 1.0, and since.
struct OldReply {
  int type;
  long long integer;
  std::size_t len;
  char* str;
  std::size_t elements;
  void** element;
};
struct NewReply {
  int type;
  long long integer;
  double dval;
  std::size_t len;
  char* str;
  char vtype[4];
  std::size_t elements;
  void** element;
};
struct OldContext {
  int err;
  char errstr[128];
  int fd;
  int flags;
};
struct NewContext {
  const void* funcs;
  int err;
  char errstr[128];
  int fd;
  int flags;
};

// A reply as it is read here, whatever the version.
struct Reply {
  int type;
  const char* text;  // of a string, a status and an error
  std::size_t length;
  void** element;  // of an array
  std::size_t elements;
};

struct Context {
  int error;
  int fd;
  int* flags;
};

class Library : plugins::Symbols {
 public:
  // Throws std::invalid_argument where there is none at `path` (a name that the linker knows is one, too).
  explicit Library(const std::string& path) : Symbols(path) {}

  Reply reply(const void* of) const noexcept {
    if (since_1_) return view(*static_cast<const NewReply*>(of));
    return view(*static_cast<const OldReply*>(of));
  }
  Context context(void* of) const noexcept {
    if (since_1_) return view(*static_cast<NewContext*>(of));
    return view(*static_cast<OldContext*>(of));
  }

  void* (*connect)(const char* host, int port, timeval timeout) = symbol("redisConnectWithTimeout");
  int (*set_timeout)(void* context, timeval timeout) = symbol("redisSetTimeout");
  void (*free)(void* context) = symbol("redisFree");
  void* (*command)(void* context, int words, const char** word,
                   const std::size_t* length) = symbol("redisCommandArgv");
  int (*format)(char** into, int words, const char** word,
                const std::size_t* length) = symbol("redisFormatCommandArgv");
  void (*free_formatted)(char* formatted) = symbol("redisFreeCommand");
  int (*append)(void* context, const char* formatted,
                std::size_t length) = symbol("redisAppendFormattedCommand");
  int (*write)(void* context, int* done) = symbol("redisBufferWrite");
  int (*read)(void* context) = symbol("redisBufferRead");
  int (*next_reply)(void* context, void** reply) = symbol("redisGetReplyFromReader");
  void (*free_reply)(void* reply) = symbol("freeReplyObject");

 private:
  template <class R>
  static Reply view(const R& r) noexcept {
    return {r.type, r.str, r.len, r.element, r.elements};
  }
  template <class C>
  static Context view(C& c) noexcept {
    return {c.err, c.fd, &c.flags};
  }

  bool since_1_ = has("redisConnectWithOptions");
};

}  // namespace latlab::hiredis
