// Calls: the prepared calls of one master. Prunes and places the nodes of a call, has the passes
// rewrite them (placement/call_graph.hpp), cuts the graph, installs the parts on their tasks, and
// installs a call again when a lost member has returned. MasterState decides the order of these;
// this carries them out.
//
// A call has an immutable graph of its own: so it can be installed again, on any thread, while the
// program adds nodes to its graph. When it dies, the installations are lost; workers drop them when
// told.
//
// Owner: the master. Thread: any; become() one caller at a time.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/cluster/installation.hpp"
#include "actors/master/master_state.hpp"
#include "actors/master/members.hpp"
#include "actors/master/remote_parts.hpp"
#include "placement/call_graph.hpp"
#include "placement/partition.hpp"
#include "placement/placement.hpp"

namespace troupe {

// The parts of a call that do not change.
struct PreparedCall {
  int64_t id = 0;
  int64_t version = 0;  // unique in its session; names the output of the passes
  std::shared_ptr<const Graph> graph;
  std::vector<Output> fetches, feeds;  // of `graph`
  std::vector<int64_t> replicas;       // they take a training step with each run
  std::vector<int32_t> nodes;          // the nodes that run
  std::vector<int32_t> asked;          // the nodes of the program's graph that it was made of
  Placement placement;
  std::vector<Partition> partitions;
  std::vector<Absorbed> absorbed;  // the changes of the passes to nodes of the program's graph
};

// An installation of a call that is ready on all its tasks.
struct LiveCall {
  uint32_t executable = 0;
  std::shared_ptr<Installation> local;
  PartitionExecutor* client = nullptr;            // takes feeds and holds fetches; may be null
  std::vector<uint32_t> feed_slots, fetch_slots;  // of `client`
  std::vector<std::pair<std::string, caf::actor>> remotes;  // task, its worker's door
  bool one_local_executor() const {
    return remotes.empty() && client && local->executors().size() == 1;
  }
};

class Calls {
 public:
  // `settled` is called, with no lock held, when a call became ready or failed. `asker`
  // (actors/async/ask.hpp) outlives this.
  Calls(Process& process, Members& members, const caf::actor& asker, Graph& graph, uint64_t session,
        std::function<void(int64_t call)> settled);

  // Makes sure that the parameters among the nodes of a call, numbered as in the program's graph,
  // exist before it runs. Calls back once, on any thread.
  using Ensure =
      std::function<void(std::vector<int32_t> nodes, std::function<void(Errc, std::string)>)>;
  void set_ensure(Ensure ensure);

  // The number of the call with these fetches and feeds. The first time, and again after a failure,
  // this thread prepares it and reads the graph. Throws: Error(invalid_argument).
  int64_t prepare(const std::vector<Output>& fetches, const std::vector<Output>& feeds);
  // Waits until the call can run. Throws: the call's failure, or, at the deadline, Error(peer_lost)
  // naming the missing members.
  void wait_ready(int64_t call, std::chrono::milliseconds timeout);

  struct Standing {
    std::shared_ptr<const PreparedCall> prepared;
    std::shared_ptr<const LiveCall> live;  // null: not ready
    Errc code = Errc::ok;                  // the failure, if it failed
    std::string text;
  };
  Standing standing(int64_t call) const;
  // Grows whenever a call becomes ready or stops being ready: until then a Standing stays valid.
  // Any thread; takes no lock.
  uint64_t changes() const { return changes_.load(std::memory_order_acquire); }
  std::string missing_tasks(int64_t call) const;  // those that are not up, separated by commas
  std::string broken_text(int64_t call) const;    // the reason of the last reinstallation

  void member_up(const Member& member);
  void member_down(const Member& member, const std::string& reason);
  // The task does not have the executable: it restarted before the mesh reported it, or has lost a
  // link.
  void missing(const std::string& task, uint32_t executable);
  void retry();  // Retries installs that failed with a transient error. Call periodically.

