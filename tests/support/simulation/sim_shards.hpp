// ShardWorld: workers and shards as plain state machines, a TrainLoop that leads them, and a bag of
// messages between them. The seed selects the next event: any message of the bag (so they are late
// and overtake each other), a repeated request, or time. Lossy messages (pushes, pulls, answers)
// may be dropped and doubled. Workers are killed and return with a higher incarnation. Shards are
// lost and restored, together with all others, from the newest snapshot under a new epoch.
//
// The invariants of the parameter protocol are checked after every event (shard_ledger.hpp).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chaos/shard_ledger.hpp"
#include "tests/support/simulation/sim_workers.hpp"
#include "training/shards/shard.hpp"
#include "training/loop/train_loop.hpp"

namespace troupe::sim {

class ShardWorld {
 public:
  // `golden`: the chain of a run without faults, which this run must equal; may be null.
  ShardWorld(const ShardWorldOptions& options, uint64_t seed, const HashChain* golden,
             History& history)
      : o_(options),
        draw_(seed),
        history_(history),
        ledger_(options.rule, options.replicas, options.steps, golden),
        bag_(o_, draw_, history_),
        workers_(o_, bag_, reach()) {
    history_.note(o_.describe());
    ledger_.expect(
        {.is_bad = [this](int32_t replica, int64_t step) { return o_.is_bad(replica, step); }});
    std::map<int64_t, int64_t> next_steps;
    TrainLoop::Plan plan;
    for (int32_t replica = 0; replica < o_.replicas; ++replica) {
      plan.replicas.push_back(replica);
      next_steps[replica] = 0;
    }
    plan.steps = o_.steps;
    plan.checkpoint_every = o_.checkpoint_every;
    plan.checkpoints = true;
    plan.rule = o_.rule;
    loop_ = std::make_unique<TrainLoop>(plan, next_steps);
    for (size_t m = 0; m < o_.shards; ++m) {
      ShardProcess process;
      for (uint32_t i = 0; i < o_.slices_per_shard; ++i) {
        const auto id = static_cast<uint32_t>(m) * o_.slices_per_shard + i;
        process.slices.push_back(
            {.id = id,
             .parameter = detail::concat("w", id),
             .dtype = DType::f32,
             .shape = {o_.slice_size},
             .offset = 0,
             .size = o_.slice_size,
             .optimizer = Optimizer{.kind = o_.optimizer, .learning_rate = 0.1},
             .shard = static_cast<int32_t>(m)});
      }
      shards_.push_back(std::move(process));
    }
    for (int i = 0; i < o_.worker_kills; ++i) fault_at_.emplace(draw_.below(faults_until()), true);
    for (int i = 0; i < o_.shard_losses; ++i) fault_at_.emplace(draw_.below(faults_until()), false);
  }

  // Throws: Violation.
  void run() {
    restore();  // the initial values arrive as after a loss
    starting_ = true;
    while (!(loop_->ended() && bag_.empty())) {
      if (++events_ > kEventsMax)
        throw Violation{"I21", detail::concat("no end after ", kEventsMax, " events; ", pending())};
      if (events_ > o_.faults_until) bag_.heal();
      step();
      check();
    }
    check_end();
  }
  const HashChain& chain() const { return ledger_.chain(); }

 private:
  static constexpr int64_t kEventsMax = 30'000;

  struct ShardProcess {
    std::vector<Slice> slices;
    std::unique_ptr<Shard> shard;  // null: not created, or lost
    uint64_t generation = 0;
    bool reachable = true;
  };
  struct SnapshotSet {
    int64_t step = 0;
    std::map<uint32_t, SliceState> slices;
  };

  uint64_t faults_until() const {
    return static_cast<uint64_t>(std::max<int64_t>(o_.faults_until, 1));
  }
  TrainLoop::Millis now() const { return TrainLoop::Millis(time_); }

  void step() {
    time_ += 1;
    if (auto fault = fault_at_.find(static_cast<uint64_t>(events_));
        fault != fault_at_.end() && !starting_) {
      const bool worker = fault->second;
      fault_at_.erase(fault);
      worker ? kill_worker() : lose_shard();
      return;
    }
    if (bag_.empty() || draw_.chance(0.04)) return let_time_pass();
    bag_.deliver_one();
  }

  void let_time_pass() {
    time_ += 25;
    history_.note("time");
    workers_.resend();
    carry_out(loop_->tick(now()));
  }

  // Interface of the workers

