// ParameterGroup: the parameters of one session, on the side of its master. It knows them by name,
// has their shards made and routes to them sent, takes checkpoints, and restores shards under a new
// epoch when some are lost. Its members have a file each: the parameters by name
// (graph_parameters), the places of shards (shard_table), requests to them (shard_requests), making
// them (shard_maker), routes (route_sender), checkpoints (checkpoint_taker).
//
// When it ends, the shards of the session's own container are dropped; a shared container stays.
// Owner: the session. Thread: any; its own actor does the work on shards, and calls from other
// threads are posted to it.
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
#include "training/group/graph_parameters.hpp"
#include "actors/async/open_calls.hpp"
#include "training/control/training_requests.hpp"
#include "training/group/rate_scale.hpp"
#include "training/group/route_sender.hpp"
#include "training/group/shard_maker.hpp"
#include "training/group/shard_requests.hpp"
#include "training/group/shard_table.hpp"

namespace troupe {

class ParameterGroup final : public MeshListener,
                             public std::enable_shared_from_this<ParameterGroup> {
 public:
  using Done = WhenDone;  // called once, any thread; by end() at the latest
  using Told = std::function<void(const std::string& text)>;

  ParameterGroup(Master& master, ParameterOwnerOptions options, Disk* disk);
  void begin();  // after construction; end() before the master stops, also twice
  void end();

  void ensure(const std::vector<int32_t>& nodes, Done done) {  // as GraphParameters::ensure()
    parameters_.ensure(nodes, std::move(done));
  }
  // The begin of an epoch.
  struct Start {
    BeginEpoch::Mode mode = BeginEpoch::reset;
    std::string directory, manifest;  // restore
    ShardMaker::FirstValues values;   // reset; others get their initial values
    std::optional<Aggregation> rule;  // none: as it is
    double rate_scale = 1;
    bool skips_bad = false;   // gradients that are not finite
    Compression compression;  // of the training; for a session that follows, too
    std::vector<int32_t> replicas;
    int64_t next_step = 0;
    // As of BeginEpoch.
    std::string record = {}, replay = {};
    int64_t part = 0;
  };
  // Begins a new epoch on all shards. Fails with peer_lost, naming it, while a task is not there.
  // For parameters that another session owns: waits for its epoch instead, and ignores `start`.
  void establish(Start start, Done done);
  // For parameters that another session owns, outside of a training: takes the routes of the epoch
  // that the shards are in. Fails with stale while they are between two.
  void follow(Done done);
  // After a loss, finds out if only links were lost. Done gets ok when every shard is as
  // establish() has left it, no replica is behind `step`, and processes have the routes again;
  // stale if one is not, so that establish() has to follow; peer_lost, naming it, while a task is
  // not there.
  void look_again(int64_t step, Done done);
  bool was_established() const { return established_; }  // any thread
  // These parameters are in training as long as the result lives; null: they are already. Any
  // thread.
  std::shared_ptr<const void> claim_training();
  // Before ask_owner() and establish(), which then fail while another session trains one of these
  // replicas of a shared container. They are this session's until its training is over. Any thread.
  // Without replicas the training is over, and gradients and values travel as they are; `done` is
  // called when processes know.
  void train(
      std::vector<int32_t> replicas, Done done = [](Errc, const std::string&) {});
  // For parameters that another session owns: true if it has begun an epoch since establish(). By
  // end(), false.
  void ask_epoch(std::function<void(bool is_new)> done);
  // Gives all shards a rate scale, which holds from the updates of `step` on. Requires: the
  // owner's, and no step of its replicas runs until `done` is called.
  void set_rate_scale(double scale, int64_t step, Done done);
  // Gives all shards another rule, which makes the updates of `step` and of later ones. Requires:
  // as set_rate_scale(), and that all replicas are at that step.
  void change_rule(const Aggregation& rule, int64_t step, Done done);
  TrainingRequests& requests() { return requests_; }  // to its training. Any thread.
  // For parameters that another session owns: `out` gets the rate scale of their shards.
  void ask_rate_scale(std::shared_ptr<double> out, Done done);
  RateScale& rate_scale() { return rate_scale_; }  // of the owner. Any thread.
  // Asks all processes how long ago a source that a step of this session waits for has moved; -1:
  // no step waits for one, as far as processes answer within 10 s.
  void ask_moved(std::function<void(int64_t ms)> done);
  // As CheckpointTaker::take().
  void take_checkpoint(CheckpointRequest request, std::function<void()> captured, Done done);
  void give_up_checkpoint(Errc code, const std::string& text);  // as CheckpointTaker::give_up()
  // Takes one and returns the path of its manifest. Throws: as wait().
  std::string save(CheckpointRequest request,
                   std::optional<std::chrono::seconds> limit = std::nullopt);
  // Slices of shards that do not answer are left out.
  void describe(std::shared_ptr<std::vector<ParameterSlice>> out, Done done);
  // The same of their pushes; the text of `done` says why some are left out.
  void count_pushes(std::shared_ptr<std::vector<PushCount>> out, Done done);
  // Waits for the request that `ask` makes: to this group, which has deadlines of its own, or to
  // another object, with a limit. Throws: its Error; Error(cancelled) when the session is closed
  // meanwhile; Error(timeout).
  void wait(const std::function<void(Done)>& ask,
            std::optional<std::chrono::seconds> limit = std::nullopt);
  // The receiver of events of the parameters; any thread.
  struct Listener {
    Told lost;         // a task with shards is gone, or a shard has died: which, and who noticed it
    Told worker_gone;  // the same for a task without shards that computes training steps
    Told gone;         // the same for one that does neither
    std::function<void()> members;  // a member has come, is going to leave, or is gone
    std::function<void()> closed;   // the session is being closed; at once if it is already
  };
  void listen(Listener listener) { events_.listen(std::move(listener)); }

  const GraphParameters& in_graph() const { return parameters_; }  // any thread
  bool shared() const { return !options_.container.empty(); }
  bool owner() const { return maker_.owner(); }  // as ShardMaker::owner()
  // As ShardMaker::ask_owner(). Requires: ensure(), and that this is not the owner.
  void ask_owner(std::shared_ptr<ShardMaker::OwnerSeen> seen, Done done);
  // Becomes the owner of a container whose owner has gone, as ShardMaker::take_over().
  void take_over(Done done);
  bool took_over() const { return maker_.took_over(); }
  void went_on() { maker_.went_on(); }
  // The steps at which replicas continue after establish() in a session that is not the owner, or
  // that took over, and the rule.
  ShardMaker::Followed followed() const { return maker_.followed(); }
  Master& master() { return master_; }

  void up(const Member& member, const caf::actor& agent) override;
  void down(const Member& member, const std::string& reason) override;

 private:
  // Hands events to the listener, until the group ends.
  class Events {
   public:
    void listen(Listener listener);
    void tell(const Told Listener::*event, const std::string& text) const;
    void tell_of_members() const;
    std::optional<Listener> end();  // none: it has ended already
    bool ended() const;

   private:
    mutable std::mutex mutex_;  // guards the rest
    Listener listener_;
    bool ended_ = false;
  };

  void actor_ended(const caf::error& reason);
  void post(std::function<void()> work) { shards_.poster()(std::move(work)); }
  void lost_member(const std::string& task, const std::string& reason);
  void begin_epoch(const Start& start, Done done);
  bool in_training();

  Master& master_;
  const ParameterOwnerOptions options_;
  Events events_;

  // Touched by the actor only.
  ShardTable table_;
  ShardRequests shards_;
  ShardMaker maker_;
  RouteSender routes_;
  CheckpointTaker checkpoints_;

  std::atomic<bool> established_ = false;
  OpenCalls calls_;  // of other threads
  GraphParameters parameters_;
  RateScale rate_scale_;
  TrainingRequests requests_;
  std::mutex mutex_;  // guards training_
  std::weak_ptr<const void> training_;
};

// The parameters as a session of `master` owns them. `disk`: for checkpoints; null: the real one.
std::unique_ptr<ParameterOwner> own_parameters(Master& master, ParameterOwnerOptions options,
                                               Disk* disk);

// The use of a session's parameters by a thread of the program. The session is not closed as long
// as this lives. Throws: Error(cancelled) if it is closed already.
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
