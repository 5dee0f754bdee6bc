// LocalCluster: members of a cluster, each a Process with its own actor system and sockets on
// loopback, in this one operating system process.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "actors/cluster/process.hpp"
#include "troupe/session.hpp"

namespace troupe {

class LocalCluster {
 public:
  // `tasks`: "/job:worker/task:0" and so on. `threads`: of each. `ops`: all that its
  // graphs may use; left out: the builtin ones. `lease`: ClusterOptions::lease. `services`: of
  // each; null: those of production.
  explicit LocalCluster(const std::vector<std::string>& tasks, int threads = 1,
                        std::shared_ptr<const Registry> ops = builtin_ops(),
                        std::chrono::milliseconds lease = kLease,
                        const ServicesFactory* services = nullptr)
      : tasks_(tasks), threads_(threads), ops_(std::move(ops)), lease_(lease), services_(services) {
    for (size_t n = 0; n < tasks.size(); ++n) {
      nodes_.push_back(std::make_unique<Node>());
      addresses_.push_back(start(n, "127.0.0.1:0"));
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
  // That one anew, where it was; it has been stopped.
  void restart(size_t n) { start(n, addresses_.at(n)); }

 private:
  struct Node final : MeshListener {
    std::unique_ptr<Process> process;
    void up(const Member& member, const caf::actor& agent) override {
      process->peer_up(member, agent);
    }
    void down(const Member& member, const std::string& reason) override {
      process->peer_down(member, reason);
    }
    void refused(Errc, const std::string&) override {}
  };

  std::string start(size_t n, const std::string& listen) {
    ClusterOptions cluster{.listen = listen, .lease = lease_};
    for (const std::string& address : addresses_)
      if (address != listen) cluster.seeds.push_back(address);
    ProcessOptions options{.threads = threads_, .cuda = false, .ops = ops_};
    if (services_) options.services = services_;
    Node& node = *nodes_.at(n);
    node.process =
        std::make_unique<Process>(tasks_.at(n), Process::draw_incarnation(), options, cluster);
    return node.process->start(&node);
  }

  const std::vector<std::string> tasks_;
  const int threads_;
  const std::shared_ptr<const Registry> ops_;
  const std::chrono::milliseconds lease_;
  const ServicesFactory* const services_;
  std::vector<std::string> addresses_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

}  // namespace troupe
