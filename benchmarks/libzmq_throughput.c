/* libzmq by itself, without a harness: messages a second from a PUSH to a PULL socket.
 *
 * As libzmq's own local_thr, remote_thr and inproc_thr measure it (its perf folder, which distributions don't
 * package): default options, a message object a message, the clock from the first message received to the
 * last.
 *
 *   libzmq_throughput receive ADDRESS SIZE COUNT    bind, and print messages/s
 *   libzmq_throughput send ADDRESS SIZE COUNT       connect, and send
 *   libzmq_throughput inproc ADDRESS SIZE COUNT     both, in two threads, on CPUs 0 and 1
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zmq.h>

struct job {
  void* context;
  const char* address;
  size_t size;
  long count;
};

static void fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, zmq_strerror(zmq_errno()));
  exit(1);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set);
}

static void* send_all(void* argument) {
  const struct job* job = argument;
  void* socket = zmq_socket(job->context, ZMQ_PUSH);
  if (socket == NULL || zmq_connect(socket, job->address) != 0) fail("connect");
  for (long i = 0; i < job->count; i++) {
    zmq_msg_t message;
    if (zmq_msg_init_size(&message, job->size) != 0) fail("message");
    if (zmq_msg_send(&message, socket, 0) < 0) fail("send");
  }
  zmq_close(socket);
  return NULL;
}

static void* send_pinned(void* argument) {
  pin(0);
  return send_all(argument);
}

static void receive_all(const struct job* job, void* socket) {
  zmq_msg_t message;
  double start = 0;
  zmq_msg_init(&message);
  for (long i = 0; i < job->count; i++) {
    if (zmq_msg_recv(&message, socket, 0) < 0) fail("receive");
    if (zmq_msg_size(&message) != job->size) fail("size");
    if (i == 0) start = now();
  }
  printf("%.0f\n", (double)(job->count - 1) / (now() - start));
  zmq_msg_close(&message);
  zmq_close(socket);
}

int main(int argc, char** argv) {
  if (argc != 5) {
    fprintf(stderr, "usage: libzmq_throughput receive|send|inproc ADDRESS SIZE COUNT\n");
    return 2;
  }
  struct job job = {zmq_ctx_new(), argv[2], strtoul(argv[3], NULL, 10), strtol(argv[4], NULL, 10)};
  if (strcmp(argv[1], "send") == 0) {
    send_all(&job);
  } else {
    void* socket = zmq_socket(job.context, ZMQ_PULL);
    if (socket == NULL || zmq_bind(socket, job.address) != 0) fail("bind");
    pthread_t sender;
    const int inproc = strcmp(argv[1], "inproc") == 0;
    if (inproc) {
      // Two threads that take turns on one core are another measurement, and chance decides between them.
      pin(1);
      if (pthread_create(&sender, NULL, send_pinned, &job) != 0) return 1;
    }
    receive_all(&job, socket);
    if (inproc) pthread_join(sender, NULL);
  }
  zmq_ctx_term(job.context);
  return 0;
}
