// latlab-broker IN OUT key=value...: forwards messages between two inherited descriptors in a process of its
// own.
#include <sys/prctl.h>
#include <unistd.h>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "messaging/forward.hpp"
#include "settings.hpp"

namespace {

using latlab::apps::number;

latlab::messaging::StopFlag stop{false};

using Plan = latlab::messaging::ForwardPlan;
const std::map<std::string_view, std::uint64_t Plan::*> kCounts{
    {"sample", &Plan::sample_every}, {"work", &Plan::work_ns},    {"drop", &Plan::drop_every},
    {"repeat", &Plan::repeat_every}, {"swap", &Plan::swap_every}, {"damage", &Plan::damage_every}};

int run(const std::vector<std::string_view>& arguments) {
  if (arguments.size() < 3) throw std::invalid_argument("usage: latlab-broker IN OUT key=value...");
  latlab::messaging::ChannelSpec in{.text = std::string(arguments[1])};
  latlab::messaging::ChannelSpec out{.text = std::string(arguments[2])};
  Plan plan;
  for (std::size_t i = 3; i < arguments.size(); ++i) {
    const auto [key, value] = latlab::apps::setting(arguments[i]);
    const auto counted = kCounts.find(key);
    if (counted != kCounts.end())
      plan.*counted->second = number(value);
    else if (key == "size")
      in.size = out.size = number(value);
    else if (key == "batch")
      out.batch = number(value);
    else if (key == "poll")
      in.poll = out.poll = number(value) != 0;
    else if (key == "yield")
      in.yield = out.yield = number(value) != 0;
    else if (key == "library")
      in.library = out.library = std::string(value);
    else if (key == "cpu")
      plan.cpu = static_cast<int>(number(value));
    else if (key == "priority")
      plan.priority = static_cast<int>(number(value));
    else if (key == "library_priority")
      in.priority = out.priority = static_cast<int>(number(value));
    else if (key == "stall") {  // MESSAGE:NS
      const auto colon = value.find(':');
      if (colon == std::string_view::npos) throw std::invalid_argument("stall=MESSAGE:NS");
      plan.stalls.push_back({number(value.substr(0, colon)), number(value.substr(colon + 1))});
    } else {
      throw std::invalid_argument("there is no setting '" + std::string(key) + "'");
    }
  }
  const auto receiver = latlab::messaging::make_receiver(in, stop);
  const auto sender = latlab::messaging::make_sender(out, stop);
  latlab::messaging::pin_thread(plan.cpu);
  latlab::messaging::raise_priority(plan.priority);
  if (std::puts("ready") < 0 || std::fflush(stdout) != 0) return 1;  // who started us waits for this line
  const auto result = latlab::messaging::forward(*receiver, *sender, in.size, plan, stop);
  std::printf("forwarded=%llu cpu_ns=%llu error=%d", static_cast<unsigned long long>(result.forwarded),
              static_cast<unsigned long long>(result.cpu_ns), result.error);
  for (const auto& s : result.stalls) {
    std::printf(" stalled=%llu:%llu:%llu", static_cast<unsigned long long>(s.message),
                static_cast<unsigned long long>(s.from_ticks), static_cast<unsigned long long>(s.to_ticks));
  }
  std::puts("");
  return result.error == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  // A broker never outlives the run that started it, however that ends.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::signal(SIGPIPE, SIG_IGN);
  struct sigaction action{};
  action.sa_handler = [](int) {
    stop.store(true);
    alarm(1);  // again: a signal just before a waiting system call interrupts nothing
  };
  sigemptyset(&action.sa_mask);
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGALRM, &action, nullptr);
  try {
    return run({argv, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "latlab-broker: %s\n", error.what());
    return 2;
  }
}
