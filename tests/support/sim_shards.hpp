// ShardWorld: workers and shards as plain state machines, a TrainLoop that leads them, and a bag of
// messages between them. The next event is drawn from the seed: any message of the bag (so they are
// late and overtake each other), a repeated request, time. Lossy messages (pushes, pulls, answers)
// may be dropped and doubled; workers are killed and come back with a higher incarnation; shards
// are lost and restored with all others from the newest snapshot under a new epoch.
//
// The invariants of the parameter protocol are checked after every event (shard_ledger.hpp).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/shard_ledger.hpp"
#include "training/shard.hpp"
#include "training/train_loop.hpp"

namespace troupe::sim {

// Mistakes that a scenario can make on purpose, to see that the checks find them.
enum class Planted {
  none,
  fresh_step,      // after a lost acknowledgement a worker takes a fresh sequence, and step
  doubled_apply,   // the log says some updates twice
  same_epoch,      // a lost shard is brought back from its snapshot without a new epoch
  swapped_sum,     // the log has the slots in another order
  torn_gradient,   // a worker that comes back computes with another bit
  no_resend,       // what is lost stays lost
  outside_random,  // something that the seed does not decide
};

struct ShardWorldOptions {
  Aggregation rule = Aggregation::sync;
  int32_t slots = 2;
  size_t shards = 1;
  uint32_t slices_per_shard = 1;
  int64_t slice_size = 3;
  int64_t steps = 4;
  int64_t checkpoint_every = 2;
  std::string optimizer = "sgd";
  double drop = 0, duplicate = 0;
  int worker_kills = 0, shard_losses = 0;
  int64_t faults_until = 0;  // events; afterwards nothing is lost any more
  Planted planted = Planted::none;

  static ShardWorldOptions draw(Draw& draw, Aggregation rule) {
    ShardWorldOptions o;
    o.rule = rule;
    o.slots = static_cast<int32_t>(draw.between(2, 4));
    o.shards = static_cast<size_t>(draw.between(1, 3));
    o.slices_per_shard = static_cast<uint32_t>(draw.between(1, 2));
    o.slice_size = draw.between(1, 5);
    o.steps = draw.between(3, 7);
    o.checkpoint_every = draw.between(1, 3);
    const char* const optimizers[] = {"sgd", "momentum", "adam"};
    o.optimizer = optimizers[draw.below(3)];
    o.drop = draw.chance(0.3) ? 0 : 0.3 * static_cast<double>(draw.below(100)) / 100;
    o.duplicate = draw.chance(0.3) ? 0 : 0.3 * static_cast<double>(draw.below(100)) / 100;
    o.worker_kills = static_cast<int>(draw.below(4));
    o.shard_losses = static_cast<int>(draw.below(3));
    o.faults_until = draw.between(200, 600);
    return o;
  }
  ShardWorldOptions without_faults() const {
    ShardWorldOptions o = *this;
    o.drop = o.duplicate = 0;
    o.worker_kills = o.shard_losses = 0;
    o.planted = Planted::none;
    return o;
  }
  std::string describe() const {
    return detail::concat("options rule=", to_string(rule), " slots=", slots, " shards=", shards,
                          " slices=", slices_per_shard, " size=", slice_size, " steps=", steps,
                          " checkpoint_every=", checkpoint_every, " optimizer=", optimizer,
                          " drop=", drop, " duplicate=", duplicate, " worker_kills=", worker_kills,
                          " shard_losses=", shard_losses, " faults_until=", faults_until);
  }
};

class ShardWorld {
 public:
  // `golden`: the chain of a run without faults, to be equal to; may be null.
  ShardWorld(const ShardWorldOptions& options, uint64_t seed, const HashChain* golden,
             History& history)
      : o_(options),
        draw_(seed),
        history_(history),
        ledger_(options.rule, options.slots, options.steps, golden) {
    history_.note(o_.describe());
    std::map<int64_t, int64_t> next_steps;
    TrainLoop::Plan plan;
    for (int32_t slot = 0; slot < o_.slots; ++slot) {
      plan.slots.push_back(slot);
      next_steps[slot] = 0;
      workers_.push_back({.slot = slot});
    }
    plan.steps = o_.steps;
    plan.checkpoint_every = o_.checkpoint_every;
    plan.checkpoints = true;
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
    restore();  // the first values come as they come after a loss
    starting_ = true;
    while (!(loop_->ended() && bag_.empty())) {
      if (++events_ > kEventsMax)
        throw Violation{"I21", detail::concat("no end after ", kEventsMax, " events; ", pending())};
      step();
      check();
    }
    check_end();
  }
  const HashChain& chain() const { return ledger_.chain(); }

