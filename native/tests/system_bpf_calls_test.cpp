#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <optional>
#include <random>
#include <string>
#include <system_error>
#include <vector>

#include "check.hpp"
#include "system/bpf_calls.hpp"
#include "system/bpf_kept.hpp"
#include "system/bpf_program.hpp"
#include "system/btf.hpp"
#include "system/cpu_rings.hpp"
#include "system/descriptor.hpp"
#include "system/slot_store.hpp"

namespace {

namespace bpf = latlab::system::bpf;
using latlab::system::BpfEvent;
using latlab::system::BpfKept;
using latlab::system::BpfSamples;
using latlab::system::CpuRings;
using latlab::system::Descriptor;
using latlab::system::SlotStore;

constexpr std::uint32_t kPayload = 64;

struct Transfer {
  bpf::CallSlot slot{};
  std::uint8_t payload[bpf::kLine] = {};

  Transfer(std::uint64_t time_ns, std::uint64_t socket, const std::string& text) {
    slot.time_ns = time_ns;
    slot.pid_tgid = (7ULL << 32U) | 8U;
    slot.subject = socket;
    slot.bytes = sizeof(*this);
    slot.result = static_cast<std::int32_t>(text.size());
    slot.call = 1;
    slot.first = 5;
    slot.captured = static_cast<std::uint32_t>(text.size());
    std::memcpy(payload, text.data(), text.size());
  }
  const bpf::Slot& get() const { return reinterpret_cast<const bpf::Slot&>(slot); }
};

BpfKept kept_transfers() {
  BpfEvent event;
  event.raw_bytes = 32;
  event.registers = true;
  event.payload_bytes = kPayload;
  event.key_at = 8;
  event.places = {8, 16, 18, 20, 24};
  event.counted = true;
  return {{event}, 1U << 30U, {}};
}

template <class T>
T value(const BpfSamples& samples, std::size_t row, std::size_t place) {
  T out{};
  std::memcpy(&out, samples.raw.data() + row * samples.stride + place, sizeof(out));
  return out;
}

// What the programs and the reader share, where this process may load programs.
struct Kernel {
  CpuRings rings;
  Descriptor counters{bpf::make_counters(1)}, processes{bpf::make_processes()},
      few{bpf::make_few_processes()}, sampling{bpf::make_sampling()};

  int load(const char* tracepoint, bool sampled) {
    const auto& found = bpf_types().tracepoints.at(tracepoint);
    const bpf::Typed what = bpf::typed(tracepoint, found.arguments);
    CHECK(what != bpf::Typed::kNone);
    rings.open(1U << 22U, bpf::kCallRings);
    const bpf::CallProgram wanted{what,
                                  rings.map(),
                                  rings.bytes(),
                                  rings.cpus(),
                                  counters.get(),
                                  0,
                                  what == bpf::Typed::kTransfer ? kPayload : 0U,
                                  {processes.get(), few.get()},
                                  sampled ? sampling.get() : -1};
    return bpf::load(bpf::call_program(wanted, bpf_types()), found.type);
  }
  static const latlab::system::btf::Scheduler& bpf_types() { return *latlab::system::btf::scheduler(); }
};

// None, and says so, where the kernel describes no types or lets us load nothing.
std::optional<Kernel>& kernel(std::optional<Kernel>& made) {
  try {
    if (latlab::system::btf::scheduler() != nullptr) made.emplace();
  } catch (const std::system_error& error) {
    if (error.code().value() != EPERM && error.code().value() != ENOSYS) throw;
  }
  if (!made) std::cout << "skipped: no BPF programs may be loaded here\n";
  return made;
}

}  // namespace

TEST("a call that was kept becomes the row that perf's tracepoint would have given") {
  BpfKept kept = kept_transfers();
  kept.keep(1, Transfer(100, 0xA0, "hello").get(), bpf::Typed::kTransfer);
  kept.keep(0, Transfer(200, 0xA0, "").get(), bpf::Typed::kTransfer);
  CHECK_EQUAL(2U, kept.waiting()[0]);
  const auto counts = kept.counts();
  CHECK_EQUAL(1U, counts[0].keys.size());
  CHECK_EQUAL(2U, counts[0].counts[0]);
  CHECK_EQUAL(2U, kept.notes().descriptors.size());
  const auto all = kept.columns_of(kept.take(), {bpf::Typed::kTransfer});
  const BpfSamples& rows = all[0];
  CHECK_EQUAL(2U, rows.time_ns.size());
  CHECK_EQUAL(200U, rows.time_ns[1]);
  CHECK_EQUAL(1, rows.cpu[0]);
  CHECK_EQUAL(0, rows.cpu[1]);
  CHECK_EQUAL(7, rows.pid[0]);
  CHECK_EQUAL(8, rows.tid[0]);
  CHECK_EQUAL(0xA0U, value<std::uint64_t>(rows, 0, 8));
  CHECK_EQUAL(5, value<std::int32_t>(rows, 0, 20));
  CHECK_EQUAL(5, rows.registers[latlab::system::kBpfFirst]);
  CHECK_EQUAL(2 * (kPayload + 8U), rows.payload.size());
  CHECK_EQUAL(std::string("hello"),
              std::string(reinterpret_cast<const char*>(rows.payload.data()) + 8, rows.payload[0]));
  CHECK_EQUAL(0U, kept.waiting()[0]);
  CHECK_EQUAL(0U, kept.take().counts[0]);
}

