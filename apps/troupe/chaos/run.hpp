// ChaosRun: one run of the program on a cluster, with the faults of a schedule, which may be none.
//
// Owner: chaos(). Thread: its own; one loop serves links, faults, lines and signals.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/troupe/chaos/cluster.hpp"
#include "apps/troupe/chaos/injector.hpp"
#include "apps/troupe/chaos/leaks.hpp"
#include "apps/troupe/chaos/output.hpp"
#include "apps/troupe/chaos/proxies.hpp"

struct RunPlan {
  std::vector<std::string> program, resume_with;  // the words behind it when it is started again
  ClusterFlags cluster;
  FaultSizes sizes;
  std::vector<Fault> faults;
};

class ChaosRun {
 public:
  ChaosRun(const RunPlan& plan, const std::filesystem::path& folder, SmallDisk& disk,
           RunOutput& output);

  // Returns the exit code of the program, or of a cluster that ended without it.
  int run();
  const Injector& injector() const { return injector_; }
  const Leaks& leaks() const { return leaks_; }

 private:
  using Time = std::chrono::steady_clock;

  void wait(std::chrono::milliseconds most);
  void look_at_children();
  void start_program(bool again);
  void tick();
  void end();

  const RunPlan& plan_;
  RunOutput& output_;
  Proxies proxies_;
  ChaosCluster cluster_;
  Injector injector_;
  Leaks leaks_;
  std::optional<int> code_;
  Time::time_point tick_at_{}, looked_at_{};
  Time::time_point start_at_{};  // of the program, if it is to be started `again_`
  bool again_ = false, looked_last_ = false;
};
