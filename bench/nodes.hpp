// Nodes of a cluster for benchmarks: processes of the program actor-node, run as users run it; they
// end with their parent.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace troupe::bench {

class Nodes {
 public:
  // Starts `count` nodes of `job` on loopback with one thread each, and waits until they listen.
  // Throws: Error(io) if actor-node is not built.
  Nodes(const std::string& job, int count);
  ~Nodes();  // sends SIGTERM, then waits
  Nodes(const Nodes&) = delete;

  std::string addresses() const;           // "host:port,host:port"
  std::vector<std::string> names() const;  // "/job:ps/task:0", ...
  pid_t pid(int i) const { return pids_[static_cast<size_t>(i)]; }

 private:
  void add(int task);
  void end();

  const std::string job_;
  const std::filesystem::path folder_;  // the nodes write their addresses here
  std::vector<pid_t> pids_;
  std::vector<std::string> addresses_;
};

}  // namespace troupe::bench