  SimWorkers::Reach reach() {
    return {.push =
                [this](size_t m, uint64_t from, const Push& p) {
                  if (!shards_[m].shard) return;
                  requests_[{from, p.ticket}] = {p.replica, p.step};
                  ShardActions out;
                  shards_[m].shard->push(p, from, out);
                  route(out);
                },
            .pull =
                [this](size_t m, uint64_t from, const Pull& p) {
                  if (!shards_[m].shard) return;
                  ShardActions out;
                  shards_[m].shard->pull(p, from, out);
                  route(out);
                },
            .done =
                [this](int32_t replica, int64_t run, int64_t step) {
                  if (running_[replica] != run) return;
                  running_[replica] = 0;
                  carry_out(loop_->step_done(replica, step, 0.5, now()));
                },
            .failed = [this](int32_t replica, int64_t run, Errc code,
                             const std::string& text) { fail_step(replica, run, code, text); },
            .wanted = [this](int32_t replica, int64_t run) { return running_[replica] == run; }};
  }
  void fail_step(int32_t replica, int64_t run, Errc code, const std::string& text) {
    if (running_[replica] != run || run == 0) return;
    running_[replica] = 0;
    carry_out(loop_->step_failed(replica, step_of_[replica], code, text, now()));
  }
  void tell_routes(int32_t replica, uint64_t epoch) {
    bag_.reliable(detail::concat("routes to=", replica, " epoch=", epoch),
                  [this, replica, epoch] { workers_.take_routes(replica, epoch); });
  }

  void kill_worker() {
    const auto replica = static_cast<int32_t>(draw_.below(static_cast<uint64_t>(o_.replicas)));
    if (!workers_.alive(replica)) return;
    history_.note(
        detail::concat("kill worker ", replica, " incarnation=", workers_.incarnation(replica)));
    const int64_t run = running_[replica];
    workers_.kill(replica);
    if (run != 0) fail_step(replica, run, Errc::peer_lost, "killed");
    bag_.reliable(detail::concat("worker ", replica, " is back"), [this, replica] {
      workers_.come_back(replica);
      if (established_ != 0) tell_routes(replica, established_);
    });
  }

  void route(ShardActions& actions) {
    for (ShardAction& action : actions) {
      if (auto* pulled = std::get_if<Pulled>(&action.message)) {
        bag_.lossy(detail::concat("pulled to=", action.to, " slice=", pulled->slice, " version=",
                                  pulled->version, " code=", static_cast<int>(pulled->code)),
                   [this, to = action.to, p = *pulled] { workers_.on(to, p); });
      } else {
        const auto& ack = std::get<Acknowledged>(action.message);
        if (ack.code == Errc::ok) {
          const auto [replica, step] = requests_.at({action.to, ack.ticket});
          ledger_.acknowledged(ack.slice, replica, step);
        }
        bag_.lossy(detail::concat("acknowledged to=", action.to, " slice=", ack.slice,
                                  " version=", ack.version, " code=", static_cast<int>(ack.code)),
                   [this, to = action.to, ack] { workers_.on(to, ack); });
      }
    }
  }

  // Shards

  void lose_shard() {
    const size_t m = draw_.below(shards_.size());
    ShardProcess& p = shards_[m];
    if (!p.reachable || !p.shard) return;
    history_.note(detail::concat("lose shard ", m));
    if (o_.planted == Planted::same_epoch && p.shard->state() == Shard::State::serving) {
      const uint64_t epoch = p.shard->epoch();
      create(m, epoch);
      fill(m, epoch);
      return;
    }
    p.shard.reset();
    ++p.generation;
    p.reachable = false;
    bag_.reliable(detail::concat("shard process ", m, " is back"),
                  [this, m] { shards_[m].reachable = true; });
    if (snapshot_open_ > 0 || writing_) end_snapshot(Errc::peer_lost, "a shard is gone");
    if (!starting_) carry_out(loop_->shards_lost("a shard is gone", now()));
  }

  void create(size_t m, uint64_t epoch) {
    Shard::Spec spec{.epoch = epoch,
                     .rule = o_.rule,
                     .replicas = replicas_at(o_.replicas, 0),
                     .slices = shards_[m].slices,
                     .skips_bad = o_.bad};
    shards_[m].shard = std::make_unique<Shard>(std::move(spec));
    shards_[m].shard->set_applied_log([this](const Shard::Applied& a) { applied(a); });
  }