 private:
  static constexpr int64_t kEventsMax = 30'000;

  struct Request {
    std::optional<Push> push;
    Pull pull;
    size_t shard = 0;
  };
  struct WorkerProcess {
    int32_t slot = 0;
    uint64_t incarnation = 1;
    bool alive = true;
    uint64_t epoch = 0;  // of the routes it has; 0: none
    int64_t run = 0;     // of the step under way; 0: none
    int64_t step = 0;
    std::map<uint64_t, Request> open = {};  // by ticket
    uint64_t next_ticket = 1;
    std::map<uint32_t, int64_t> next_sequence = {};
    std::map<uint32_t, Tensor> values = {};
    std::map<uint32_t, int64_t> pulled_version = {};
    size_t acknowledged = 0;
  };
  struct ShardProcess {
    std::vector<Slice> slices;
    std::unique_ptr<Shard> shard;  // null: not created, or lost
    uint64_t generation = 0;
    bool reachable = true;
  };
  struct Event {
    std::string label;
    std::function<void()> go;
  };
  struct SnapshotSet {
    int64_t step = 0;
    std::map<uint32_t, SliceState> slices;
  };

  uint64_t faults_until() const {
    return static_cast<uint64_t>(std::max<int64_t>(o_.faults_until, 1));
  }
  bool healed() const { return events_ > o_.faults_until; }
  size_t slice_count() const { return o_.shards * o_.slices_per_shard; }
  size_t shard_of(uint32_t slice) const { return slice / o_.slices_per_shard; }
  TrainLoop::Millis now() const { return TrainLoop::Millis(time_); }

  // The bag

  void reliable(std::string label, std::function<void()> go) {
    bag_.push_back({std::move(label), std::move(go)});
  }
  void lossy(const std::string& label, const std::function<void()>& go) {
    if (!healed() && draw_.chance(o_.drop)) return history_.note("drop " + label);
    bag_.push_back({label, go});
    if (!healed() && draw_.chance(o_.duplicate)) bag_.push_back({"again " + label, go});
  }

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
    const size_t i = draw_.below(bag_.size());
    Event event = std::move(bag_[i]);
    bag_[i] = std::move(bag_.back());
    bag_.pop_back();
    if (o_.planted == Planted::outside_random) {
      static int64_t count = 0;
      event.label += detail::concat(" #", ++count);
    }
    history_.note(std::move(event.label));
    event.go();
  }

  void let_time_pass() {
    time_ += 25;
    history_.note("time");
    for (WorkerProcess& w : workers_)
      if (w.alive && o_.planted != Planted::no_resend)
        for (auto& [ticket, request] : w.open) {
          if (o_.planted == Planted::fresh_step && request.push) {
            request.push->sequence = w.next_sequence[request.push->slice]++;
            ++request.push->step;
          }
          send(w, ticket, request);
        }
    carry_out(loop_->tick(now()));
  }

  // Workers

