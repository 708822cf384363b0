// Threads: opened once, under a lock; immutable afterwards.
//
// nats.c, the C client of NATS, opened at run time: latlab is built without it and links to no product. All
// of its objects are opaque; the numbers are those of its natsStatus.
#pragma once

#include <cerrno>
#include <cstdint>
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

class Library : plugins::Symbols {
 public:
  explicit Library(const std::string& path) : Symbols(path) {}

  int (*options_create)(void** options) = symbol("natsOptions_Create");
  void (*options_destroy)(void* options) = symbol("natsOptions_Destroy");
  int (*set_url)(void* options, const char* url) = symbol("natsOptions_SetURL");
  int (*set_user)(void* options, const char* user, const char* password) = symbol("natsOptions_SetUserInfo");
  int (*set_token)(void* options, const char* token) = symbol("natsOptions_SetToken");
  int (*set_reconnect)(void* options, bool allow) = symbol("natsOptions_SetAllowReconnect");
  int (*set_timeout)(void* options, std::int64_t ms) = symbol("natsOptions_SetTimeout");
  int (*set_write_deadline)(void* options, std::int64_t ms) = symbol("natsOptions_SetWriteDeadline");
  int (*set_asap)(void* options, bool asap) = symbol("natsOptions_SetSendAsap");
  int (*connect)(void** connection, void* options) = symbol("natsConnection_Connect");
  void (*destroy)(void* connection) = symbol("natsConnection_Destroy");
  int (*flush)(void* connection, std::int64_t ms) = symbol("natsConnection_FlushTimeout");
  int (*publish)(void* connection, const char* subject, const void* data,
                 int length) = symbol("natsConnection_Publish");
  int (*subscribe)(void** subscription, void* connection,
                   const char* subject) = symbol("natsConnection_SubscribeSync");
  int (*set_limits)(void* subscription, int messages,
                    int bytes) = symbol("natsSubscription_SetPendingLimits");
  int (*next)(void** message, void* subscription, std::int64_t ms) = symbol("natsSubscription_NextMsg");
  void (*unsubscribe)(void* subscription) = symbol("natsSubscription_Destroy");
  const char* (*data)(const void* message) = symbol("natsMsg_GetData");
  int (*length)(const void* message) = symbol("natsMsg_GetDataLength");
  void (*free_message)(void* message) = symbol("natsMsg_Destroy");
};

}  // namespace latlab::nats
