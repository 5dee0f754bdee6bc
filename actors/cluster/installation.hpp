// Installation: the executors of one executable in one process. It starts a step in all of them and
// reports once, when it has ended in all.
// Owner: the agent, for masters' installations; a master, for the client's own. Thread: any.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "actors/cluster/process.hpp"
#include "actors/engine/executor.hpp"
#include "devices/run_context.hpp"

namespace troupe {

class Process;

class Installation : public std::enable_shared_from_this<Installation> {
 public:
  // `partitions`: those on devices of this process. Throws: Error(invalid_argument) for a node
  // without a kernel.
  static std::shared_ptr<Installation> make(uint64_t session, uint32_t executable,
                                            std::shared_ptr<const Graph> graph,
                                            std::vector<Partition> partitions, Process& process);
  ~Installation();

  uint32_t executable() const { return executable_; }
  const std::set<std::string>& peers() const { return peers_; }  // tasks with edges from or to it
  const std::set<std::string>& senders() const { return senders_; }  // peers with edges to it
  // Edge -> actor id, for all edges that end in this process.
  std::map<int32_t, uint64_t> receivers() const;
  void connect(int32_t edge, const OpHandle& receiver);

  void forget_before(int64_t run);  // in all executors
  // Runs a step in all executors. `sources` are values for the executor `fed`; `keep` names those
  // of its values to hand over. `here`: the caller's thread fires that executor, as it waits for
  // the step anyway.
  using Done = std::function<void(StepResult, std::vector<Tensor> kept)>;
  void run(const RunContext& info, PartitionExecutor* fed,
           const std::vector<std::pair<uint32_t, Tensor>>& sources,
           const std::vector<uint32_t>& keep, bool here, Done done);
  void cancel(int64_t run, Errc code, const std::string& text);
  void cancel_all(Errc code, const std::string& text);
  // Sends the op actors of the node BecomeOp; returns their number. Throws, before any changes: as
  // with_op() (actors/engine/program/op_code.hpp).
  int64_t become(const std::string& node, const std::shared_ptr<const Op>& op);
  void check(const std::string& node, const std::shared_ptr<const Op>& op) const;  // only checks

  const std::vector<std::shared_ptr<PartitionExecutor>>& executors() const { return executors_; }
  Resources* resources() const { return resources_.get(); }  // its steps keep them
  InputPort* input() const { return input_; }
  PartitionExecutor* executor_on(const std::string& device) const;  // nullptr if there is none
  int64_t running() const;
  std::map<int32_t, EdgeCount> edge_counts() const;         // sent so far, by edge
  std::vector<std::string> waiting_for(int64_t run) const;  // nodes of all executors

 private:
  Installation(Process& process, uint64_t session, uint32_t executable);

  Process& process_;
  const Occupants::Firing firing_;  // destroyed last
  const uint32_t executable_;
  const std::shared_ptr<Resources> resources_;
  InputPort* const input_;
  std::set<std::string> peers_, senders_;
  std::vector<std::shared_ptr<PartitionExecutor>> executors_;
};

}  // namespace troupe