  void start_step(WorkerProcess& w, int64_t run, int64_t step) {
    if (!w.alive) return fail_step(w.slot, run, Errc::peer_lost, "its process is gone");
    if (run != running_[w.slot]) return;  // taken back meanwhile
    if (w.epoch == 0) return fail_step(w.slot, run, Errc::stale, "no routes yet");
    w.run = run;
    w.step = step;
    w.values.clear();
    w.acknowledged = 0;
    w.open.clear();
    for (uint32_t slice = 0; slice < slice_count(); ++slice) {
      Request request;
      request.shard = shard_of(slice);
      request.pull = {.slice = slice,
                      .slot = w.slot,
                      .step = step,
                      .have_version = -1,
                      .epoch = w.epoch,
                      .ticket = w.next_ticket};
      send(w, w.next_ticket, w.open[w.next_ticket] = request);
      ++w.next_ticket;
    }
  }

  static uint64_t address(const WorkerProcess& w) {
    return static_cast<uint64_t>(w.slot) * 1000 + w.incarnation;
  }

  void send(const WorkerProcess& w, uint64_t ticket, const Request& request) {
    const uint64_t from = address(w);
    const size_t m = request.shard;
    if (request.push) {
      const Push& p = *request.push;
      lossy(detail::concat("push slot=", p.slot, " step=", p.step, " slice=", p.slice, " sequence=",
                           p.sequence, " incarnation=", p.incarnation, " epoch=", p.epoch),
            [this, m, from, p] {
              if (!shards_[m].shard) return;
              requests_[{from, p.ticket}] = {p.slot, p.step};
              ShardActions out;
              shards_[m].shard->push(p, from, out);
              route(m, out);
            });
    } else {
      const Pull p = request.pull;
      lossy(detail::concat("pull slot=", p.slot, " step=", p.step, " slice=", p.slice,
                           " epoch=", p.epoch, " ticket=", ticket),
            [this, m, from, p] {
              if (!shards_[m].shard) return;
              ShardActions out;
              shards_[m].shard->pull(p, from, out);
              route(m, out);
            });
    }
  }

  void route(size_t m, ShardActions& actions) {
    for (ShardAction& action : actions) {
      if (auto* done = std::get_if<SnapshotDone>(&action.message)) {
        snapshot_part(m, std::move(*done));
      } else if (auto* pulled = std::get_if<Pulled>(&action.message)) {
        lossy(detail::concat("pulled to=", action.to, " slice=", pulled->slice, " version=",
                             pulled->version, " code=", static_cast<int>(pulled->code)),
              [this, to = action.to, p = *pulled] { on(to, p); });
      } else {
        const auto& ack = std::get<Acknowledged>(action.message);
        if (ack.code == Errc::ok) {
          const auto [slot, step] = requests_.at({action.to, ack.ticket});
          ledger_.acknowledged(ack.slice, slot, step);
        }
        lossy(detail::concat("acknowledged to=", action.to, " slice=", ack.slice,
                             " version=", ack.version, " code=", static_cast<int>(ack.code)),
              [this, to = action.to, ack] { on(to, ack); });
      }
    }
  }

  WorkerProcess* receiver(uint64_t to, uint64_t ticket) {
    WorkerProcess& w = workers_.at(to / 1000);
    return w.alive && address(w) == to && w.run != 0 && w.open.count(ticket) ? &w : nullptr;
  }

  void on(uint64_t to, const Pulled& m) {
    WorkerProcess* w = receiver(to, m.ticket);
    if (!w) return;
    if (m.code != Errc::ok) return end_step(*w, m.code, m.text);
    if (o_.rule == Aggregation::sync && m.version != w->step)
      throw Violation{"I6", detail::concat("slot ", w->slot, " begins step ", w->step,
                                           " with version ", m.version, " of slice ", m.slice)};
    int64_t& before = w->pulled_version[m.slice];
    if (m.version < before && o_.rule == Aggregation::async)
      throw Violation{"I3", detail::concat("slot ", w->slot, " pulled version ", before,
                                           " of slice ", m.slice, " and now ", m.version)};
    before = m.version;
    w->open.erase(m.ticket);
    w->values[m.slice] = m.values;
    if (w->values.size() < slice_count()) return;
    for (uint32_t slice = 0; slice < slice_count(); ++slice) {
      Push p{.slice = slice,
             .slot = w->slot,
             .incarnation = w->incarnation,
             .step = w->step,
             .sequence = w->next_sequence[slice]++,
             .epoch = w->epoch,
             .ticket = w->next_ticket,
             .gradient = gradient(*w, slice)};
      Request request;
      request.push = std::move(p);
      request.shard = shard_of(slice);
      send(*w, w->next_ticket, w->open[w->next_ticket] = std::move(request));
      ++w->next_ticket;
    }
  }

