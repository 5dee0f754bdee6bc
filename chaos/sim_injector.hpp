// SimInjector: strikes a SimCluster with its faults. One that is due strikes at an event of the
// history; a message, a frame, a call to the disk or a fail point meets those that wait for it.
// docs/simulation.md lists the faults that do not happen.
#pragma once

#include "chaos/sim_processes.hpp"
#include "chaos/sim_world.hpp"

namespace troupe::sim {

class SimInjector {
 public:
  // Requires: both outlive it, and no process lives yet.
  SimInjector(SimWorld& world, SimProcesses& processes, const Faults& faults);
  SimInjector(const SimInjector&) = delete;
  ~SimInjector();  // nothing strikes any more

  // The fault is due. Throws: Violation.
  void strike(const Fault& fault);
  // After each event: kills the processes that have died at a fail point in it.
  void bury();
  // Ends the cuts whose time is over.
  void heal();

 private:
  bool may(const Fault& fault, const SimPeer* who, const SimPeer* other) const;
  bool may_die(const SimPeer& peer) const;
  void lose_power(TimePoint back_at, uint64_t seed);
  FailTable::Act reached(FailPoint point);
  Verdict meet(const SimFrame& frame);
  bool damages(const SimFrame& frame, int from, int to);

  SimWorld& world_;
  SimProcesses& processes_;
};

}  // namespace troupe::sim
