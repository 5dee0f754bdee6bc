// SimProcesses: the ps, workers and programs of a SimCluster. Each is a Process with CAF's
// deterministic scheduler, over the world's network and disk, and has one life after the other
// under its task: start() begins one, kill() ends it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "chaos/sim_process.hpp"
#include "chaos/sim_trainer.hpp"
#include "chaos/sim_world.hpp"
#include "training/group/services.hpp"

namespace troupe::sim {

// A process from its start on. One that is killed stays as it is until the end of the cluster, as
// its destructors would run what it had still to do.
struct SimLife final : MeshListener {
  SimHost* host = nullptr;
  std::unique_ptr<TrainingServices> services;
  std::unique_ptr<Process> process;
  std::unique_ptr<SimTrainer> trainer;  // of a client
  caf::scheduler::test_coordinator* jobs = nullptr;
  caf::io::network::test_multiplexer* brokers = nullptr;
  std::vector<const Shard*> shards;  // that live, for the ledger
  std::multiset<std::string> made;   // the containers of all its shards
  FailTable points;                  // armed
  bool killed = false;
  bool dying = false;  // at a fail point: what it does until its job returns, nobody sees

  void up(const Member& member, const caf::actor& agent) override {
    process->peer_up(member, agent);
  }
  void down(const Member& member, const std::string& reason) override {
    process->peer_down(member, reason);
  }
  // Requires: a killed process is ended last.
  void end();
};

// A task of the cluster, in all its lives.
struct SimPeer {
  int index = 0;  // ps, workers and clients, counted on
  std::string task;
  uint64_t incarnation = 0;
  bool died = false;              // once at least
  bool leaves = false;            // it ends for good when no program wants it to wait
  std::string told;               // the newest checkpoint that its program was told of, in any life
  std::unique_ptr<SimLife> life;  // null: killed, and not yet back
  TimePoint back_at = TimePoint::max();
  TimePoint thaws_at = TimePoint::max();
  bool runs() const { return life && !life->dying && !life->host->frozen; }
  SimTrainer* program() const { return runs() ? life->trainer.get() : nullptr; }
};

class SimProcesses {
 public:
  using Peers = std::vector<std::unique_ptr<SimPeer>>;

  // None lives yet. A fault of the kind `late` among `faults` says when its process does.
  SimProcesses(SimWorld& world, const Faults& faults);
  SimProcesses(const SimProcesses&) = delete;
  ~SimProcesses();

  void start_all();  // but for those that are late
  void start(SimPeer& peer);
  // Requires: peer.life. It is started again at `back_at`.
  void kill(SimPeer& peer, TimePoint back_at);
  void freeze(SimPeer& peer, TimePoint until);
  // True for a worker whose replicas move to another one, which stays.
  bool may_go(const SimPeer& peer) const;
  // Starts and thaws those whose time has come, and sets the clocks.
  void pass_time();
  TimePoint next_timer() const;
  // Hands on the bytes of CAF's brokers, which take no time.
  void settle();

  SimPeer* active = nullptr;  // the one whose job or event is under way

  const Peers& all() const { return peers_; }
  SimPeer* at(int index) const;                      // null: there is none
  int index_of_host(const std::string& name) const;  // Fault::kAny: there is none
  const SimPeer& last_program() const { return *peers_.back(); }
  // True if that holds for the program of every client, or of any.
  bool all_programs(bool (SimTrainer::*is)() const) const;
  bool any_program(bool (SimTrainer::*is)() const) const;
  bool program_died() const;
  bool any_ps_died() const;
  bool shards_serve() const;  // of every ps
  // As the checks believe (SimClusterOptions::deaths_denied).
  bool ps_died() const { return !world_.options.deaths_denied && any_ps_died(); }
  // False for the shards of a program that has died.
  bool is_present(const std::string& container) const;
  // The weights that pauses have seen, as hashes by step, also those of programs that have died.
  std::map<int64_t, std::string> looked() const;
  std::string pending() const;

 private:
  int programs_begin() const { return world_.options.shape.servers(); }
  bool any_died(int first, int end) const;
  void let_leave();
  ShardSeams shard_seams(SimLife& life);
  std::unique_ptr<SimTrainer> make_trainer(const SimPeer& peer, std::unique_ptr<SimModel> model);

  SimWorld& world_;
  std::vector<std::unique_ptr<SimLife>> dead_;  // killed
  Peers peers_;
};

}  // namespace troupe::sim
