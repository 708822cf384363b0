#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "columns.hpp"
#include "messaging/channel.hpp"
#include "messaging/forward.hpp"
#include "messaging/plugin.hpp"
#include "messaging/run.hpp"
#include "messaging/series.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using latlab::bind::dict_of;
namespace lm = latlab::messaging;

namespace {

using Array = nb::ndarray<nb::numpy, std::uint64_t, nb::ndim<1>>;

// The run's own memory: it lives as long as the array does.
Array view(const lm::Words& words, nb::handle owner) {
  return {words.data(), {words.size()}, owner};
}

using Series = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Integers = nb::ndarray<nb::numpy, std::int64_t, nb::ndim<1>>;

std::span<const std::int64_t> span(const Series& series) {
  return {series.data(), series.size()};
}

Integers array(std::vector<std::int64_t>&& values) {
  auto* kept = new std::vector<std::int64_t>(std::move(values));
  const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<std::int64_t>*>(p); });
  return {kept->data(), {kept->size()}, owner};
}

nb::dict side(const lm::Side& s) {
  return dict_of("count", s.count, "duplicated", s.duplicated, "reordered", s.reordered, "corrupted",
                 s.corrupted, "cpu_ns", s.cpu_ns, "minor_faults", s.minor_faults, "major_faults",
                 s.major_faults, "voluntary_switches", s.voluntary_switches, "involuntary_switches",
                 s.involuntary_switches, "waited_ns", s.waited_ns, "error", s.error, "pinned", s.pinned);
}

// Shape (samples, 5): message, ticks, CPU ns, ticks in the broker, the broker's CPU us.
nb::ndarray<nb::numpy, std::uint64_t, nb::ndim<2>> samples(const lm::Side& s) {
  auto* values = new std::vector<std::uint64_t>();
  values->reserve(s.samples.size() * 5);
  for (const auto& x : s.samples) {
    values->insert(values->end(), {x.message, x.at_ticks, x.cpu_ns, x.dwell_ticks, x.broker_cpu_us});
  }
  const nb::capsule owner(values,
                          [](void* p) noexcept { delete static_cast<std::vector<std::uint64_t>*>(p); });
  return {values->data(), {s.samples.size(), 5}, owner};
}

std::tuple<std::uint64_t, std::uint64_t> pair(const latlab::ClockReference& r) {
  return {r.ticks, r.ns};
}

}  // namespace

