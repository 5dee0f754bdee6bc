// Calls: the prepared calls of one master. Prepares a call the first time it is wanted, has the
// Installer install its parts, and installs a call again when a lost member has returned.
// MasterState decides the order of these.
//
// Owner: the master. Thread: any; become() one caller at a time.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/master/installer.hpp"

namespace troupe {

class Calls {
 public:
  // `settled` is called, with no lock held, when a call became ready or failed. `asker`
  // (actors/async/ask.hpp) outlives this.
  Calls(Process& process, Members& members, const Asker& asker, Graph& graph, uint64_t session,
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

  // From now on other tasks stand for the named ones, in prepared calls and later ones: these are
  // installed anew where they move. A call that takes no training step stays where it is as long as
  // its tasks are up and none of `leaving`; its runs under way end with cancelled if it moves.
  void set_places(Places places, const std::set<std::string>& leaving);

  struct Standing {
    std::shared_ptr<const PreparedCall> prepared;
    std::shared_ptr<const LiveCall> live;  // null: not ready
    Errc code = Errc::ok;                  // the failure, if it failed
    std::string text;
  };
  Standing standing(int64_t call) const;
  // Grows whenever a call becomes ready or stops being ready: until then a Standing stays valid.
  // Any thread; takes no lock.
  uint64_t changes() const { return installer_.changes(); }
  uint64_t fence() const { return installer_.fence(); }  // of a run that begins now
  std::string missing_tasks(int64_t call) const;         // the tasks that are not up, by commas
  std::vector<std::string> awaited_tasks(int64_t call) const;  // as MasterState's
  std::string broken_text(int64_t call) const;  // the reason of the last reinstallation

  void member_up(const Member& member);
  void member_down(const Member& member, const std::string& reason);
  // The task does not have the executable: it restarted before the mesh reported it, or has lost a
  // link.
  void missing(const std::string& task, uint32_t executable);
  void retry();  // Retries installs that failed with a transient error. Call periodically.

  // Replaces the kernel of the named node by that of `op`, in prepared calls and later ones, here
  // and in other processes, which know ops by name alone. Returns the number of executors that run
  // the new kernel. Throws: Error(invalid_argument) if it does not fit, if a pass has absorbed the
  // node in a prepared call, or if `by_name` is false and the node runs elsewhere; Error with the
  // code of another process's answer. One caller at a time.
  int64_t become(const std::string& node, const std::shared_ptr<const Op>& op, bool by_name);
  // The op actors of that node in this process, one for each executor that runs it.
  std::vector<OpHandle> op_actors(const std::string& node) const;

  // True if a call that takes training steps has nodes there.
  bool trains_on(const std::string& task) const;
  std::vector<PlacedNode> placement(int64_t call) const;
  std::vector<CutEdge> cut_edges(int64_t call) const;  // asks all processes; blocks
  std::string dot(int64_t call) const;
  std::string describe() const;
  void stop();  // no call becomes ready any more, and waits end
  void drop();  // drops the installations in this process; after the last run
  RemoteParts& remote() { return installer_.remote(); }

 private:
  using Later = Installer::Later;
  using Asked = std::pair<std::vector<Output>, std::vector<Output>>;  // fetches and feeds
  struct AskedOrder {
    bool operator()(const Asked& a, const Asked& b) const {
      constexpr OutputOrder less;
      return less(a.first, b.first) || (!less(b.first, a.first) && less(a.second, b.second));
    }
  };
  // Placed by the names of the graph.
  PreparedCall make(const std::vector<Output>& fetches, const std::vector<Output>& feeds,
                    bool passes) const;
  bool stays(int64_t call, const std::set<std::string>& leaving) const;  // requires mutex_
  PreparedCall make_with_replaced(const std::vector<Output>& fetches,
                                  const std::vector<Output>& feeds);
  void change(const std::function<void(Later&)>& work);
  void on_event(const std::function<MasterOrders(MasterState&)>& event);
  void tell(const Later& later);
  void become_there(const std::string& node, const std::string& op,
                    const std::set<std::string>& tasks, int64_t& executors);
  // All below: require mutex_.
  bool absorbs_replaced(const PreparedCall& call) const;
  // Throws: Error(invalid_argument) naming the pass by which a prepared call has no such node.
  void refuse_absorbed(int32_t node) const;
  void hand_out_graph() const;

  Process& process_;
  Members& members_;
  const Asker& asker_;
  Graph& graph_;
  const uint64_t session_;
  const std::function<void(int64_t call)> settled_;

  mutable std::mutex mutex_;  // guards the rest; taken before those of Members and RemoteParts
  std::condition_variable changed_;
  Ensure ensure_;
  int64_t versions_ = 0;
  std::map<Asked, int64_t, AskedOrder> ids_;
  bool stopped_ = false;
  Places places_;
  Installer installer_;
};

}  // namespace troupe
