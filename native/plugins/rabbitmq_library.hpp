// Threads: opened once, under a lock; immutable afterwards. A connection belongs to one thread at a time.
//
// librabbitmq (rabbitmq-c), the C client of AMQP 0-9-1, opened at run time: latlab is built without it and
// links to no product. What is declared here is what its header gives to everybody, from 0.8 to 0.15.
#pragma once

#include <sys/time.h>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "end.hpp"

namespace latlab::rabbitmq {

inline constexpr int kOk = 0;
inline constexpr int kTimeout = -0x000D, kUnexpectedState = -0x0010;  // of amqp_status_enum
inline constexpr int kNormal = 1, kLibrary = 2, kServer = 3;          // amqp_rpc_reply_t.reply_type
inline constexpr int kPlain = 0;                                      // AMQP_SASL_METHOD_PLAIN
inline constexpr std::uint8_t kMethodFrame = 1;
inline constexpr std::uint32_t kAck = 0x003C0050, kNack = 0x003C0078;  // basic.ack and basic.nack
inline constexpr std::uint32_t kChannelClose = 0x00140028, kConnectionClose = 0x000A0032;
inline constexpr std::uint32_t kDeliveryMode = 1U << 12;  // of the properties' flags
inline constexpr int kSuccess = 200;
inline constexpr std::uint16_t kAccessRefused = 403, kNotFound = 404, kNotAllowed = 530;

// amqp_bytes_t
struct Bytes {
  std::size_t len;
  void* bytes;
};
// amqp_table_t, its entries and their values
struct Value {
  std::uint8_t kind;
  union {
    std::int32_t i32;
    Bytes bytes;
  } value;
};
struct Entry {
  Bytes key;
  Value value;
};
struct Table {
  int num_entries;
  Entry* entries;
};
// amqp_basic_properties_t
struct Properties {
  std::uint32_t _flags;
  Bytes content_type, content_encoding;
  Table headers;
  std::uint8_t delivery_mode, priority;
  Bytes correlation_id, reply_to, expiration, message_id;
  std::uint64_t timestamp;
  Bytes type, user_id, app_id, cluster_id;
};
// amqp_envelope_t; behind its body is the memory that it is in
struct Message {
  Properties properties;
  Bytes body;
  std::byte pool[256];
};
struct Envelope {
  std::uint16_t channel;
  Bytes consumer_tag;
  std::uint64_t delivery_tag;
  int redelivered;
  Bytes exchange, routing_key;
  Message message;
};
// amqp_method_t, amqp_rpc_reply_t
struct Method {
  std::uint32_t id;
  void* decoded;
};
struct Reply {
  int reply_type;
  Method reply;
  int library_error;
};
// amqp_frame_t: of a method frame what it says
struct Frame {
  std::uint8_t frame_type;
  std::uint16_t channel;
  union {
    Method method;
    std::byte others[64];
  } payload;
};
// amqp_basic_ack_t (and _nack_t), amqp_channel_close_t (and amqp_connection_close_t)
struct Ack {
  std::uint64_t delivery_tag;
  int multiple;
};
struct Close {
  std::uint16_t reply_code;
  Bytes reply_text;
};

inline Bytes bytes_of(std::string_view text) noexcept {
  return {text.size(), const_cast<char*>(text.data())};  // the library does not write there
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

  void* (*create)() = nullptr;
  int (*destroy)(void* connection) = nullptr;
  Reply (*close)(void* connection, int code) = nullptr;
  void* (*tcp_socket)(void* connection) = nullptr;
  int (*open)(void* socket, const char* host, int port, const timeval* timeout) = nullptr;
  int (*descriptor)(void* connection) = nullptr;
  Reply (*login)(void* connection, const char* vhost, int channels, int frame, int heartbeat, int method,
                 ...) = nullptr;
  int (*rpc_timeout)(void* connection, const timeval* timeout) = nullptr;
  Reply (*reply)(void* connection) = nullptr;
  void* (*channel_open)(void* connection, std::uint16_t channel) = nullptr;
  void* (*confirm_select)(void* connection, std::uint16_t channel) = nullptr;
  void* (*qos)(void* connection, std::uint16_t channel, std::uint32_t size, std::uint16_t count,
               int global) = nullptr;
  void* (*queue_declare)(void* connection, std::uint16_t channel, Bytes queue, int passive, int durable,
                         int exclusive, int auto_delete, Table arguments) = nullptr;
  void* (*queue_delete)(void* connection, std::uint16_t channel, Bytes queue, int if_unused,
                        int if_empty) = nullptr;
  void* (*consume)(void* connection, std::uint16_t channel, Bytes queue, Bytes tag, int no_local, int no_ack,
                   int exclusive, Table arguments) = nullptr;
  Reply (*next)(void* connection, Envelope* into, const timeval* timeout, int flags) = nullptr;
  void (*free_envelope)(Envelope* envelope) = nullptr;
  int (*ack)(void* connection, std::uint16_t channel, std::uint64_t tag, int multiple) = nullptr;
  int (*publish)(void* connection, std::uint16_t channel, Bytes exchange, Bytes key, int mandatory,
                 int immediate, const Properties* properties, Bytes body) = nullptr;
  int (*wait_frame)(void* connection, Frame* into, const timeval* timeout) = nullptr;
  int (*enqueued)(void* connection) = nullptr;
  int (*buffered)(void* connection) = nullptr;
  void (*release)(void* connection) = nullptr;

 private:
  explicit Library(const std::string& path) {
    using plugins::load;
    void* handle = plugins::open_library(path);
    load(handle, "amqp_new_connection", create);
    load(handle, "amqp_destroy_connection", destroy);
    load(handle, "amqp_connection_close", close);
    load(handle, "amqp_tcp_socket_new", tcp_socket);
    load(handle, "amqp_socket_open_noblock", open);
    load(handle, "amqp_get_sockfd", descriptor);
    load(handle, "amqp_login", login);
    load(handle, "amqp_set_rpc_timeout", rpc_timeout);
    load(handle, "amqp_get_rpc_reply", reply);
    load(handle, "amqp_channel_open", channel_open);
    load(handle, "amqp_confirm_select", confirm_select);
    load(handle, "amqp_basic_qos", qos);
    load(handle, "amqp_queue_declare", queue_declare);
    load(handle, "amqp_queue_delete", queue_delete);
    load(handle, "amqp_basic_consume", consume);
    load(handle, "amqp_consume_message", next);
    load(handle, "amqp_destroy_envelope", free_envelope);
    load(handle, "amqp_basic_ack", ack);
    load(handle, "amqp_basic_publish", publish);
    load(handle, "amqp_simple_wait_frame_noblock", wait_frame);
    load(handle, "amqp_frames_enqueued", enqueued);
    load(handle, "amqp_data_in_buffer", buffered);
    load(handle, "amqp_maybe_release_buffers", release);
  }
};

}  // namespace latlab::rabbitmq
