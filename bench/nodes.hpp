// Nodes of a cluster for benchmarks: processes of the program actor-node, run as users run it; they
// end with their parent.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace troupe::bench {

struct NodePlace {
  std::string job;
  int task = 0;
  int core = -1;  // of all its threads; -1: the cores of this process
};

class Nodes {
 public:
  // Starts the nodes on loopback with one thread each, as one cluster, and waits until they listen.
  // Throws: Error(io) if actor-node is not built.
  explicit Nodes(const std::vector<NodePlace>& places);
  Nodes(const std::string& job, int count);  // on the cores of this process
  ~Nodes();                                  // sends SIGTERM, then waits
  Nodes(const Nodes&) = delete;

  std::string addresses() const;                                    // "host:port,host:port"
  const std::vector<std::string>& names() const { return names_; }  // "/job:ps/task:0", ...
  pid_t pid(int i) const { return pids_[static_cast<size_t>(i)]; }

 private:
  void add(const NodePlace& place);
  void end();

  const std::filesystem::path folder_;  // the nodes write their addresses here
  std::vector<pid_t> pids_;
  std::vector<std::string> names_, addresses_;
};

}  // namespace troupe::bench