TEST("a descriptor is told once, and again once it was told: it may be another file's by then") {
  BpfKept kept = kept_transfers();
  for (const std::size_t told : {2U, 2U, 0U}) {
    for (int times = 0; times < 3 && told != 0; ++times)
      kept.keep(0, Transfer(100, 0xA0, "hello").get(), bpf::Typed::kTransfer);
    CHECK_EQUAL(told, kept.notes().descriptors.size());
  }
}

TEST("a call that says more bytes than its record has is lost, and said so") {
  BpfKept kept = kept_transfers();
  Transfer spoiled(100, 0xA0, "hello");
  spoiled.slot.captured = bpf::kLine + 1;
  kept.keep(0, spoiled.get(), bpf::Typed::kTransfer);
  Transfer short_one(100, 0xA0, "");
  short_one.slot.bytes = sizeof(bpf::Slot);
  kept.keep(0, short_one.get(), bpf::Typed::kTransfer);
  CHECK_EQUAL(0U, kept.waiting()[0]);
  CHECK_EQUAL(2U, kept.dropped());
}

TEST("slots come out of their store in the order in which they went in, with their CPUs") {
  constexpr std::uint64_t kCount = 150'000;  // of 128 bytes: several pieces
  SlotStore store;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    const Transfer one(i, 0xA0, "x");
    CHECK(store.add(static_cast<std::int32_t>(i / 1000 % 3), one.get(), sizeof(one), 5));
  }
  std::uint64_t next = 0, wrong = 0;
  store.drain([&](std::int32_t cpu, const bpf::Slot& slot) {
    const auto expected = static_cast<std::int32_t>(next / 1000 % 3);
    wrong += slot.time_ns != next || cpu != expected || slot.bytes != sizeof(Transfer) ? 1U : 0U;
    ++next;
  });
  CHECK_EQUAL(kCount, next);
  CHECK_EQUAL(0U, wrong);
  CHECK(store.empty());
}

TEST("slots of every size come out of their store as they went in, whatever they have in common") {
  constexpr std::size_t kCount = 20'000;
  std::mt19937_64 chance(7);
  std::vector<std::vector<std::uint64_t>> all;
  SlotStore store;
  std::size_t whole = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    const std::size_t count = i % 50 == 0 ? 136 : 5 + chance() % 24, bytes = 8 * count;
    std::vector<std::uint64_t> words(count, 0x6E616D65);
    words[0] = chance() % 7 == 0 ? chance() : 1000 * i;  // also backwards
    words[1] = chance() % 5;
    words[3] = (chance() % 6) | bytes << 16U;
    for (std::size_t change = chance() % 9; change > 0; --change)
      words[4 + chance() % (count - 4)] = chance() >> (chance() % 64);
    const std::size_t told = chance() % 2 == 0 ? bytes : 40 + chance() % (bytes - 39);
    CHECK(store.add(3, *reinterpret_cast<const bpf::Slot*>(words.data()), told, chance() % 3));
    whole += bytes;
    std::memset(reinterpret_cast<std::uint8_t*>(words.data()) + told, 0, bytes - told);  // what is not told
    all.push_back(std::move(words));
  }
  CHECK(store.bytes() < whole);
  std::size_t next = 0, wrong = 0;
  store.drain([&](std::int32_t, const bpf::Slot& slot) {
    wrong += std::memcmp(&slot, all[next].data(), 8 * all[next].size()) != 0 ? 1U : 0U;
    ++next;
  });
  CHECK_EQUAL(kCount, next);
  CHECK_EQUAL(0U, wrong);
}

