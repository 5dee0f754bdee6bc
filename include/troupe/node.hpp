// A node of a cluster: one process that offers its devices to sessions and holds parameter shards;
// and ClusterSpec, which tasks a cluster has and where they listen. Implemented in
// training/group/node.cpp and net/wire/cluster_spec.cpp. The program actor-node is a thin shell
// around this.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
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

// ---- which tasks a cluster has ----

// As a file: lines of `job = host:port, host:port`; the n-th address is the job's task n. `#`
// begins a comment. A job may also be given task by task, in any order:
//   ps     = 10.0.0.1:7000, 10.0.0.2:7000
//   worker/0 = [fd00::1]:7000
//   worker/1 = [fd00::2]:7000
struct ClusterSpec {
  // Addresses by job; the index is the task number. Jobs: ps, worker, chief, evaluator, client.
  std::map<std::string, std::vector<std::string>> jobs;
  std::string origin;  // where it came from, for people: "cluster.txt", "--ps 2 --workers 2"

  std::vector<std::string> tasks() const;  // "/job:ps/task:0", ..., all of them
  std::vector<std::string> addresses()
      const;  // in the same order; what a joining process takes as seeds
  // Throws: Error(bad_configuration) naming the task, and which there are.
  const std::string& address(const std::string& job, int task) const;
};

// Throws: Error(bad_configuration) for a job that no cluster has; `job` is what --job was given.
void check_job(const std::string& job);
// Throws: Error(io) when the file cannot be read; Error(bad_configuration) with file and line for
// two tasks with one address, a missing index, an unknown job, a job without tasks, no worker, or
// an address that is none.
ClusterSpec read_cluster_spec(const std::string& path);
// `name` stands for the file in messages.
ClusterSpec parse_cluster_spec(const std::string& text, const std::string& name);
// A cluster on this machine. `first_port` 0: the processes draw free ports ("127.0.0.1:0"); else
// they count up from it. Throws: Error(bad_configuration) without a worker, or for more ports than
// there are.
ClusterSpec local_cluster_spec(int ps, int workers, int first_port = 0);
std::string to_string(const ClusterSpec& spec);  // the file format, with the origin as a comment

}  // namespace troupe