  // Depends on all slices, so that one wrong bit anywhere is seen; with rounding, so that the order
  // of a sum is.
  Tensor gradient(const WorkerProcess& w, uint32_t slice) const {
    float sum = 0;
    for (const auto& [id, values] : w.values)
      for (float v : values.values<float>()) sum += v * 0.13F;
    Tensor out = Tensor::empty(DType::f32, Shape{o_.slice_size});
    const Tensor& mine = w.values.at(slice);
    for (int64_t i = 0; i < o_.slice_size; ++i)
      out.mutable_data<float>()[i] =
          mine.data<float>()[i] * 0.37F + sum * 0.071F + 0.1F * static_cast<float>(w.slot + 1) -
          0.019F * static_cast<float>(w.step * (i + 1)) +
          (o_.planted == Planted::torn_gradient && w.incarnation > 1 ? 0.001F : 0.0F);
    return out;
  }

  void on(uint64_t to, const Acknowledged& m) {
    WorkerProcess* w = receiver(to, m.ticket);
    if (!w) return;
    if (m.code != Errc::ok) return end_step(*w, m.code, m.text);
    w->open.erase(m.ticket);
    if (++w->acknowledged < slice_count()) return;
    const int64_t run = std::exchange(w->run, 0);
    reliable(detail::concat("done slot=", w->slot, " step=", w->step),
             [this, slot = w->slot, run, step = w->step] {
               if (running_[slot] != run) return;
               running_[slot] = 0;
               carry_out(loop_->step_done(slot, step, 0.5, now()));
             });
  }

  void end_step(WorkerProcess& w, Errc code, const std::string& text) {
    w.open.clear();
    const int64_t run = std::exchange(w.run, 0);
    reliable(detail::concat("failed slot=", w.slot, " step=", w.step, ": ", text),
             [this, slot = w.slot, run, code, text] { fail_step(slot, run, code, text); });
  }
  void fail_step(int32_t slot, int64_t run, Errc code, const std::string& text) {
    if (running_[slot] != run || run == 0) return;
    running_[slot] = 0;
    carry_out(loop_->step_failed(slot, step_of_[slot], code, text, now()));
  }

  void take_routes(WorkerProcess& w, uint64_t epoch) {
    if (!w.alive || epoch <= w.epoch) return;
    w.epoch = epoch;
    w.next_sequence.clear();
    w.pulled_version.clear();
    if (w.run != 0) end_step(w, Errc::stale, "a new epoch");
  }

  void kill_worker() {
    WorkerProcess& w = workers_[draw_.below(workers_.size())];
    if (!w.alive) return;
    history_.note(detail::concat("kill worker ", w.slot, " incarnation=", w.incarnation));
    const uint64_t next = w.incarnation + 1;
    const int64_t run = running_[w.slot];
    w = WorkerProcess{.slot = w.slot, .incarnation = next, .alive = false};
    if (run != 0) fail_step(w.slot, run, Errc::peer_lost, "killed");
    reliable(detail::concat("worker ", w.slot, " is back"), [this, slot = w.slot] {
      WorkerProcess& back = workers_[static_cast<size_t>(slot)];
      back.alive = true;
      if (established_ != 0)
        reliable(detail::concat("routes to=", slot, " epoch=", established_),
                 [this, slot, epoch = established_] {
                   take_routes(workers_[static_cast<size_t>(slot)], epoch);
                 });
    });
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
    reliable(detail::concat("shard process ", m, " is back"),
             [this, m] { shards_[m].reachable = true; });
    if (snapshot_open_ > 0 || writing_) end_snapshot(Errc::peer_lost, "a shard is gone");
    if (!starting_) carry_out(loop_->shards_lost("a shard is gone", now()));
  }

