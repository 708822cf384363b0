// Threads: made, run and summed up by one thread; stop() from any, and from a signal handler.
//
// Wires a plan's stages and queues together and runs them on the plan's threads.
#pragma once

#include <latlab/trace.hpp>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "pipeline/exchange.hpp"
#include "pipeline/plan.hpp"
#include "pipeline/stages.hpp"

namespace latlab::pipeline {

enum class Role : std::uint8_t { trading, execution };

class Pipeline {
 public:
  // Throws PlanError, or std::runtime_error from a shared-memory segment.
  Pipeline(const Plan& plan, Role role);
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  void run();
  void stop() noexcept;
  // What happened, as one line of JSON.
  [[nodiscard]] std::string summary() const;

 private:
  // Threads that run the same instances: one for a dedicated or shared thread, several for a worker pool.
  struct Crew {
    std::vector<Instance*> instances;
    EventCount signal;
    WaitPolicy wait = WaitPolicy::block;
    std::uint64_t spin_ticks = 0;
    SharedRing<Order>* ring = nullptr;  // the execution process sleeps on its ring
  };
  struct Worker {
    Crew* crew = nullptr;
    std::string name;
    int cpu = -1;
    std::uint64_t cpu_ns = 0;
    std::uint64_t voluntary_switches = 0;
    std::uint64_t involuntary_switches = 0;
  };

  void wire_trading(const Plan& plan);
  void wire_execution(const Plan& plan);
  void staff(const Plan& plan);
  void work(Worker& worker);
  void pause(Crew& crew, bool spun_out);
  [[nodiscard]] Crew* crew_of(const std::string& instance);

  template <class T>
  std::vector<Channel<T>*> channels(const Plan& plan, std::string_view key, const std::string& instance);

  Role role_;
  double ticks_per_ns_ = 1.0;
  std::unique_ptr<TraceFile> traces_;
  std::vector<std::unique_ptr<FeedFile>> files_;
  Symbols symbols_;
  std::unique_ptr<MessagePool> pool_;
  std::map<std::string, std::unique_ptr<Channel<Packet>>> packet_channels_;
  std::map<std::string, std::unique_ptr<Channel<Message*>>> message_channels_;
  std::map<std::string, std::unique_ptr<Channel<Update>>> update_channels_;
  std::map<std::string, SharedRing<Order>> rings_;
  std::vector<std::unique_ptr<Instance>> instances_;
  std::map<std::string, std::unique_ptr<Crew>> crews_;
  std::vector<Worker> workers_;
  std::unique_ptr<Exchange> exchange_;
  std::atomic<bool> stop_{false};
  std::uint64_t wall_ns_ = 0;
  std::uint64_t began_ns_ = 0;
};

}  // namespace latlab::pipeline
