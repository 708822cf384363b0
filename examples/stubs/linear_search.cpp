// Connections::get(id) with 1 to 400 entries, against its stub: nanoseconds a call, a line each:
// entries;original or stub;run;ns. The last entry is asked for, the first call of each run isn't counted.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <latlab/stub.hpp>

#include "connections.hpp"
#include "connections_spec.hpp"  // written by `latlab stubs spec`

namespace {

constexpr int kRuns = 5;
constexpr int kCalls = 2000;

double now_ns() {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Calls `get` once outside the time and then kCalls times; returns ns a call, or less than 0 where it was
// wrong.
template <class Get>
double measured(int id, Get get) {
  bool right = get(id)->port() == 4000 + id;
  const double start = now_ns();
  for (int i = 0; i < kCalls; ++i) right = right && get(id)->port() == 4000 + id;
  const double ns = (now_ns() - start) / kCalls;
  return right ? ns : -1.0;
}

}  // namespace

int main(int, char** arguments) {
  namespace stub = latlab::stub;
  for (int entries = 1; entries <= 400; entries = entries < 20 ? entries + 1 : entries + 20) {
    const Connections connections(entries);
    const int last = entries - 1;
    stub::record(arguments[1]);
    for (int i = 0; i <= kCalls; ++i) stub::save_state("get", "class Connection", connections.get(last));
    stub::stop();
    for (int run = 0; run < kRuns; ++run) {
      const double original = measured(last, [&](int id) { return connections.get(id); });
      stub::replay(arguments[1]);
      Connection kept;  // overwritten in place, as the caller's object is
      const double stubbed = measured(last, [&](int) { return stub::load_state("get", &kept); });
      stub::stop();
      if (original < 0 || stubbed < 0) return 1;
      std::printf("%d;original;%d;%.3f\n%d;stub;%d;%.3f\n", entries, run, original, entries, run, stubbed);
    }
  }
}
