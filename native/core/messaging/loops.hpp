// Threads: each loop runs on one thread and owns what it is given.
//
// The two loops that a message passes; everything else in the harness happens before or after them.
#pragma once

#include <cstdint>
#include <cstring>
#include <ctime>
#include <latlab/clock.hpp>

#include "messaging/forward.hpp"
#include "messaging/message.hpp"
#include "messaging/run.hpp"

namespace latlab::messaging {

struct SendLoop {
  const Pattern& pattern;
  std::uint64_t* sent;
  std::uint64_t total;
  std::uint64_t batch;
  std::uint64_t sample_every;
  std::atomic<std::uint64_t>& progress;
  Side& side;

  // `ready(n)` waits for the message's time; false ends the loop.
  template <class S, class Ready>
  void run(S& out, Ready&& ready) {
    const bool keeps = out.keeps_bodies();
    const Form form = pattern.form();
    const std::size_t size = form.size();
    std::uint64_t in_batch = 0;
    std::uint64_t until_sample = 1;
    std::uint64_t n = 0;
    for (; n < total; ++n) {
      if (!ready(n)) break;
      std::byte* room = out.claim();
      if (room == nullptr) break;
      if (!keeps || n < batch) std::memcpy(room, form.data(), size);
      form.stamp(room, static_cast<std::uint32_t>(n));
      sent[n] = ticks();
      out.commit();
      if (++in_batch == batch) {
        in_batch = 0;
        if (!out.flush()) break;
        progress.store(n + 1, std::memory_order_relaxed);
      }
      if (--until_sample == 0) {
        until_sample = sample_every;
        side.samples.push_back({n, sent[n], thread_cpu_ns(), 0, 0});
      }
    }
    // A rest that doesn't fill a batch; nothing is left after a failed flush.
    if (in_batch != 0 && n == total && !out.flush()) n -= in_batch;
    side.count = n;
    side.error = out.error();
    progress.store(n, std::memory_order_relaxed);
  }
};

// Messages up to this size that are found together share a clock reading in pairs: the second is taken some
// 2 ns after the first, and the counter itself steps by 10 ns on many machines and takes as long to read.
inline constexpr std::size_t kPaired = 64;

struct ReceiveLoop {
  const Pattern& pattern;
  std::uint64_t* received;
  std::uint64_t* kernel;  // or nullptr
  std::uint64_t total;
  std::uint64_t sample_every;
  std::uint64_t work_ns;
  std::atomic<std::uint64_t>& progress;
  Side& side;
  std::uint64_t expected = 0;
  std::uint64_t until_sample = 1;

  template <class R>
  void run(R& in) {
    while (side.count < total) {
      const Block block = in.receive();
      if (block.count == 0) break;
      take(block);
      progress.store(side.count, std::memory_order_relaxed);
    }
    side.error = in.error();
  }

  void take(const Block& block) {
    // The counter may be read before a load that stands in front of it: without this a message would be
    // stamped before the load that found it, and on a ring that is fast enough before it was sent. Once a
    // block.
    order_reads();
    if (pattern.size() == 64)  // the size that everybody compares
      take_as<64>(block);
    else
      take_as<0>(block);
  }

  template <std::size_t kSize>
  void take_as(const Block& block) {
    // Locals: what lies in memory would be read again after every stamp, which might have changed it.
    const Form form = pattern.form();
    std::uint64_t* const stamps = received;
    std::uint64_t* const kernels = kernel;
    const std::uint64_t work = work_ns;
    const std::uint64_t most = total;
    std::uint64_t next = expected;
    std::uint64_t left = until_sample;
    const bool pairs = form.size() <= kPaired && work == 0;
    std::uint64_t taken = 0;
    std::uint64_t now = 0;
    for (std::size_t i = 0; i < block.count; ++i) {
      const std::byte* body = block.data + i * block.stride;
      if (!pairs || (i & 1U) == 0) now = ticks();
      const std::uint64_t sequence = form.sequence<kSize>(body, static_cast<std::uint32_t>(next));
      if (!form.intact<kSize>(body) || sequence >= most) [[unlikely]] {
        ++side.corrupted;
        continue;
      }
      if (sequence >= next) [[likely]] {
        next = sequence + 1;
      } else if (stamps[sequence] != 0) {
        ++side.duplicated;
        continue;
      } else {
        ++side.reordered;
      }
      stamps[sequence] = now;
      ++taken;
      if (kernels != nullptr) [[unlikely]]
        kernels[sequence] = block.kernel_ns;
      if (--left == 0) [[unlikely]] {
        left = sample_every;
        sample(body, sequence, now);
      }
      if (work != 0) [[unlikely]] {
        const std::uint64_t end = monotonic_ns() + work;
        while (monotonic_ns() < end) {
        }
      }
    }
    expected = next;
    until_sample = left;
    side.count += taken;
  }

  void sample(const std::byte* body, std::uint64_t sequence, std::uint64_t now) {
    Sample s{sequence, now, thread_cpu_ns(), 0, 0};
    if (pattern.size() >= kBrokered) {
      std::memcpy(&s.dwell_ticks, body + 8, 4);
      std::memcpy(&s.broker_cpu_us, body + 12, 4);
    }
    side.samples.push_back(s);
  }
};

}  // namespace latlab::messaging