  Tensor initial(uint32_t slice) const {
    Tensor t = Tensor::empty(DType::f32, Shape{o_.slice_size});
    for (int64_t i = 0; i < o_.slice_size; ++i)
      t.mutable_data<float>()[i] = 0.3F * static_cast<float>(i) - 0.7F * static_cast<float>(slice);
    return t;
  }

  // Fills shard m from the newest snapshot, or with the initial values.
  Outcome fill(size_t m, uint64_t epoch) {
    Shard& shard = *shards_[m].shard;
    ShardActions out;
    Outcome outcome;
    int64_t step = 0;
    if (newest_) {
      std::vector<SliceState> states;
      for (const Slice& s : shards_[m].slices) states.push_back(newest_->slices.at(s.id));
      step = newest_->step;
      outcome = shard.restore(epoch, std::move(states), out);
    } else {
      if (shard.state() != Shard::State::empty)
        outcome = shard.clear(epoch, shard.rule(), replicas_at(o_.replicas, 0), out);
      for (const Slice& s : shards_[m].slices)
        if (outcome) outcome = shard.set_initial(epoch, s.id, initial(s.id), out);
    }
    if (outcome) outcome = shard.set_rule(epoch, o_.rule, replicas_at(o_.replicas, step));
    route(out);
    return outcome;
  }

  void restore() {
    const uint64_t epoch = ++epoch_;
    established_ = 0;
    const int64_t id = ++restore_id_;
    restore_left_ = shards_.size();
    for (size_t m = 0; m < shards_.size(); ++m)
      bag_.reliable(
          detail::concat("begin restore shard=", m, " epoch=", epoch), [this, m, epoch, id] {
            ShardProcess& p = shards_[m];
            if (!p.reachable)
              return restore_part(id, m, {Errc::peer_lost, "the process is not there"});
            if (!p.shard) create(m, epoch);
            ShardActions out;
            const Outcome begun = p.shard->begin_restore(epoch, out);
            route(out);
            if (!begun) return restore_part(id, m, begun);
            bag_.reliable(detail::concat("restore shard=", m, " epoch=", epoch),
                          [this, m, epoch, id, generation = p.generation] {
                            if (shards_[m].generation != generation)
                              return restore_part(id, m, {Errc::peer_lost, "the shard is gone"});
                            restore_part(id, m, fill(m, epoch));
                          });
          });
  }

  void restore_part(int64_t id, size_t m, const Outcome& outcome) {
    if (!outcome && outcome.code != Errc::peer_lost && outcome.code != Errc::stale)
      throw Violation{"restore", detail::concat("shard ", m, ": ", outcome.text)};
    if (id != restore_id_) return;
    if (!outcome) restore_error_ = outcome;
    if (--restore_left_ > 0) return;
    const Outcome result = std::exchange(restore_error_, {});
    if (starting_ && result) {
      starting_ = false;
      tell_routes();
      carry_out(loop_->begin(now()));
      return;
    }
    if (!result) return carry_out(loop_->restore_failed(result.code, result.text, now()));
    tell_routes();
    std::map<int64_t, int64_t> next;
    for (int32_t replica = 0; replica < o_.replicas; ++replica)
      next[replica] = newest_ ? newest_->step : 0;
    carry_out(loop_->restored(next, now()));
  }

  void tell_routes() {
    established_ = epoch_;
    for (int32_t replica = 0; replica < o_.replicas; ++replica) tell_routes(replica, epoch_);
  }

  void take_snapshot(int64_t step) {
    ++snapshot_id_;
    snapshot_open_ = shards_.size();
    taken_ = SnapshotSet{.step = step, .slices = {}};
    for (size_t m = 0; m < shards_.size(); ++m)
      bag_.reliable(detail::concat("snapshot shard=", m, " step=", step),
                    [this, m, step, id = snapshot_id_, epoch = epoch_] {
                      if (id != snapshot_id_ || snapshot_open_ == 0) return;
                      if (!shards_[m].shard)
                        return end_snapshot(Errc::peer_lost, "a shard is gone");
                      shards_[m].shard->capture(
                          epoch, step, [this, m, id](const Outcome& outcome, ShardImage image) {
                            snapshot_part(m, id, outcome, std::move(image));
                          });
                    });
  }
  void snapshot_part(size_t m, uint64_t id, const Outcome& outcome, ShardImage image) {
    bag_.reliable(detail::concat("snapshot of shard=", m, " code=", static_cast<int>(outcome.code)),
                  [this, id, outcome, image = std::move(image)] {
                    if (id != snapshot_id_ || snapshot_open_ == 0) return;
                    if (!outcome) return end_snapshot(outcome.code, outcome.text);
                    for (const SliceState& s : image.slices) taken_.slices[s.slice.id] = s;
                    if (--snapshot_open_ > 0) return;
                    writing_ = true;
                    bag_.reliable(detail::concat("commit step=", taken_.step),
                                  [this, id] { commit(id); });
                    carry_out(loop_->checkpoint_captured(now()));
                  });
  }
  void commit(uint64_t id) {
    if (id != snapshot_id_ || !writing_) return;
    writing_ = false;
    newest_ = std::move(taken_);
    carry_out(loop_->checkpoint_ended(Errc::ok, "", now()));
  }
  void end_snapshot(Errc code, const std::string& text) {
    snapshot_open_ = 0;
    writing_ = false;
    ++snapshot_id_;
    carry_out(loop_->checkpoint_ended(code, text, now()));
  }