NB_MODULE(messaging, m) {
  m.doc() = "Sends, forwards and receives numbered messages, and keeps when each was sent and received.";

  nb::class_<lm::ChannelSpec>(m, "ChannelSpec",
                              "One end of a transport: KIND:DESCRIPTOR and how to wait for it.")
      .def(
          "__init__",
          [](lm::ChannelSpec* self, std::string text, std::size_t size, std::size_t batch, bool poll,
             bool yield, bool kernel_stamps, std::string library, int priority) {
            new (self) lm::ChannelSpec{.text = std::move(text),
                                       .size = size,
                                       .batch = batch,
                                       .poll = poll,
                                       .yield = yield,
                                       .kernel_stamps = kernel_stamps,
                                       .library = std::move(library),
                                       .priority = priority};
          },
          "text"_a, nb::kw_only(), "size"_a, "batch"_a = 1, "poll"_a = false, "yield_"_a = false,
          "kernel_stamps"_a = false, "library"_a = "", "priority"_a = 0);

  nb::class_<lm::RunPlan>(m, "RunPlan", "What to send, when, and on which cores.")
      .def(
          "__init__",
          [](lm::RunPlan* self, std::uint64_t messages, double period_ns, std::uint64_t burst,
             std::vector<std::uint32_t> gaps_ns, bool sleep, std::uint64_t sample_every,
             std::uint64_t receiver_work_ns, int sender_cpu, int receiver_cpu, int priority, bool pingpong) {
            new (self) lm::RunPlan{.messages = messages,
                                   .period_ns = period_ns,
                                   .burst = burst,
                                   .gaps_ns = std::move(gaps_ns),
                                   .sleep = sleep,
                                   .sample_every = sample_every,
                                   .receiver_work_ns = receiver_work_ns,
                                   .sender_cpu = sender_cpu,
                                   .receiver_cpu = receiver_cpu,
                                   .priority = priority,
                                   .pingpong = pingpong};
          },
          nb::kw_only(), "messages"_a, "period_ns"_a = 0.0, "burst"_a = 1,
          "gaps_ns"_a = std::vector<std::uint32_t>{}, "sleep"_a = true, "sample_every"_a = 1000,
          "receiver_work_ns"_a = 0, "sender_cpu"_a = -1, "receiver_cpu"_a = -1, "priority"_a = 0,
          "pingpong"_a = false);

  nb::class_<lm::Run>(m, "Run", "One measured run.")
      .def(nb::init<const lm::ChannelSpec&, const lm::ChannelSpec&, lm::RunPlan>(), "out"_a, "in_"_a,
           "plan"_a)
      .def("start", &lm::Run::start, nb::call_guard<nb::gil_scoped_release>())
      .def("wait", &lm::Run::wait, "seconds"_a, nb::call_guard<nb::gil_scoped_release>(),
           "True once both loops have ended.")
      .def("stop", &lm::Run::stop, nb::call_guard<nb::gil_scoped_release>(), "End both loops.")
      .def(
          "progress",
          [](const lm::Run& run) {
            const auto p = run.progress();
            return std::make_tuple(p.sent, p.received, p.sender_done, p.receiver_done);
          },
          "(sent, received, sender has ended, receiver has ended)")
      .def(
          "threads",
          [](const lm::Run& run) { return std::make_tuple(run.threads().first, run.threads().second); },
          "The kernel's numbers of the sending and the receiving thread; 0 of one that hasn't begun.")
      .def(
          "sender", [](const lm::Run& run) { return side(run.sender()); },
          nb::sig("def sender(self) -> dict[str, int]"))
      .def(
          "receiver", [](const lm::Run& run) { return side(run.receiver()); },
          nb::sig("def receiver(self) -> dict[str, int]"))
      .def("sender_samples", [](const lm::Run& run) { return samples(run.sender()); })
      .def("receiver_samples", [](const lm::Run& run) { return samples(run.receiver()); })
      .def("sent_ticks", [](nb::handle self) { return view(nb::cast<lm::Run&>(self).sent(), self); })
      .def("received_ticks", [](nb::handle self) { return view(nb::cast<lm::Run&>(self).received(), self); })
      .def("kernel_ns",
           [](nb::handle self) -> nb::object {
             const auto* words = nb::cast<lm::Run&>(self).kernel();
             return words == nullptr ? nb::none() : nb::cast(view(*words, self));
           })
      .def_prop_ro("base_ticks", &lm::Run::base_ticks)
      .def_prop_ro("ticks_per_ns", &lm::Run::ticks_per_ns)
      .def_prop_ro("realtime_offset_ns", &lm::Run::realtime_offset_ns)
      .def_prop_ro("process_cpu_ns", &lm::Run::process_cpu)
      .def_prop_ro("locked", &lm::Run::locked)
      .def_prop_ro("from_", [](const lm::Run& run) { return pair(run.from()); })
      .def_prop_ro("to", [](const lm::Run& run) { return pair(run.to()); });

  nb::class_<lm::ForwardPlan>(m, "ForwardPlan", "What the trivial broker does besides forwarding.")
      .def(
          "__init__",
          [](lm::ForwardPlan* self, const std::vector<std::tuple<std::uint64_t, std::uint64_t>>& stalls,
             std::uint64_t sample, std::uint64_t work, std::uint64_t drop, std::uint64_t repeat,
             std::uint64_t swap, std::uint64_t damage, int cpu, int priority) {
            new (self) lm::ForwardPlan{.sample_every = sample,
                                       .work_ns = work,
                                       .drop_every = drop,
                                       .repeat_every = repeat,
                                       .swap_every = swap,
                                       .damage_every = damage,
                                       .cpu = cpu,
                                       .priority = priority};
            for (const auto& [message, ns] : stalls) self->stalls.push_back({message, ns});
          },
          nb::kw_only(), "stalls"_a = std::vector<std::tuple<std::uint64_t, std::uint64_t>>{}, "sample"_a = 0,
          "work"_a = 0, "drop"_a = 0, "repeat"_a = 0, "swap"_a = 0, "damage"_a = 0, "cpu"_a = -1,
          "priority"_a = 0);

  nb::class_<lm::Forwarder>(m, "Forwarder", "The trivial broker on a thread of this process.")
      .def(nb::init<const lm::ChannelSpec&, const lm::ChannelSpec&, lm::ForwardPlan>(), "in_"_a, "out"_a,
           "plan"_a)
      .def("stop", &lm::Forwarder::stop, nb::call_guard<nb::gil_scoped_release>())
      .def(
          "result",
          [](lm::Forwarder& self) {
            lm::ForwardResult r;
            {
              const nb::gil_scoped_release release;
              r = self.result();
            }
            std::vector<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>> stalls;
            for (const auto& s : r.stalls) stalls.emplace_back(s.message, s.from_ticks, s.to_ticks);
            return std::make_tuple(r.forwarded, r.cpu_ns, r.error, std::move(stalls));
          },
          "Wait for the end: (messages forwarded, CPU ns, errno, stalls as (message, from, to) in ticks).")
      .def("cpu_ns", &lm::Forwarder::cpu_ns);

  m.def(
      "plugin",
      [](const std::string& path) {
        const latlab_messaging& found = lm::load_plugin(path);
        nb::dict d;
        d["name"] = found.name;
        d["title"] = found.title;
        d["max_bytes"] = found.max_bytes;
        d["may_lose"] = (found.traits & LATLAB_MAY_LOSE) != 0;
        d["may_reorder"] = (found.traits & LATLAB_MAY_REORDER) != 0;
        d["can_block"] = (found.traits & LATLAB_CAN_BLOCK) != 0;
        return d;
      },
      "path"_a, nb::sig("def plugin(path: str) -> dict[str, typing.Any]"),
      "What a shared object says of itself as a transport; ValueError where it is none.");
  m.def("ring_create", &lm::ring_create, "fd"_a, "size"_a, "slots"_a,
        "Lay a ring out in a memory descriptor.");
  m.def("ring_bytes", &lm::ring_bytes, "size"_a, "slots"_a);
  m.def(
      "open_message_queue",
      [](std::size_t size, std::size_t depth) {
        const auto ends = lm::open_message_queue(size, depth);
        return std::make_tuple(ends.receive, ends.send);
      },
      "size"_a, "depth"_a, "(receiving, sending) descriptor of a POSIX queue without a name.");
  m.def(
      "count_differences",
      [](const Series& to, const Series& from) {
        lm::Counted counted;
        {
          const nb::gil_scoped_release release;
          counted = lm::count_differences(span(to), span(from));
        }
        return std::make_tuple(array(std::move(counted.values)), array(std::move(counted.counts)));
      },
      "to"_a, "from_"_a,
      "(distinct values of to - from, rising; how often each occurs). An empty `from_` counts `to` itself.");
  m.def(
      "steps",
      [](const Series& sent, const Series& received, const Series& latency) {
        lm::Steps s;
        {
          const nb::gil_scoped_release release;
          s = lm::steps(span(sent), span(received), span(latency));
        }
        return std::make_tuple(s.rising, s.falling, s.violations, s.backwards);
      },
      "sent"_a, "received"_a, "latency"_a,
      "(latencies that rise, that fall, violations of the identity, stamps that run backwards).");
  m.def(
      "harness_cost",
      [](std::size_t size, int rounds) {
        const auto triple = [](const lm::HarnessCost& c) {
          return std::make_tuple(c.sender_ns, c.receiver_ns, c.clock_ns);
        };
        const auto c = lm::harness_cost(size, rounds);
        return std::make_tuple(triple(c.median), triple(c.best));
      },
      "size"_a, "rounds"_a = 25, nb::call_guard<nb::gil_scoped_release>(),
      "Median and best of interleaved rounds, each (sender, receiver, clock): ns that the harness adds to a "
      "message.");
}
