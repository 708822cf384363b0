// Threads: opened once, under a lock; immutable afterwards.
//
// nats.c, the C client of NATS, opened at run time: latlab is built without it and links to no product. All
// of its objects are opaque; the numbers are those of its natsStatus.
#pragma once

#include <cerrno>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "end.hpp"

namespace latlab::nats {

inline constexpr int kOk = 0;
inline constexpr int kClosed = 5, kNoServer = 6, kDisconnected = 10, kAuthentication = 11, kNotPermitted = 12;
inline constexpr int kMaxPayload = 21, kNoMemory = 24, kTimeout = 26;

inline int errno_of(int status) noexcept {
  switch (status) {
    case kNoServer:
      return ECONNREFUSED;
    case kAuthentication:
    case kNotPermitted:
      return EACCES;
    case kMaxPayload:
      return EMSGSIZE;
    case kNoMemory:
      return ENOMEM;
    case kTimeout:
      return ETIMEDOUT;
    default:  // whatever ends a connection
      return ECONNRESET;
  }
}

class Library {
 public:
  static const Library& of(const std::string& path) {
    static std::mutex mutex;
    static std::map<std::string, Library> loaded;
    const std::scoped_lock lock(mutex);
    if (const auto found = loaded.find(path); found != loaded.end()) return found->second;
    return loaded.emplace(path, Library(path)).first->second;
  }

  int (*options_create)(void** options) = nullptr;
  void (*options_destroy)(void* options) = nullptr;
  int (*set_url)(void* options, const char* url) = nullptr;
  int (*set_user)(void* options, const char* user, const char* password) = nullptr;
  int (*set_token)(void* options, const char* token) = nullptr;
  int (*set_reconnect)(void* options, bool allow) = nullptr;
  int (*set_timeout)(void* options, std::int64_t ms) = nullptr;
  int (*set_write_deadline)(void* options, std::int64_t ms) = nullptr;
  int (*set_asap)(void* options, bool asap) = nullptr;
  int (*connect)(void** connection, void* options) = nullptr;
  void (*destroy)(void* connection) = nullptr;
  int (*flush)(void* connection, std::int64_t ms) = nullptr;
  int (*publish)(void* connection, const char* subject, const void* data, int length) = nullptr;
  int (*subscribe)(void** subscription, void* connection, const char* subject) = nullptr;
  int (*set_limits)(void* subscription, int messages, int bytes) = nullptr;
  int (*next)(void** message, void* subscription, std::int64_t ms) = nullptr;
  void (*unsubscribe)(void* subscription) = nullptr;
  const char* (*data)(const void* message) = nullptr;
  int (*length)(const void* message) = nullptr;
  void (*free_message)(void* message) = nullptr;

 private:
  explicit Library(const std::string& path) {
    using plugins::load;
    void* handle = plugins::open_library(path);
    load(handle, "natsOptions_Create", options_create);
    load(handle, "natsOptions_Destroy", options_destroy);
    load(handle, "natsOptions_SetURL", set_url);
    load(handle, "natsOptions_SetUserInfo", set_user);
    load(handle, "natsOptions_SetToken", set_token);
    load(handle, "natsOptions_SetAllowReconnect", set_reconnect);
    load(handle, "natsOptions_SetTimeout", set_timeout);
    load(handle, "natsOptions_SetWriteDeadline", set_write_deadline);
    load(handle, "natsOptions_SetSendAsap", set_asap);
    load(handle, "natsConnection_Connect", connect);
    load(handle, "natsConnection_Destroy", destroy);
    load(handle, "natsConnection_FlushTimeout", flush);
    load(handle, "natsConnection_Publish", publish);
    load(handle, "natsConnection_SubscribeSync", subscribe);
    load(handle, "natsSubscription_SetPendingLimits", set_limits);
    load(handle, "natsSubscription_NextMsg", next);
    load(handle, "natsSubscription_Destroy", unsubscribe);
    load(handle, "natsMsg_GetData", data);
    load(handle, "natsMsg_GetDataLength", length);
    load(handle, "natsMsg_Destroy", free_message);
  }
};

}  // namespace latlab::nats
