// ParameterGroup: the parameters of one session, on the side of its master: knows them by name,
// has their shards made and told about, takes checkpoints, and brings shards back under a new epoch
// when some are lost. Its rooms have a file each: where shards are (shard_table), asking them
// (shard_orders), making them (shard_maker), telling processes (route_sender), checkpoints
// (checkpoint_taker).
//
// Owner: the session. Its rooms are touched by its own actor only; calls from other threads are
// posted to it. When it dies, shards of the session's own container are dropped; those of a shared
// one stay.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actors/master/session_state.hpp"
#include "training/group/checkpoint_taker.hpp"
#include "training/parameters/open_calls.hpp"
#include "training/group/route_sender.hpp"
#include "training/group/shard_maker.hpp"
#include "training/group/shard_orders.hpp"
#include "training/shards/shard_table.hpp"

namespace troupe {

class ParameterGroup final : public MeshListener,
                             public std::enable_shared_from_this<ParameterGroup> {
 public:
  using Done = OpenCalls::Done;  // called once, any thread; by end() at the latest
  using Told = std::function<void(const std::string& text)>;

  ParameterGroup(Master& master, ParameterOwnerOptions options, Disk* disk);
  void begin();  // after construction; end() before the master stops, also twice
  void end();

  // Creates the shards of those parameters among `nodes` that have none yet, and sets their first
  // values; also those whose last try has failed. Master's thread or a caller's: the one that grows
  // the graph.
  void ensure(const std::vector<int32_t>& nodes, Done done);
  // Throws: Error(invalid_argument) naming a parameter of the graph that has two optimizers. What
  // ensure() is asked for such a graph fails in the same way.
  void check_optimizers() const;
  // How a training begins, or begins again.
  struct Start {
    BeginEpoch::Mode mode = BeginEpoch::reset;
    std::string directory, manifest;  // restore
    ShardMaker::FirstValues values;   // reset, of all parameters; null: those that they began with
    Aggregation rule = Aggregation::sync;
    std::vector<int32_t> replicas;
    int64_t next_step = 0;
  };
  // A new epoch on all shards. Fails with peer_lost, naming it, while a task is not there. Of
  // parameters that another session owns: waits for its epoch instead, whatever `start` says.
  void establish(Start start, Done done);
  // After a loss: whether nothing was lost but links. Done gets ok when every shard is as
  // establish() has left it, no replica is behind `step`, and processes have the routes again;
  // stale if one is not, so that establish() has to follow; peer_lost, naming it, while a task is
  // not there.
  void look_again(int64_t step, Done done);
  bool was_established() const { return established_; }  // any thread
  // Somebody trains these parameters as long as the result lives; null: somebody does already. Any
  // thread.
  std::shared_ptr<const void> claim_training();
  // For parameters that another session owns: true if it has begun an epoch since establish(). By
  // end(), false.
  void ask_epoch(std::function<void(bool is_new)> done);
  // As CheckpointTaker::take().
  void take_checkpoint(CheckpointRequest request, std::function<void()> captured, Done done);
  // Takes one and returns the path of its manifest. Throws: as wait().
  std::string save(CheckpointRequest request,
                   std::optional<std::chrono::seconds> limit = std::nullopt);
  // Slices of shards that do not answer are left out.
  void describe(std::shared_ptr<std::vector<ParameterSlice>> out, Done done);
  // Waits for what `ask` asks of this group, which has deadlines of its own, or of somebody else,
  // with a limit. Throws: its Error; Error(cancelled) when the session is closed meanwhile;
  // Error(timeout).
  void wait(const std::function<void(Done)>& ask,
            std::optional<std::chrono::seconds> limit = std::nullopt);
  // The receiver of events of the parameters; any thread.
  struct Listener {
    Told lost;  // a task with shards is gone, or a shard has died: who, and who noticed
    Told gone;  // the same for a task without shards
    std::function<void()> closed;  // the session is being closed; at once if it is already
  };
  void listen(Listener listener);

  std::vector<ParameterSpec> parameters() const;   // made so far, by name. Any thread.
  std::vector<int32_t> replicas_in_graph() const;  // of the last ensure(). Any thread.
  bool shared() const { return !options_.container.empty(); }
  bool owner() const { return maker_.owner(); }  // as ShardMaker::owner()
  // Where the replicas of a session that is not the owner go on, after establish().
  int64_t next_step() const { return maker_.next_step(); }
  Master& master() { return master_; }

  void up(const Member& member, const caf::actor& agent) override;
  void down(const Member& member, const std::string& reason) override;

 private:
  struct Batch;
  using Batches = std::vector<std::shared_ptr<Batch>>;
  struct Known {
    ParameterSpec spec;
    std::shared_ptr<Batch> batch;
    bool made = false;
  };

  void actor_ended(const caf::error& reason);
  void post(std::function<void()> work) { orders_.poster()(std::move(work)); }
  void tell(const Told Listener::*whom, const std::string& text) const;
  Batches batches_of(const std::vector<int32_t>& nodes);
  bool made(const Batch& batch) const;
  void make(const std::shared_ptr<Batch>& batch, int64_t call);
  void made(const std::shared_ptr<Batch>& batch, Errc code, const std::string& text);
  void choose_tasks();
  void lost_member(const std::string& task, const std::string& reason);
  void begin_epoch(const Start& start, Done done);

  Master& master_;
  const ParameterOwnerOptions options_;
  caf::actor actor_;

  // Touched by the actor only.
  ShardTable table_;
  ShardOrders orders_;
  ShardMaker maker_;
  RouteSender routes_;
  CheckpointTaker checkpoints_;
  uint64_t served_ = 0;  // the epoch that the last establish() has begun, or followed to

  std::atomic<bool> established_ = false;
  std::weak_ptr<const void> training_;  // guarded by mutex_
  OpenCalls calls_;                     // of other threads
  mutable std::mutex mutex_;            // guards the rest
  std::map<std::string, Known> known_;
  std::vector<int32_t> replicas_;
  Listener listener_;
  bool ended_ = false;
};

// The parameters as a session of `master` owns them. `disk`: where checkpoints are; null for the
// real one.
std::unique_ptr<ParameterOwner> own_parameters(Master& master, ParameterOwnerOptions options,
                                               Disk* disk);

// A thread of the program with the parameters of a session, which is not closed as long as this
// lives. Throws: Error(cancelled) for one that is closed.
class ParameterVisit {
 public:
  explicit ParameterVisit(Session& session);
  ParameterGroup* operator->() const { return group_; }
  ParameterGroup& operator*() const { return *group_; }

 private:
  const Gate::Visit visit_;
  ParameterGroup* const group_;
};

}  // namespace troupe
