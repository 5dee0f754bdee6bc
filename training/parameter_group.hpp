// ParameterGroup: the parameters of one session, on the side of its master: lays them out over
// shards, creates the shards, sets first values, tells every process where the slices live, takes
// checkpoints, and brings shards back under a new epoch when some are lost.
//
// Owner: the session. All of its state is touched by its own actor only; calls from other threads
// are posted to it. When it dies, shards of the session's own container are dropped; those of a
// shared one stay.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/session_state.hpp"
#include "training/checkpoint.hpp"
#include "training/messages.hpp"

namespace troupe {

class ParameterGroup final : public MeshListener,
                             public std::enable_shared_from_this<ParameterGroup> {
 public:
  using Done = std::function<void(Errc, const std::string& text)>;  // called once, any thread

  ParameterGroup(Master& master, ParameterOwnerOptions options);
  void begin();  // after construction; end() before the master stops
  void end();

  // Creates the shards of those parameters among `nodes` that have none yet, and sets their first
  // values. Master's thread or a caller's: the one that grows the graph.
  void ensure(const std::vector<int32_t>& nodes, Done done);
  // How a training begins, or begins again.
  struct Start {
    BeginEpoch::Mode mode = BeginEpoch::keep;
    std::string directory, manifest;  // restore
    Aggregation rule = Aggregation::sync;
    std::vector<int32_t> slots;
    int64_t next_step = 0;
  };
  // A new epoch on all shards. Fails with peer_lost, naming it, while a task is not there.
  void establish(Start start, Done done);
  // A committed checkpoint at `step`; `done` gets the manifest's path as text when it is on disk.
  struct Snapshot {
    std::string directory;
    int64_t step = 0;
    int keep = 3;
    uint64_t data_seed = 0;
    Aggregation rule = Aggregation::sync;
    std::vector<int32_t> slots;
  };
  void snapshot(Snapshot what, Done done);
  void describe(std::function<void(std::vector<ParameterSlice>)> done);
  // Told when a task with shards is gone, or a shard has died: who, and who noticed.
  void on_gone(
      std::function<void(const std::string& text)> gone);  // the same for a task without shards
  void on_lost(std::function<void(const std::string& text)> lost);

  std::vector<ParameterSpec> parameters() const;  // known so far, by name. Any thread.
  std::vector<int32_t> slots_in_graph() const;    // of the last ensure(). Any thread.
  bool shared() const { return !options_.container.empty(); }
  bool owner() const;  // false: another session set the values and recovers them. Any thread.
  Master& master() { return master_; }

  void up(const Member& member, const caf::actor& agent) override;
  void down(const Member& member, const std::string& reason) override;

 private:
  struct ShardRef {
    int32_t shard = 0;
    std::string task;
    uint64_t door = 0;
    std::vector<Slice> slices;
  };
  // Several requests, one end: the first failure is the one that is told.
  class Gather;

  void post(std::function<void(caf::event_based_actor*)> work);
  void with_service(caf::event_based_actor* self, const std::string& task, const std::string& name,
                    std::function<void(Errc, const std::string&, caf::actor)> then);
  void create(caf::event_based_actor* self, std::vector<int32_t> shards, bool fresh, Done done);
  void create_one(caf::event_based_actor* self, int32_t shard, Done done);
  void set_initial(std::vector<int32_t> shards, Done done);
  void send_initial(caf::event_based_actor* self, const std::vector<int32_t>& shards,
                    const std::map<std::string, Tensor>& values, Done done);
  void begin_epoch(caf::event_based_actor* self, const Start& start, Done done);
  void route(caf::event_based_actor* self, Done done);
  void route_patiently(caf::event_based_actor* self, const std::string& task, int tries,
                       std::function<void()> done);
  void route_to(caf::event_based_actor* self, const std::string& task, Done done);
  void wait_serving(caf::event_based_actor* self, std::vector<int32_t> shards, int tries,
                    Done done);
  std::vector<std::string> shard_tasks() const;
  template <class Answer, class Message>
  void ask_shard(caf::event_based_actor* self, int32_t shard, Message message,
                 std::function<void(Errc, const std::string&, const Answer&)> then);

  Master& master_;
  Process& process_;
  const ParameterOwnerOptions options_;
  const std::string container_;
  caf::actor actor_;

  // Touched by the actor only.
  std::map<int32_t, ShardRef> shards_;
  std::vector<std::string> tasks_;
  uint64_t epoch_ = 1;
  uint32_t next_slice_ = 0;
  std::vector<std::pair<int64_t, std::vector<std::string>>>
      sources_;           // calls that compute first values, and of which parameters
  bool decided_ = false;  // whether the container is ours, or another session's
  bool established_ = false;
  int creating_ = 0;          // ensure() calls whose shards are being made
  std::vector<Done> behind_;  // ensure() calls that wait for them
  std::map<uint64_t, std::pair<std::string, std::function<void(const std::string&)>>>
      open_;  // orders to shards under way, by number: task, and how to end it
  uint64_t next_open_ = 0;
  Aggregation rule_ = Aggregation::sync;

  mutable std::mutex mutex_;  // guards the rest
  std::map<std::string, ParameterSpec> known_;
  std::vector<int32_t> slots_;
  std::function<void(const std::string&)> lost_, gone_;
  bool attached_ = false;
  bool ended_ = false;
};

// The group of a session. Throws: Error(cancelled) for one that is closed.
ParameterGroup& parameter_group(Session& session);

}  // namespace troupe
