// Master: the actor behind a Session. It prepares calls (prune, place, cut, install), starts steps,
// watches workers and brings calls back when a lost worker has returned. What it knows and decides
// is a MasterState; this is the part with actors, threads and deadlines around it.
//
// Owner: the session. Lost when it dies: the steps under way; workers and shards keep their state.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "actors/installation.hpp"
#include "actors/master_state.hpp"
#include "actors/process.hpp"
#include "placement/partition.hpp"
#include "placement/placement.hpp"
#include "troupe/session.hpp"

namespace troupe {

// A worker that does not answer an install request for this long is given up until it returns.
inline constexpr std::chrono::seconds kInstallTimeout{30};
// How often deadlines and stalls are looked at.
inline constexpr std::chrono::milliseconds kMasterTick{50};
// An install that failed while its tasks are up is tried again this often.
inline constexpr std::chrono::milliseconds kInstallRetry{500};
// A run without progress for this long is reported: who waits for whom, since when.
inline constexpr std::chrono::seconds kStallReport{5};
// Runs under way in one session; more are refused, so that nothing queues without bound.
inline constexpr size_t kRunsMax = 4096;

class Master : public MeshListener {
 public:
  Master(Process& process, Graph& graph, uint64_t session);
  ~Master() override;

  // Makes sure that parameters among the nodes of a call exist before it runs; set by training/.
  // Calls back once, any thread.
  using Ensure =
      std::function<void(std::vector<int32_t> nodes, std::function<void(Errc, std::string)>)>;
  void set_ensure(Ensure ensure);
  // Told of members, after the master itself.
  void add_listener(MeshListener* listener);
  void remove_listener(MeshListener* listener);

  // Prepares a call and returns its number; the same one for the same fetches and feeds. Throws:
  // Error(invalid_argument).
  int64_t prepare(const std::vector<Output>& fetches, const std::vector<Output>& feeds);
  // Until the call can run. Throws: what made it fail, or Error(peer_lost) naming who is missing at
  // the deadline.
  void wait_ready(int64_t call, std::chrono::milliseconds timeout);
  void start(int64_t call, const std::vector<Tensor>& feeds, const RunOptions& options,
             std::function<void(RunResult)> done);
  RunResult run(int64_t call, const std::vector<Tensor>& feeds, const RunOptions& options);
  // Every run under way ends with this reason.
  void cancel_all(Errc code, const std::string& text);

  void up(const Member& member, const caf::actor& agent) override;
  void down(const Member& member, const std::string& reason) override;
  void refused(Errc code, const std::string& reason) override;
  StepResult refusal() const;  // what the cluster said when it refused us; ok if it did not

  std::vector<PlacedNode> placement(int64_t call) const;
  std::vector<CutEdge> cut_edges(int64_t call) const;
  std::string dot(int64_t call) const;
  std::vector<std::string> devices() const;
  std::map<std::string, caf::actor> agents() const;  // of members that are up, by task
  // Up to `timeout` for all of `tasks`. Returns those still missing.
  std::vector<std::string> wait_for(const std::vector<std::string>& tasks,
                                    std::chrono::milliseconds timeout);
  bool wait_for_any(std::chrono::milliseconds timeout);  // until there is a member
  std::string describe() const;
  void set_next_step(int64_t slot, int64_t step);
  uint64_t session() const { return session_; }
  Graph& graph() { return graph_; }
  Process& process() { return process_; }
  void start_trace();
  std::string stop_trace();
  void stop();

 private:
  struct Live {  // an installation that is ready
    uint32_t executable = 0;
    std::shared_ptr<Installation> local;
    Stage* client = nullptr;
    std::vector<uint32_t> feed_slots, fetch_slots;
    std::vector<std::pair<std::string, caf::actor>> remotes;  // task, its worker's door
  };
  struct Waiting {
    std::vector<Tensor> feeds;
    RunOptions options;
    std::function<void(RunResult)> done;
    caf::actor_clock::time_point deadline;
  };
  struct Call {
    int64_t id = 0;
    std::vector<Output> fetches, feeds;
    std::vector<int64_t> slots;  // whose training steps this call advances
    std::vector<int32_t> nodes;  // pruned
    Placement placement;
    std::vector<Partition> partitions;
    bool ensured = false;
    Errc code = Errc::ok;
    std::string error;
    std::shared_ptr<Installation> local;
    std::shared_ptr<Live> live;
    std::deque<Waiting> waiting;
    std::map<int32_t, int64_t> bytes, transfers;  // of earlier installations, by edge
  };
  struct Run {
    int64_t id = 0, call = 0;
    std::shared_ptr<Live> live;
    std::set<std::string> open;  // parts not ended: tasks
    RunResult result;
    std::vector<Output> fetches;
    std::function<void(RunResult)> done;
    caf::actor_clock::time_point started, deadline;
    bool cancelled = false, reported = false;
    std::shared_ptr<void> cancellation;  // its registration
  };
  using RunPtr = std::shared_ptr<Run>;
  struct Later;  // things to do once the mutex is free

  caf::actor_clock::time_point now() const;
  void ensured(int64_t call, Errc code, const std::string& text);
  void install_call(Call& call, Later& later);
  void carry_out(MasterOrders orders, Later& later);
  void install_local(Call& call, MasterOrders& follow);
  void connect_local(Call& call, MasterOrders& follow);
  void install_remote(const Call& call, const MasterOrder& order);
  void connect_remote(const Call& call, const MasterOrder& order);
  std::shared_ptr<Live> make_live(Call& call);
  void launch(Call& call, const std::shared_ptr<Live>& live, Waiting work);
  int64_t next_step_of(const Call& call, const RunOptions& options);
  void finish_part(int64_t run, const std::string& part, Errc code, const std::string& text,
                   std::vector<Tensor> kept);
  void abort_run(const RunPtr& run, Errc code, const std::string& text);
  void check_feeds(const Call& call, const std::vector<Tensor>& feeds) const;
  void on_orders_from_actor(const std::function<MasterOrders(MasterState&)>& event);
  void tick();
  static std::string task_of(const std::string& device);

  Process& process_;
  Graph& graph_;
  const uint64_t session_;
  caf::actor actor_;                         // carries requests to workers, ticks
  caf::actor door_;                          // receives FinishStep
  caf::actor_clock::time_point retry_at_{};  // the actor's own

  mutable std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  MasterState state_;
  Ensure ensure_;
  std::vector<MeshListener*> listeners_;
  std::map<std::string, std::pair<Member, caf::actor>> agents_;  // up, by task
  std::map<std::string, std::vector<std::string>> devices_of_;  // known devices of members, by task
  std::map<std::pair<std::string, uint64_t>, int64_t>
      graph_sent_;  // (task, incarnation) -> node count
  std::map<std::pair<std::vector<Output>, std::vector<Output>>, int64_t> call_ids_;
  std::map<int64_t, std::unique_ptr<Call>> calls_;
  std::map<int64_t, RunPtr> runs_;
  std::map<int64_t, int64_t> next_step_;  // by slot
  int64_t next_run_ = 0;
  StepResult refusal_;
  bool stopped_ = false;
};

}  // namespace troupe