  void create(size_t m, uint64_t epoch) {
    Shard::Spec spec;
    spec.epoch = epoch;
    spec.rule = o_.rule;
    spec.slots = slots_at(o_.slots, 0);
    spec.slices = shards_[m].slices;
    shards_[m].shard = std::make_unique<Shard>(std::move(spec));
    shards_[m].shard->set_applied_log([this](const Shard::Applied& a) { applied(a); });
  }

  Tensor initial(uint32_t slice) const {
    Tensor t = Tensor::empty(DType::f32, Shape{o_.slice_size});
    for (int64_t i = 0; i < o_.slice_size; ++i)
      t.mutable_data<float>()[i] = 0.3F * static_cast<float>(i) - 0.7F * static_cast<float>(slice);
    return t;
  }

  // From the newest snapshot, or the first values.
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
        outcome = shard.clear(epoch, slots_at(o_.slots, 0), out);
      for (const Slice& s : shards_[m].slices)
        if (outcome) outcome = shard.set_initial(epoch, s.id, initial(s.id), out);
    }
    if (outcome) outcome = shard.set_rule(epoch, o_.rule, slots_at(o_.slots, step));
    route(m, out);
    return outcome;
  }

  void restore() {
    const uint64_t epoch = ++epoch_;
    established_ = 0;
    const int64_t id = ++restore_id_;
    restore_left_ = shards_.size();
    for (size_t m = 0; m < shards_.size(); ++m)
      reliable(detail::concat("begin restore shard=", m, " epoch=", epoch), [this, m, epoch, id] {
        ShardProcess& p = shards_[m];
        if (!p.reachable) return restore_part(id, m, {Errc::peer_lost, "the process is not there"});
        if (!p.shard) create(m, epoch);
        ShardActions out;
        const Outcome begun = p.shard->begin_restore(epoch, out);
        route(m, out);
        if (!begun) return restore_part(id, m, begun);
        reliable(detail::concat("restore shard=", m, " epoch=", epoch),
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
    for (int32_t slot = 0; slot < o_.slots; ++slot) next[slot] = newest_ ? newest_->step : 0;
    carry_out(loop_->restored(next, now()));
  }

  void tell_routes() {
    established_ = epoch_;
    for (const WorkerProcess& w : workers_)
      reliable(detail::concat("routes to=", w.slot, " epoch=", epoch_),
               [this, slot = w.slot, epoch = epoch_] {
                 take_routes(workers_[static_cast<size_t>(slot)], epoch);
               });
  }

  void snapshot(int64_t step) {
    ++snapshot_id_;
    snapshot_open_ = shards_.size();
    taken_ = SnapshotSet{.step = step, .slices = {}};
    for (size_t m = 0; m < shards_.size(); ++m)
      reliable(detail::concat("snapshot shard=", m, " step=", step),
               [this, m, step, id = snapshot_id_, epoch = epoch_] {
                 if (id != snapshot_id_ || snapshot_open_ == 0) return;
                 if (!shards_[m].shard) return end_snapshot(Errc::peer_lost, "a shard is gone");
                 ShardActions out;
                 shards_[m].shard->snapshot(epoch, step, id, 0, out);
                 route(m, out);
               });
  }
  void snapshot_part(size_t m, SnapshotDone done) {
    reliable(detail::concat("snapshot of shard=", m, " code=", static_cast<int>(done.code)),
             [this, done = std::move(done)] {
               if (done.id != snapshot_id_ || snapshot_open_ == 0) return;
               if (done.code != Errc::ok) return end_snapshot(done.code, done.text);
               for (const SliceState& s : done.state.slices) taken_.slices[s.slice.id] = s;
               if (--snapshot_open_ > 0) return;
               writing_ = true;
               reliable(detail::concat("commit step=", taken_.step),
                        [this, id = done.id] { commit(id); });
               carry_out(loop_->snapshot_captured(now()));
             });
  }
  void commit(uint64_t id) {
    if (id != snapshot_id_ || !writing_) return;
    writing_ = false;
    newest_ = std::move(taken_);
    carry_out(loop_->snapshot_taken(Errc::ok, "", now()));
  }
  void end_snapshot(Errc code, const std::string& text) {
    snapshot_open_ = 0;
    writing_ = false;
    ++snapshot_id_;
    carry_out(loop_->snapshot_taken(code, text, now()));
  }

  // The leader

  void carry_out(const TrainOrders& orders) {
    for (const TrainOrder& order : orders) {
      switch (order.kind) {
        case TrainOrder::start: {
          const auto slot = static_cast<int32_t>(order.slot);
          const int64_t run = running_[slot] = ++next_run_;
          step_of_[slot] = order.step;
          reliable(detail::concat("start slot=", slot, " step=", order.step),
                   [this, slot, run, step = order.step] {
                     start_step(workers_[static_cast<size_t>(slot)], run, step);
                   });
          break;
        }
        case TrainOrder::cancel:
          for (WorkerProcess& w : workers_)
            if (running_[w.slot] != 0)
              reliable(detail::concat("cancel slot=", w.slot),
                       [this, slot = w.slot, run = running_[w.slot]] {
                         WorkerProcess& mine = workers_[static_cast<size_t>(slot)];
                         if (mine.run == run) mine.run = 0, mine.open.clear();
                         fail_step(slot, run, Errc::cancelled, "taken back");
                       });
          break;
        case TrainOrder::snapshot:
          snapshot(order.step);
          break;
        case TrainOrder::restore:
          restore();
          break;
        case TrainOrder::fail:
          throw Violation{"I16", "the training gave up: " + order.text};
        case TrainOrder::finish:
        case TrainOrder::tell:
          history_.note(order.text);
          break;
      }
    }
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
    for (const WorkerProcess& w : workers_)
      out += detail::concat(" worker ", w.slot, " step ", w.step, " has ", w.open.size(),
                            " requests;");
    for (const ShardProcess& p : shards_)
      if (p.shard) out += " " + p.shard->waiting_for() + ";";
    return out;
  }

  // At the end nothing waits (I21), and every gradient is in the values once (I1).
  void check_end() {
    for (const WorkerProcess& w : workers_)
      if (!w.open.empty() || w.run != 0) throw Violation{"I21", pending()};
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
  std::vector<Event> bag_;
  std::multimap<uint64_t, bool> fault_at_;  // event -> whether a worker is hit, else a shard
  std::vector<WorkerProcess> workers_;
  std::vector<ShardProcess> shards_;
  std::map<std::pair<uint64_t, uint64_t>, std::pair<int32_t, int64_t>>
      requests_;  // (sender, ticket) -> slot, step

  // The leader's.
  std::unique_ptr<TrainLoop> loop_;
  bool starting_ = false;
  uint64_t epoch_ = 0, established_ = 0;
  int64_t next_run_ = 0, restore_id_ = 0;
  uint64_t snapshot_id_ = 0;
  std::map<int32_t, int64_t> running_, step_of_;  // by slot; 0: idle
  size_t restore_left_ = 0, snapshot_open_ = 0;
  bool writing_ = false;  // what was captured is on its way to the disk
  Outcome restore_error_;
  SnapshotSet taken_;
  std::optional<SnapshotSet> newest_;
};

}  // namespace troupe::sim
