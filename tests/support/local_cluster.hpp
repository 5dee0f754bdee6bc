// LocalCluster: members of a cluster, each a Process with its own actor system and sockets on
// loopback, in this one operating system process.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "actors/process.hpp"
#include "troupe/session.hpp"

namespace troupe {

class LocalCluster {
 public:
  // `tasks`: "/job:worker/task:0" and so on.
  explicit LocalCluster(const std::vector<std::string>& tasks) : tasks_(tasks) {
    for (const std::string& task : tasks) {
      Node& node = *nodes_.emplace_back(std::make_unique<Node>());
      ClusterOptions cluster;
      if (!addresses_.empty()) cluster.seeds = {addresses_[0]};
      ProcessOptions options;
      options.threads = 1;
      options.cuda = false;
      node.process = std::make_unique<Process>(task, Process::draw_incarnation(), options, cluster);
      const std::string address = node.process->start(&node);
      addresses_.push_back(address);
    }
  }
  ~LocalCluster() {
    for (const auto& node : nodes_) node->process->stop();
  }

  // A client that has found all members. Ends before the cluster does.
  Session connect(Graph& graph, LogSink log = {}, ConnectOptions options = {}) const {
    options.process.threads = 1;
    options.process.cuda = false;
    options.process.log = std::move(log);
    options.wait_for = tasks_;
    return Session::connect(graph, addresses_[0], options);
  }

  const std::string& address(size_t n) const { return addresses_.at(n); }
  // The member that is the n-th of the tasks.
  Process& process(size_t n) const { return *nodes_.at(n)->process; }

 private:
  struct Node final : MeshListener {
    std::unique_ptr<Process> process;
    void up(const Member&, const caf::actor&) override {}
    void down(const Member& member, const std::string& reason) override {
      process->peer_down(member, reason);
    }
    void refused(Errc, const std::string&) override {}
  };

  const std::vector<std::string> tasks_;
  std::vector<std::string> addresses_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

}  // namespace troupe
