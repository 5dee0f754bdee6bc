// A node of a cluster: one process that offers its devices to sessions and holds parameter shards.
// Implemented in training/node.cpp. The program actor-node is a thin shell around this.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "troupe/session.hpp"

namespace troupe {

struct NodeOptions {
  std::string cluster = "troupe";
  std::string job = "worker";  // or ps, chief, evaluator, client
  int task = 0;
  std::string listen = "127.0.0.1:0";   // port 0: any free one
  std::vector<std::string> seeds = {};  // members to join by, "host:port"; empty: this is the first
  // Tasks that the cluster will have, "/job:ps/task:0": until all are there, a log line says now
  // and then who is missing. The node runs all the same.
  std::vector<std::string> wait_for = {};
  ProcessOptions process = {};
  bool insecure = false;  // allow listening beyond loopback without TLS
  std::function<void(const std::string& address)> on_listening = {};  // told the real address
  // For a supervisor: called every `alive_every` as long as the network thread runs, on it. Silence
  // means what it means to the other members: the process is frozen.
  std::function<void()> on_alive = {};
  std::chrono::milliseconds alive_every{200};
};

// Runs until `stop` is set, or somebody asks the node to leave. Throws: Error(bad_configuration)
// for a job that is none, and when the cluster refuses us, with its reason; Error(io) when the port
// is in use, with what to do; Error(internal) when the node's own actor died.
void run_node(const NodeOptions& options, const std::atomic<bool>& stop);

// Asks the members at `options.seeds` for a task number of `options.job` that nobody has; it is
// kept for the asker for some seconds. Throws: Error(peer_lost) when nobody answers within
// `timeout`; Error(bad_configuration) when the cluster refuses us.
int draw_task(const NodeOptions& options,
              std::chrono::milliseconds timeout = std::chrono::seconds(60));

}  // namespace troupe