  // The leader

  void carry_out(const TrainActions& actions) {
    for (const TrainAction& action : actions) switch (action.kind) {
        case TrainAction::start:
          start_step(action.replica, action.step);
          break;
        case TrainAction::cancel:
          cancel();
          break;
        case TrainAction::checkpoint:
          take_snapshot(action.step);
          break;
        case TrainAction::restore:
          restore();
          break;
        case TrainAction::fail:
          throw Violation{"I16", "the training gave up: " + action.text};
        case TrainAction::tell:
          history_.note(action.text);
          break;
        default:  // the end; this world has no followers, and its plan has no pauses
          break;
      }
  }
  void start_step(int64_t at, int64_t step) {
    const auto replica = static_cast<int32_t>(at);
    const int64_t run = running_[replica] = ++next_run_;
    step_of_[replica] = step;
    bag_.reliable(detail::concat("start replica=", replica, " step=", step),
                  [this, replica, run, step] { workers_.start(replica, run, step); });
  }
  void cancel() {
    for (int32_t replica = 0; replica < o_.replicas; ++replica)
      if (const int64_t run = running_[replica]; run != 0)
        bag_.reliable(detail::concat("cancel replica=", replica),
                      [this, replica, run] { workers_.take_back(replica, run); });
  }

  // Checks

  void applied(Shard::Applied a) {
    const bool third = a.version % 3 == 0;
    if (o_.planted == Planted::swapped_sum && third) std::swap(a.from.front(), a.from.back());
    ledger_.applied(a);
    if (o_.planted == Planted::doubled_apply && third) ledger_.applied(a);
  }

  void check() {
    for (const ShardProcess& p : shards_)
      if (p.shard) ledger_.look(*p.shard);
    ledger_.check();
  }

  std::string pending() const {
    std::string out = detail::concat(bag_.size(), " messages;");
    out += workers_.pending();
    for (const ShardProcess& p : shards_)
      if (p.shard) out += " " + p.shard->waiting_for() + ";";
    return out;
  }

  // At the end no request waits (I21), and every gradient is applied once (I1).
  void check_end() {
    if (!workers_.idle()) throw Violation{"I21", pending()};
    for (const ShardProcess& p : shards_) ledger_.check_end(*p.shard);
    ledger_.check_end();
    history_.note(detail::concat("end events=", events_));
  }

  const ShardWorldOptions o_;
  Draw draw_;
  History& history_;
  ShardLedger ledger_;
  int64_t time_ = 1000;  // ms
  int64_t events_ = 0;
  MessageBag bag_;
  SimWorkers workers_;
  std::multimap<uint64_t, bool> fault_at_;  // event -> true: hits a worker, false: hits a shard
  std::vector<ShardProcess> shards_;
  std::map<std::pair<uint64_t, uint64_t>, std::pair<int32_t, int64_t>>
      requests_;  // (sender, ticket) -> replica, step

  // State of the leader.
  std::unique_ptr<TrainLoop> loop_;
  bool starting_ = false;
  uint64_t epoch_ = 0, established_ = 0;
  int64_t next_run_ = 0, restore_id_ = 0;
  uint64_t snapshot_id_ = 0;
  std::map<int32_t, int64_t> running_, step_of_;  // by replica; 0: idle
  size_t restore_left_ = 0, snapshot_open_ = 0;
  bool writing_ = false;  // a captured snapshot is being written to disk
  Outcome restore_error_;
  SnapshotSet taken_;
  std::optional<SnapshotSet> newest_;
};

}  // namespace troupe::sim
