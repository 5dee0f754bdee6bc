// ChaosCluster: the processes that faults strike: `actor-node up` with its nodes, which announce
// the proxies' addresses, and the program, which is a child of our own, so that it can be killed
// and started again without an end of the cluster.
//
// Owner: ChaosRun. Thread: its own. All processes die with us, also frozen ones.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "apps/troupe/chaos/faults.hpp"
#include "apps/troupe/chaos/proxies.hpp"

struct ClusterFlags {
  Processes processes;
  int threads = 0, restarts = 0;
  double frozen_after = 3;
  std::vector<std::string> plugins;
};

// The parts of steps that each worker has finished, by "worker/1".
using StepsByWorker = std::map<std::string, uint64_t>;

class ChaosCluster {
 public:
  // Starts `up`. `folder`: for logs, pid files and the secret. Throws: Error(io).
  ChaosCluster(const ClusterFlags& flags, std::filesystem::path folder, Proxies& proxies);
  ~ChaosCluster();
  ChaosCluster(const ChaosCluster&) = delete;

  // True once the nodes' addresses are known to the proxies, and the program can start.
  bool ready();
  // `output`: its standard output. Throws: Error(io).
  void start_program(const std::vector<std::string>& command, int output);
  pid_t supervisor() const { return up_; }
  pid_t program() const { return program_; }
  // `process`: "worker/1", "program". 0: it is not there.
  pid_t pid_of(const std::string& process) const;
  // Sends a signal to the process, to all of its group for the program.
  void signal(const std::string& process, pid_t pid, int number) const;
  void set_away(const std::string& node, bool away) const;
  StepsByWorker steps() const;
  std::string last_words() const;  // of the supervisor

  // A child has ended; true if it was the program.
  bool ended(pid_t pid);
  // Asks all to end; PROGRAM with signal `number`.
  void stop(int number);
  void kill_all();
  bool any_running() const { return up_ > 0 || program_ > 0; }

 private:
  const ClusterFlags flags_;
  const std::filesystem::path folder_;
  Proxies& proxies_;
  pid_t up_ = 0, program_ = 0;
  std::string cluster_;  // for TROUPE_CLUSTER; empty: not ready
  int steps_ = -1;       // the file of TROUPE_STEPS_OUT
};
