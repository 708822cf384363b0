/* Threads: both ends are opened by one thread before anything is sent. One thread sends, and closes the
 * sender's end while the other one may still be in receive; the receiver's end is closed when nothing is
 * under way.
 *
 * What a messaging system or a queue exports to be measured by `latlab messaging run --transport ./NAME.so`:
 * a shared object with the one function latlab_messaging_plugin(). The loop that stamps is latlab's own
 * native one, so that a queue costs its own nanoseconds. C and C++; no dependencies. A C++ queue needs six
 * lines instead: messaging_queue.hpp.
 *
 * Version history: 1, the first.
 */
#ifndef LATLAB_MESSAGING_PLUGIN_H
#define LATLAB_MESSAGING_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LATLAB_MESSAGING_ABI 1u

/* What the transport is, as bits of `traits`. */
#define LATLAB_MAY_LOSE 1u    /* a message that was taken need not arrive */
#define LATLAB_MAY_REORDER 2u /* messages need not arrive in the order in which they were sent */
#define LATLAB_CAN_BLOCK 4u   /* send and receive wait, up to 100 ms, where settings.block says so */

enum latlab_role { LATLAB_RECEIVER = 0, LATLAB_SENDER = 1 };

struct latlab_messaging_settings {
  uint32_t abi;        /* LATLAB_MESSAGING_ABI of the caller */
  uint32_t role;       /* enum latlab_role */
  uint64_t size;       /* bytes of each message */
  uint64_t batch;      /* messages that one send hands over, at most */
  uint64_t capacity;   /* messages that the way should hold, as asked by --buffer; 0: the plug-in's choice */
  uint32_t block;      /* 1: send and receive may wait; 0: they return at once */
  uint32_t reserved;   /* 0 */
  const char* options; /* what followed "?" in --transport ./NAME.so?OPTIONS; never NULL */
  void* peer; /* the receiver's end when the sender is opened: of a queue both are the same; else NULL */
};

struct latlab_messaging {
  uint32_t abi;       /* LATLAB_MESSAGING_ABI that the plug-in was built with */
  uint32_t traits;    /* LATLAB_MAY_LOSE | ... */
  uint64_t max_bytes; /* of a message */
  const char* name;   /* a word, for tables */
  const char* title;  /* a line, in words */
  /* The receiver is opened first. 0, and the end in *end; else a positive errno. The sender may be given the
   * receiver's end (*end = settings->peer): then close is called once. */
  int (*open)(const struct latlab_messaging_settings* settings, void** end);
  /* Takes up to `count` messages of `size` bytes, which lie one behind the other. How many were taken: fewer,
   * and 0, where there is no room now; a negative errno where the peer has gone or the system refused. */
  long (*send)(void* end, const void* messages, size_t size, size_t count);
  /* Brings up to `count` messages of `size` bytes, one behind the other. How many came; 0: none now; a
   * negative errno; -EPIPE where the sender has closed and nothing is left. */
  long (*receive)(void* end, void* into, size_t size, size_t count);
  /* Gives up an end; the sender's is closed first. */
  void (*close)(void* end);
};

/* The one symbol of a plug-in. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const struct latlab_messaging* latlab_messaging_plugin(void);

#ifdef __cplusplus
}
#endif
#endif
