// A queue's name, and the stages that fill and drain it.
#pragma once
#include <latlab/queue.hpp>

static latlab::QueueInfo info(const char* name, const char* from, const char* to) {
  latlab::QueueInfo i;
  i.name = name;
  i.source = {"", from};
  i.drain = {"", to};
  return i;
}
