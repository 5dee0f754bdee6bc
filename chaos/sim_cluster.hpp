// SimCluster: ps, workers and one or two programs as real processes in one thread and under
// virtual time. The next event is drawn from the seed: a job of any actor of any process, the next
// event on the network, or an act of a program (sim_trainer.hpp).
//
// The processes begin and die in sim_processes.hpp, and faults strike them in sim_injector.hpp, at
// events of the history; each fault ends by itself. The invariants are checked after every event
// (shard_ledger.hpp): also that a training begins soon after all processes are there, and gets on
// soon after the last fault has ended (I16), and at the end that no request is open (I21).
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "chaos/sim_injector.hpp"
#include "chaos/sim_processes.hpp"
#include "chaos/sim_world.hpp"

namespace troupe::sim {

// The balance of a run, also of one that has failed.
struct SimOutcome {
  int64_t acknowledged = 0, lost = 0;          // gradients
  int64_t us = 0;                              // virtual time
  std::map<std::string, int64_t> faults = {};  // that have happened, by kind

  void add(const SimOutcome& other);
};

class SimCluster {
 public:
  // `golden`: the chain of values of a run without faults, which this run must equal; may be null.
  SimCluster(const SimClusterOptions& options, uint64_t seed, const Faults& faults,
             const HashChain* golden, History& history);

  // Throws: Violation.
  void run();
  SimOutcome outcome() const;
  const CalmRun& calm() const { return world_.progress.calm; }  // of a run without faults
  const HashChain& chain() const { return world_.ledger.chain(); }
  const std::string& weights() const { return processes_.last_program().life->trainer->weights(); }
  const SimDisk& disk() const { return world_.disk; }
  // Also those of programs that have died.
  std::map<int64_t, std::string> looked() const { return processes_.looked(); }

 private:
  void step();
  void next_event();
  void step_network();
  void run_job(SimPeer& peer);
  void pass_time();
  SimTrainer* act_as(SimPeer& peer);
  void check();
  void check_told(SimPeer& peer, const std::string& path);
  void check_progress();
  void check_end();
  void check_end_of(const SimPeer& peer, std::set<uint32_t>& slices);

  SimWorld world_;
  SimProcesses processes_;
  SimInjector injector_;
  Draw draw_;
  int64_t events_ = 0;
  TimePoint tick_at_ = world_.net.now();
};

}  // namespace troupe::sim
