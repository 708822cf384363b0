// Threads: as whoever derives from it.
//
// What is neither copied nor moved: others hold its address, or it owns what is there once.
#pragma once

namespace latlab {

class NotCopied {
 public:
  NotCopied(const NotCopied&) = delete;
  NotCopied& operator=(const NotCopied&) = delete;

 protected:
  NotCopied() = default;
  ~NotCopied() = default;
};

}  // namespace latlab