TEST("a call that is made again and again takes a tenth of its bytes") {
  constexpr std::size_t kCount = 10'000;
  SlotStore store;
  for (std::size_t i = 0; i < kCount; ++i)
    CHECK(store.add(0, Transfer(50'000 * i, 0xA0, "GET /").get(), sizeof(bpf::CallSlot) + 5, 5));
  CHECK(store.bytes() < kCount * sizeof(Transfer) / 10);
}

TEST("a slot that is longer than a program makes one does not go into the store") {
  std::vector<std::uint64_t> words(2 * bpf::kMostCaptured / 8);
  auto& slot = *reinterpret_cast<bpf::Slot*>(words.data());
  slot.bytes = static_cast<std::uint16_t>(8 * words.size());
  SlotStore store;
  CHECK(!store.add(0, slot, slot.bytes, 0));
  slot.bytes = bpf::kLine;
  CHECK(!store.add(0, slot, slot.bytes + 1, 0));
  CHECK(store.empty());
}

TEST("a thread has the name that it was given last before that time, and before all of them the first") {
  const auto named = [](std::uint64_t time_ns, std::int32_t thread, const char* text) {
    bpf::NameSlot out{};
    out.time_ns = time_ns;
    out.pid_tgid = (7ULL << 32U) | static_cast<std::uint32_t>(thread);
    char name[16];
    std::memset(name, '.', sizeof(name));  // what the kernel leaves behind the end
    std::memcpy(name, text, std::strlen(text) + 1);
    std::memcpy(&out.first, name, 8);
    std::memcpy(&out.second, name + 8, 8);
    return out;
  };
  latlab::system::ThreadNames names;
  names.add(named(300, 8, "worker"));
  names.add(named(100, 8, "sh"));  // of a ring that is read later
  names.add(named(400, 8, "worker"));
  names.add(named(100, 0, "swapper/1"));
  const auto called = [&](std::int32_t thread, std::uint64_t time_ns) {
    return std::string(names.of(thread, time_ns, 2).data());
  };
  CHECK_EQUAL(std::string("sh"), called(8, 50));
  CHECK_EQUAL(std::string("sh"), called(8, 299));
  CHECK_EQUAL(std::string("worker"), called(8, 300));
  CHECK_EQUAL(std::string("worker"), called(8, 1000));
  CHECK_EQUAL(std::string("swapper/2"), called(0, 100));
  CHECK_EQUAL(std::string(), called(9, 100));
  for (const char end : names.of(8, 50, 2)) CHECK(end == 's' || end == 'h' || end == 0);
}

TEST("the kernel's verifier takes each program of what goes in and out") {
  std::optional<Kernel> made;
  if (!kernel(made) || !made.has_value()) return;
  for (const char* name : {"sock_send_length", "sock_recv_length", "sk_data_ready", "page_fault_user",
                           "page_fault_kernel", "sched_process_fork"}) {
    if (!Kernel::bpf_types().tracepoints.contains(name)) continue;  // of another kernel, or kind of CPU
    const bool of_socket = std::string(name).starts_with('s') && !std::string(name).starts_with("sched");
    const Descriptor program(made->load(name, of_socket));
    CHECK(program.get() >= 0);
  }
}

TEST("what a wanted process sends is in a ring with its first bytes, and a stranger's is not") {
  std::optional<Kernel> made;
  if (!kernel(made) || !made.has_value() || !Kernel::bpf_types().tracepoints.contains("sock_send_length"))
    return;
  const Descriptor program(made->load("sock_send_length", false));
  const Descriptor attached(bpf::attach(program.get()));
  int ends[2];
  CHECK_EQUAL(0, socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
  const Descriptor one(ends[0]), other(ends[1]);
  CHECK_EQUAL(8, send(one.get(), "stranger", 8, 0));
  bpf::add_process({made->processes.get(), made->few.get()}, static_cast<std::uint32_t>(getpid()));
  CHECK_EQUAL(5, send(one.get(), "hello", 5, 0));
  std::vector<std::string> seen;
  made->rings.drain([&](std::int32_t, const bpf::Slot& slot) {
    const auto& call = reinterpret_cast<const bpf::CallSlot&>(slot);
    seen.emplace_back(reinterpret_cast<const char*>(&call + 1), call.captured);
    CHECK_EQUAL(static_cast<std::uint64_t>(getpid()), slot.pid_tgid >> 32U);
    CHECK_EQUAL(5, call.result);
  });
  CHECK_EQUAL(1U, seen.size());
  CHECK_EQUAL(std::string("hello"), seen[0]);
  CHECK_EQUAL(0U, made->rings.lost());
}