  // Replaces the kernel of the named node by that of `op`, in prepared calls and later ones, here
  // and in other processes, which know ops by name alone. Returns the number of executors that run
  // the new kernel. Throws: Error(invalid_argument) if it does not fit, or if `by_name` is false
  // and the node runs elsewhere; Error with the code of another process's answer. One caller at a
  // time.
  int64_t become(const std::string& node, const std::shared_ptr<const Op>& op, bool by_name);
  // The op actors of that node in this process, one for each executor that runs it.
  std::vector<OpHandle> op_actors(const std::string& node) const;

  std::vector<PlacedNode> placement(int64_t call) const;
  std::vector<CutEdge> cut_edges(int64_t call) const;  // asks all processes; blocks
  std::string dot(int64_t call) const;
  std::string describe() const;
  void stop();  // no call becomes ready any more, and waits end
  void drop();  // drops the installations in this process; after the last run
  RemoteParts& remote() { return remote_; }

 private:
  struct Call {
    std::shared_ptr<const PreparedCall> prepared;
    Errc code = Errc::ok;
    std::string error;
    std::shared_ptr<Installation> local;
    std::shared_ptr<const LiveCall> live;
    std::string broken;                 // the reason why it is not live
    std::map<int32_t, EdgeCount> sent;  // by earlier installations, by edge
  };
  struct Later {  // work for after the mutex is released
    std::vector<int64_t> settled;
    std::vector<std::shared_ptr<Installation>> old;
  };

  void check(const std::vector<Output>& fetches, const std::vector<Output>& feeds) const;
  PreparedCall make(const std::vector<Output>& fetches, const std::vector<Output>& feeds,
                    bool passes);
  PreparedCall make_with_replaced(const std::vector<Output>& fetches,
                                  const std::vector<Output>& feeds);
  PlacementOptions wishes() const;
  void ensured(int64_t call, Errc code, const std::string& text);
  void on_event(const std::function<MasterOrders(MasterState&)>& event);
  void tell(const Later& later);
  // calls_become.cpp
  struct Remade {  // a call without passes, in which all nodes run their own kernels
    int64_t id = 0;
    std::vector<Output> fetches, feeds;  // of the program's graph
    PreparedCall call;
  };
  void make_again(Remade& remade, int32_t node, const std::shared_ptr<const Op>& op);
  void become_there(const std::string& node, const std::string& op,
                    const std::set<std::string>& tasks, int64_t& executors);
  // All below: require mutex_.
  bool absorbs_replaced(const PreparedCall& call) const;
  std::vector<Remade> absorbing(int32_t node) const;
  std::vector<std::shared_ptr<Installation>> installed_here(
      const std::vector<Remade>& without) const;
  bool here(const PreparedCall& call) const;  // true if all of it runs in this process
  void install(const Call& call, Later& later);
  void carry_out(MasterOrders orders, Later& later);
  MasterOrders carry_out(const MasterOrder& order, Call& call, Later& later);
  MasterOrders install_here(Call& call);
  MasterOrders connect_here(Call& call);
  MasterOrders install_there(const Call& call, const MasterOrder& order);
  void connect_there(const MasterOrder& order);
  void uninstall_there(const MasterOrder& order);
  void forget_local(Call& call, Later& later);
  void hand_out_graph() const;
  std::set<std::string> tasks_of_node(const std::string& node) const;
  void fail(Call& call, Errc code, const std::string& text, Later& later);
  std::shared_ptr<const LiveCall> make_live(const Call& call) const;

  Process& process_;
  Members& members_;
  const caf::actor& asker_;
  Graph& graph_;
  const uint64_t session_;
  const std::function<void(int64_t call)> settled_;
  RemoteParts remote_;

  std::atomic<uint64_t> changes_{0};
  mutable std::mutex mutex_;  // guards the rest; taken before those of Members and RemoteParts
  std::condition_variable changed_;
  MasterState state_;
  Ensure ensure_;
  int64_t versions_ = 0;
  std::map<std::pair<std::vector<Output>, std::vector<Output>>, int64_t> ids_;
  std::map<int64_t, Call> calls_;
  std::map<std::string, std::shared_ptr<const Op>> replaced_;  // by node
  bool stopped_ = false;
};

}  // namespace troupe
