// Threads: opened once, under a lock; immutable afterwards. A connection belongs to one thread at a time.
//
// librabbitmq (rabbitmq-c), the C client of AMQP 0-9-1, opened at run time: latlab is built without it and
// links to no product. What is declared here is what its header gives to everybody, from 0.8 to 0.15.
#pragma once

#include <sys/time.h>
#include <cstddef>
#include <cstdint>
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

class Library : plugins::Symbols {
 public:
  explicit Library(const std::string& path) : Symbols(path) {}

  void* (*create)() = symbol("amqp_new_connection");
  int (*destroy)(void* connection) = symbol("amqp_destroy_connection");
  Reply (*close)(void* connection, int code) = symbol("amqp_connection_close");
  void* (*tcp_socket)(void* connection) = symbol("amqp_tcp_socket_new");
  int (*open)(void* socket, const char* host, int port,
              const timeval* timeout) = symbol("amqp_socket_open_noblock");
  int (*descriptor)(void* connection) = symbol("amqp_get_sockfd");
  Reply (*login)(void* connection, const char* vhost, int channels, int frame, int heartbeat, int method,
                 ...) = symbol("amqp_login");
  int (*rpc_timeout)(void* connection, const timeval* timeout) = symbol("amqp_set_rpc_timeout");
  Reply (*reply)(void* connection) = symbol("amqp_get_rpc_reply");
  void* (*channel_open)(void* connection, std::uint16_t channel) = symbol("amqp_channel_open");
  void* (*confirm_select)(void* connection, std::uint16_t channel) = symbol("amqp_confirm_select");
  void* (*qos)(void* connection, std::uint16_t channel, std::uint32_t size, std::uint16_t count,
               int global) = symbol("amqp_basic_qos");
  void* (*queue_declare)(void* connection, std::uint16_t channel, Bytes queue, int passive, int durable,
                         int exclusive, int auto_delete, Table arguments) = symbol("amqp_queue_declare");
  void* (*queue_delete)(void* connection, std::uint16_t channel, Bytes queue, int if_unused,
                        int if_empty) = symbol("amqp_queue_delete");
  void* (*consume)(void* connection, std::uint16_t channel, Bytes queue, Bytes tag, int no_local, int no_ack,
                   int exclusive, Table arguments) = symbol("amqp_basic_consume");
  Reply (*next)(void* connection, Envelope* into, const timeval* timeout,
                int flags) = symbol("amqp_consume_message");
  void (*free_envelope)(Envelope* envelope) = symbol("amqp_destroy_envelope");
  int (*ack)(void* connection, std::uint16_t channel, std::uint64_t tag,
             int multiple) = symbol("amqp_basic_ack");
  int (*publish)(void* connection, std::uint16_t channel, Bytes exchange, Bytes key, int mandatory,
                 int immediate, const Properties* properties, Bytes body) = symbol("amqp_basic_publish");
  int (*wait_frame)(void* connection, Frame* into,
                    const timeval* timeout) = symbol("amqp_simple_wait_frame_noblock");
  int (*enqueued)(void* connection) = symbol("amqp_frames_enqueued");
  int (*buffered)(void* connection) = symbol("amqp_data_in_buffer");
  void (*release)(void* connection) = symbol("amqp_maybe_release_buffers");
};

}  // namespace latlab::rabbitmq
