// Installer: carries out the orders of MasterState. It makes the executors of a prepared call in
// this process, has RemoteParts install the parts of others, connects them, and drops what has a
// successor. A call is live while all its parts are installed and connected.
//
// When it dies, the installations are lost; workers drop them when told.
// Owner: Calls. Thread: any, one at a time (the lock of Calls), except for changes() and remote().
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/cluster/installation.hpp"
#include "actors/master/master_state.hpp"
#include "actors/master/members.hpp"
#include "actors/master/prepared_call.hpp"
#include "actors/master/remote_parts.hpp"

namespace troupe {

// An installation of a call that is ready on all its tasks.
struct LiveCall {
  uint32_t executable = 0;
  std::shared_ptr<Installation> local;
  PartitionExecutor* client = nullptr;                 // takes feeds and holds fetches; may be null
  std::vector<uint32_t> feed_slots, fetch_slots;       // of `client`
  std::vector<std::pair<std::string, Agent>> remotes;  // task, its agent's door
  bool one_local_executor() const {
    return remotes.empty() && client && local->executors().size() == 1;
  }
};

// A call and the present state of its installation.
struct InstalledCall {
  std::shared_ptr<const PreparedCall> prepared;
  Errc code = Errc::ok;  // the failure, if it failed
  std::string error;
  std::shared_ptr<Installation> local;
  std::shared_ptr<const LiveCall> live;  // null: not ready
  std::string broken;                    // the reason why it is not live
  std::map<int32_t, EdgeCount> sent;     // by earlier installations, by edge
};

class Installer {
 public:
  struct Later {                   // work for after the lock is released
    std::vector<int64_t> settled;  // calls that became ready or failed
    std::vector<std::shared_ptr<Installation>> old;
  };
  // Runs `work` with the lock held, and then what it has put off; does not run it once the session
  // closes. Called for answers of other processes, on the asker's thread.
  using Locked = std::function<void(const std::function<void(Later&)>& work)>;
  // `asker` (actors/async/ask.hpp) outlives this.
  Installer(Process& process, Members& members, const Asker& asker, uint64_t session,
            Locked locked);

  // The calls by number; they are never removed.
  const std::map<int64_t, InstalledCall>& calls() const { return calls_; }
  // A new call, or a new version of one, whose earlier installation here is dropped.
  void put(std::shared_ptr<const PreparedCall> prepared, Later& later);
  void install(int64_t call, Later& later);
  // A known call, cut for other places; installs it anew, unless it has not been installed yet.
  // Pushes of its earlier installations do not count any more once it has pushed.
  void move(PreparedCall moved, Later& later);
  void fail(int64_t call, Errc code, const std::string& text, Later& later);
  void carry_out(MasterOrders orders, Later& later);
  void drop(Later& later);  // the installations in this process
  MasterState& state() { return state_; }
  const MasterState& state() const { return state_; }
  // Grows whenever a call becomes ready or stops being ready. Any thread; takes no lock.
  uint64_t changes() const { return changes_.load(std::memory_order_acquire); }
  // RunContext::fence of a run that begins now, of any call: calls may push for one replica. 0
  // until a call moves; then at least the incarnation of each process that may have pushed. It
  // grows with each installation, so that a process that begins anew there counts its pushes anew.
  // Any thread; takes no lock.
  uint64_t fence() const { return fence_.load(std::memory_order_acquire); }
  RemoteParts& remote() { return remote_; }  // any thread

  // Installations from now on run that op's kernel for the node, in other processes only if
  // `by_name`.
  void replace(const std::string& node, const std::shared_ptr<const Op>& op, bool by_name);
  bool is_replaced(const std::string& node) const { return replaced_.count(node) > 0; }
  bool here(const PreparedCall& call) const;  // true if all of it runs in this process
  // The other processes in which a call runs the node.
  std::set<std::string> tasks_of_node(const std::string& node) const;
  // The installations in this process.
  std::vector<std::shared_ptr<Installation>> local() const;

 private:
  static ExecutableState executable_of(const PreparedCall& prepared, const std::string& client);
  MasterOrders carry_out(const MasterOrder& order, InstalledCall& call, Later& later);
  MasterOrders install_here(InstalledCall& call);
  MasterOrders connect_here(InstalledCall& call);
  MasterOrders install_there(const InstalledCall& call, const MasterOrder& order);
  void connect_there(const MasterOrder& order);
  void uninstall_there(const MasterOrder& order);
  void forget_local(InstalledCall& call, Later& later);
  void no_longer_live(InstalledCall& call);
  void answered(const std::function<MasterOrders(MasterState&)>& event);
  std::shared_ptr<const LiveCall> make_live(const InstalledCall& call);

  Process& process_;
  Members& members_;
  const uint64_t session_;
  const Locked locked_;
  RemoteParts remote_;
  std::atomic<uint64_t> changes_{0}, fence_{0};
  MasterState state_;
  std::map<int64_t, InstalledCall> calls_;
  std::map<std::string, std::shared_ptr<const Op>> replaced_;  // by node
};

}  // namespace troupe
