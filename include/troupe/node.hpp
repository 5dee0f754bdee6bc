// A node of a cluster: one process that offers its devices to sessions and holds parameter shards.
// Implemented in training/node.cpp. The program actor-node is a thin shell around this.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "troupe/session.hpp"

namespace troupe {

struct NodeOptions {
  std::string cluster = "troupe";
  std::string job = "worker";
  int task = 0;
  std::string listen = "127.0.0.1:0";   // port 0: any free one
  std::vector<std::string> seeds = {};  // members to join by, "host:port"; empty: this is the first
  ProcessOptions process = {};
  bool insecure = false;  // allow listening beyond loopback without TLS
  std::function<void(const std::string& address)> on_listening = {};  // told the real address
};

// Runs until `stop` is set, or somebody asks the node to leave. Throws: Error(bad_configuration)
// when the cluster refuses us, with its reason; Error(io) when the port is in use, with what to do.
void run_node(const NodeOptions& options, const std::atomic<bool>& stop);

}  // namespace troupe
