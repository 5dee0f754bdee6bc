// ClusterSpec: which tasks a cluster has and where they listen. Implemented in
// net/cluster_spec.cpp.
//
// The file format is lines of `job = host:port, host:port`; the n-th address is the job's task n.
// `#` begins a comment. A job may also be given task by task, in any order:
//   ps     = 10.0.0.1:7000, 10.0.0.2:7000
//   worker/0 = [fd00::1]:7000
//   worker/1 = [fd00::2]:7000
#pragma once

#include <map>
#include <string>
#include <vector>

#include "troupe/error.hpp"

namespace troupe {

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
