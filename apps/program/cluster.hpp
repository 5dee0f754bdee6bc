// The cluster that a program runs on: given by --spec, or by TROUPE_CLUSTER, TROUPE_PS and
// TROUPE_WORKERS, as `actor-node up` sets them. Without one the program runs in its own process.
//
// Owner: the program. Thread: the one that reads the command line.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "troupe/session.hpp"

struct Cluster {
  std::string addresses;  // "host:port,host:port"; empty: this process alone
  std::string name = "troupe";
  std::vector<std::string> tasks = {};  // ps and workers
  int workers = 0;                      // 0: this process alone
  std::chrono::seconds patience{60};    // for nodes that are not there yet
  std::string secret_file = {};         // ConnectOptions::secret_file
  std::string tls_dir = {};             // ConnectOptions::tls_dir

  troupe::Session open(troupe::Graph& graph, const troupe::ProcessOptions& process) const;
  // For Graph::ScopeSpec: the worker of part number `part`; parts go round the workers. Empty
  // without a cluster.
  std::string device(int64_t part) const;
};

// `spec`: the path of a file as read_cluster_spec() reads it. `name`: the cluster's. Throws:
// Error(invalid_argument) for a wait below 1 s and for variables that hold no numbers of tasks; as
// read_cluster_spec().
Cluster find_cluster(const std::optional<std::string>& spec, const std::optional<std::string>& name,
                     int wait_seconds);
