// SimTrainer: the program of a client of a SimCluster. It builds the towers of its replicas, trains
// them, and reads the weights in the end, as train() does, but never waits: each of its actions
// follows an event that the cluster lets happen.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/master/master.hpp"
#include "actors/cluster/process.hpp"
#include "devices/run_context.hpp"
#include "chaos/shard_ledger.hpp"
#include "chaos/sim_cluster_options.hpp"
#include "chaos/sim_disk.hpp"
#include "chaos/sim_net.hpp"
#include "chaos/open_steps.hpp"
#include "training/checkpoints/checkpoint.hpp"
#include "training/checkpoints/digest.hpp"
#include "training/checkpoints/record.hpp"
#include "training/loop/present_workers.hpp"
#include "training/loop/train_driver.hpp"

namespace troupe::sim {

// The events of its cluster that a program sees.
struct SimTrainerWorld {
  const SimClusterOptions& options;
  const SimNet& net;
  SimDisk& disk;
  History& history;
  ShardLedger& ledger;
  std::function<void(int64_t step)> begins;  // a replica begins this step
  std::function<void()> restores;            // there is a checkpoint, and it is to be restored
  std::function<bool()> disk_failed;         // checkpoints could not be read or written for a while
  std::function<void()> gets_on;             // a step has ended well
  std::function<bool(int32_t replica)> came_back;  // its worker was killed, and is there again
  std::function<bool()> ps_died;                   // one at least
};

// The graph of a program, with a tower for each of its replicas.
struct SimModel {
  struct Part {
    troupe::Tower tower;
    int64_t call = 0;  // once prepared
  };
  SimModel(const SimClusterOptions& o, const std::vector<int32_t>& replicas) : graph(o.ops) {
    for (troupe::Tower& tower : o.build(graph, o, replicas)) {
      const auto replica = static_cast<int32_t>(tower.replica);
      towers[replica].tower = std::move(tower);
    }
  }

  Graph graph;
  std::map<int32_t, Part> towers;  // by replica
  ReplicaPlaces places = {};       // until the first step
};

// The step in the path of a checkpoint; -1: there is none.
inline int64_t step_in(const std::string& path) {
  const size_t at = path.rfind("-step");
  return at == path.npos ? -1 : std::stoll(path.substr(at + 5));
}

// The laws that a training's program can see broken.
class SimLaws {
 public:
  SimLaws(const SimClusterOptions& o, std::function<bool()> ps_died)
      : o_(o), ps_died_(std::move(ps_died)) {}

  // `newest`: the path of the newest checkpoint that was taken; empty: none.
  void begins(int64_t replica, int64_t step, const std::string& newest) const {
    if (replicas_keep_step(o_) && step < step_in(newest))
      throw Violation{"I13",
                      detail::concat("step ", step, " is done again, and there is ", newest)};
    if (const auto done = done_.find(replica);
        !goes_back() && done != done_.end() && step < first_again(done->second + 1))
      throw Violation{
          "I2", detail::concat("step ", step, " of replica ", replica, " is done again after ",
                               done->second, ", and no ps has died")};
  }
  bool goes_back() const { return ps_died_() || goes_back_with_workers(o_); }
  // The first step that may be done again where `step` fails: with local steps that of its round.
  int64_t first_again(int64_t step) const {
    const auto later = o_.switches.upper_bound(step);
    const bool first = later == o_.switches.begin();
    const Aggregation& rule = first ? o_.rule : std::prev(later)->second;
    if (!rule.local()) return step;
    return std::max(first ? 0 : std::prev(later)->first, step / rule.bound * rule.bound);
  }
  void ended_well(int64_t replica, int64_t step) { done_[replica] = step; }
  void told(const std::string& text) const {
    // To follow another owner to its epoch costs no step.
    if (!goes_back() && text.starts_with("shards restored") &&
        text.find("; the 0 steps") == text.npos)
      throw Violation{"I2", "no ps has died, and " + text};
  }
  // A pause sees the same weights each time that its step is done.
  void looked(int64_t step, const std::string& sha) {
    if (repeats_bits(o_) && looked_.emplace(step, sha).first->second != sha)
      throw Violation{"I5", detail::concat("two pauses of step ", step, " saw other weights")};
  }
  const std::map<int64_t, std::string>& looked() const { return looked_; }

 private:
  const SimClusterOptions& o_;
  const std::function<bool()> ps_died_;
  std::map<int64_t, std::string> looked_;  // hashes, by step
  std::map<int64_t, int64_t> done_;        // by replica: the last step that ended well
};

inline double loss_in(const RunResult& result) {
  const Tensor& loss = result.values.at(0);
  return loss.dtype() == DType::f64 ? loss.item<double>() : loss.item<float>();
}

inline std::string sha256_of(const SimWatch::Weights& values) {
  return weights_sha256({values.begin(), values.end()});
}

// As the error asks for: a program that makes the shards of a ps that is back before their owner
// does takes them for its own.
inline bool is_to_start_again(Errc code, const std::string& text) {
  return code == Errc::invalid_argument && text.find("start this program again") != text.npos;
}

inline constexpr const char *kRecordFolder = "/record", *kReplayFolder = "/replay";

// Begins a record, or reads one that is to be repeated.
inline void set_order(const SimClusterOptions& o, SimDisk& disk,
                      const CheckpointRequest& checkpoints, TrainDriver::Terms& terms) {
  const RecordTerms own{.replicas = checkpoints.replicas,
                        .checkpoint_every = o.checkpoint_every,
                        .pause_every = o.pause_every};
  if (o.record) {
    terms.record = kRecordFolder;
    begin_record(disk, terms.record, own, /*resume=*/true, /*at=*/0);
    terms.part = newest_part(disk, terms.record);
  }
  if (o.replay.empty()) return;
  terms.replay = kReplayFolder;
  const OrderRecord record =
      read_record(disk, terms.replay, [](const std::string&) { return false; });
  check_replay(record, terms.replay, own, o.steps);
  terms.rules = record.rules;
}

class SimTrainer final : public TrainProgram {
 public:
  // `life`: of the program, from 0 on; a later one resumes.
  SimTrainer(SimTrainerWorld world, Process& process, int number, int life,
             std::unique_ptr<SimModel> model)
      : world_(std::move(world)),
        number_(number),
        model_(std::move(model)),
        master_(process, model_->graph, session_of(number, life)),
        laws_(world_.options, world_.ps_died) {}
  static constexpr const char* kFolder = "/checkpoints";
  static uint64_t session_of(int number, int life) {
    return 77 + static_cast<uint64_t>(number) + 1000 * static_cast<uint64_t>(life);
  }
  // When the process has been started with its listener.
  MeshListener* listener() { return &master_.members(); }
  void begin_group() {
    ParameterOwnerOptions options;
    if (world_.options.clients > 1)
      options = {.container = "together", .replicas = world_.options.replicas};
    group_ = std::make_shared<ParameterGroup>(master_, options, &world_.disk);
    group_->begin();
  }
  // Before the process stops.
  void stop() {
    group_->end();
    master_.stop();
  }

  bool starting() const { return prepared_ && !begun(); }  // from the first prepare() to a step
  bool training() const { return phase_ == Phase::training; }
  // The path of the newest one that it was told of; "": none.
  std::string checkpoint() const { return driver_ ? driver_->newest() : ""; }
  bool reading() const { return phase_ == Phase::reading; }
  bool gave_up() const { return phase_ == Phase::gave_up; }  // and is to be started again
  bool owner() const { return group_->owner(); }
  bool ended() const { return phase_ == Phase::ended; }
  OpenSteps& steps() { return open_; }
  const std::string& weights() const { return weights_; }  // once ended
  // The weights that pauses have seen, as hashes by step.
  const std::map<int64_t, std::string>& looked() const { return laws_.looked(); }

  bool has_event() const { return !program_.empty() || (begun() && !events_.empty()); }
  void next_event() {
    world_.history.note(detail::concat("trainer ", number_));
    auto& from = program_.empty() ? events_ : program_;
    Event event = std::move(from.front());
    from.pop_front();
    carry_out(event());
  }
  // Every OpenSteps::kTickMs.
  void tick() {
    open_.tick();
    if (begun()) {
      driver_->tick_places();
      carry_out(driver_->loop().tick(now()));
    }
    try {
      lead();
    } catch (const Error& e) {
      // The folder of checkpoints may come back.
      if (phase_ == Phase::establishing && (e.code() == Errc::io || e.code() == Errc::bad_data)) {
        phase_ = Phase::preparing;
        return;
      }
      if (is_to_start_again(e.code(), e.what())) return give_up(e.what());
      if (!TrainLoop::passes(e.code())) throw;
      if (e.code() != Errc::timeout) phase_ = Phase::joining;  // prepared again
    }
  }
  TimePoint next_timer() const { return later_.empty() ? TimePoint::max() : later_.begin()->first; }
  void pass_time() {
    while (!later_.empty() && later_.begin()->first <= world_.net.now()) {
      const auto act = std::move(later_.begin()->second);
      later_.erase(later_.begin());
      act();
    }
  }

  std::string pending() {
    return detail::concat(open_.size(), " steps open; ", master_.calls().describe());
  }

 private:
  using Event = TrainDriver::Event;
  enum class Phase : uint8_t {
    joining,
    preparing,
    establishing,
    training,
    reading,
    ended,
    gave_up
  };

  bool begun() const { return driver_ && driver_->begun(); }
  void give_up(const std::string& why) {
    phase_ = Phase::gave_up;
    world_.history.note(detail::concat("gave up: ", why));
  }
  // Adds the actions of the driver itself to the history.
  void carry_out(const TrainActions& actions) {
    for (const TrainAction& action : actions) {
      if (action.kind == TrainAction::checkpoint)
        world_.history.note(detail::concat("snapshot at step ", action.step));
      if (action.kind == TrainAction::restore) {
        world_.history.note("restore");
        if (!driver_->newest().empty()) world_.restores();
      }
      driver_->carry_out({action});
    }
  }

  // Reads the state of the master, and does not wait. Throws: Error(timeout): not yet.
  void lead() {
    if (phase_ == Phase::joining && all_there()) {
      phase_ = Phase::preparing;
      prepared_ = true;
      std::vector<const troupe::Tower*> towers;
      for (const auto& [replica, t] : model_->towers) towers.push_back(&t.tower);
      model_->places = first_places(master_, group_->shared() ? "a shared container" : "", towers,
                                    std::chrono::milliseconds(world_.options.move_after_ms), now(),
                                    [this](const std::string& text) { world_.history.note(text); });
      for (auto& [replica, t] : model_->towers)
        t.call = master_.calls().prepare({t.tower.loss, t.tower.update}, t.tower.feeds);
    }
    if (phase_ != Phase::preparing) return;
    for (const auto& [replica, t] : model_->towers)
      master_.calls().wait_ready(t.call, std::chrono::milliseconds(0));
    phase_ = Phase::establishing;
    if (!driver_) make_driver();
    group_->train(driver_->checkpoints().replicas);
    group_->take_over([this](Errc code, const std::string& text) {
      program_.push_back(
          [this, code, text] { return code == Errc::ok ? establish() : established(code, text); });
    });
  }
  // The owner alone resumes; the programs of other sessions go on where its shards are.
  TrainActions establish() {
    if (group_->took_over()) world_.history.note("took over");
    began_with_ = group_->owner() ? newest() : std::nullopt;
    driver_->establish(began_with_, [this](Errc code, const std::string& text) {
      program_.push_back([this, code, text] { return established(code, text); });
    });
    return {};
  }
  void make_driver() {
    const SimClusterOptions& o = world_.options;
    Compression compression = o.compression;
    compression.plan = {.every = o.checkpoint_every, .pauses = o.pause_every, .steps = o.steps};
    CheckpointRequest checkpoints;
    for (const auto& [replica, tower] : model_->towers) checkpoints.replicas.push_back(replica);
    if (world_.options.checkpoint_every > 0) checkpoints.directory = kFolder;
    TrainDriver::Terms terms{.rule = o.switches.empty() ? std::optional(o.rule) : std::nullopt,
                             .compression = std::move(compression),
                             .steps = o.steps};
    sim::set_order(o, world_.disk, checkpoints, terms);
    driver_.emplace(
        *this, *group_, [this](Event event) { events_.push_back(std::move(event)); },
        std::move(checkpoints), nullptr, std::move(terms));
  }
  bool all_there() {
    const auto agents = master_.members().agents();
    const auto others = std::count_if(agents.begin(), agents.end(), [this](const auto& agent) {
      return !world_.options.late_program || !agent.first.starts_with("/job:client");
    });
    return others == world_.options.shape.servers() +
                         (world_.options.late_program ? 0 : world_.options.clients - 1);
  }
  TrainActions established(Errc code, const std::string& text) {
    // Checkpoints that cannot be read may come back.
    if (TrainLoop::passes(code) || code == Errc::io || code == Errc::bad_data) {
      phase_ = Phase::preparing;  // tried again
      return {};
    }
    if (is_to_start_again(code, text)) {
      give_up(text);
      return {};
    }
    if (code != Errc::ok) throw Violation{"I16", "no start: " + text};
    phase_ = Phase::training;
    TrainLoop::Plan plan{.steps = world_.options.steps,
                         .checkpoint_every = world_.options.checkpoint_every,
                         .pause_every = world_.options.pause_every};
    driver_->set_places(std::move(model_->places));
    driver_->begin(plan, began_with_);
    const auto taken = [](Errc, const std::string&, int64_t) {};
    for (const auto& [step, rule] : world_.options.switches)
      group_->requests().change({.rule = rule, .step = step}, taken);
    for (const auto& [step, scale] : world_.options.scales)
      group_->requests().change({.rule = {}, .rate_scale = scale, .step = step}, taken);
    return {};
  }

  // The functions of a TrainProgram

  TrainLoop::Millis now() const override {
    return std::chrono::duration_cast<TrainLoop::Millis>(world_.net.now().time_since_epoch());
  }
  std::optional<Manifest> newest() override {
    std::vector<std::string> warnings;
    std::optional<Manifest> found = find_newest(world_.disk, kFolder, warnings);
    if (!found && !warnings.empty()) throw Error(Errc::bad_data, warnings.back());
    if (world_.options.forgetful_program) return std::nullopt;
    return found;
  }
  // Reads all parameters, which are those of this step, and sets a rate scale that depends on it,
  // but for ftrl.
  void pause(int64_t step) override {
    world_.history.note(detail::concat("pause at step ", step));
    group_->rate_scale().begin_pause(step);
    pull_all([this, step](Errc code, const std::string& text, const Weights& seen) {
      events_.push_back([=, this] {
        TrainLoop& loop = driver_->loop();
        if (code != Errc::ok) {
          group_->rate_scale().drop_pause();
          return loop.pause_failed(code, text, now());
        }
        const std::string sha = sha256_of(seen);
        world_.history.note(detail::concat("looked at step ", step, " ", sha));
        laws_.looked(step, sha);
        if (world_.options.watch)
          world_.options.watch->looked(world_.history.us(), step, seen, false);
        if (world_.options.rate_scales && group_->owner() && world_.options.optimizer != "ftrl")
          group_->rate_scale().ask(1.0 / static_cast<double>(1 + step % 3));
        driver_->end_pause(step, true);
        return TrainActions{};
      });
    });
  }
  void ended(Errc code, const std::string& text) override {
    if (code == Errc::io && world_.disk_failed()) return give_up(text);
    if (code != Errc::ok)
      throw Violation{"I16", "the training gave up: " + text + "; " + pending()};
    read_weights();
  }
  void tell(Errc, const std::string& text) override {
    world_.history.note(text);
    laws_.told(text);
  }

  void start_step(int64_t at, int64_t step) override {
    const auto replica = static_cast<int32_t>(at);
    world_.history.note(detail::concat("start replica=", replica, " step=", step));
    laws_.begins(replica, step, driver_->newest());
    world_.begins(step);
    const auto& cancel = driver_->cancellation();
    RunOptions run{.step = step, .cancel = cancel.get()};
    const int64_t number = open_.add();
    const auto report = [this, replica, step, number, keep = cancel](RunResult result) {
      open_.ends(number);
      events_.push_back([this, replica, step, number, result = std::move(result)] {
        open_.remove(number);
        world_.history.note(detail::concat("replica=", replica, " step=", step, " code=",
                                           static_cast<int>(result.code), " ", result.text));
        if (result.code == Errc::ok) {
          world_.ledger.step_done(replica, step);
          laws_.ended_well(replica, step);
          world_.gets_on();
          if (world_.options.watch)
            world_.options.watch->ended_well(world_.history.us(), replica, step, loss_in(result));
        }
        return driver_->step_ended(replica, step, result);
      });
    };
    const troupe::Tower& tower = model_->towers.at(replica).tower;
    const bool other = world_.options.other_data_after_kill && world_.came_back(replica);
    const auto start = [this, replica, run, report, number,
                        batch = tower.batch ? tower.batch(other ? step + 1 : step)
                                            : std::vector<Tensor>()] {
      open_.starts(number);
      try {
        master_.runs().start(model_->towers.at(replica).call, batch, run, report);
      } catch (const Error& e) {
        report({e.code(), e.what(), {}});
      }
    };
    if (world_.options.pace_ms == 0) return start();
    Draw draw(static_cast<uint64_t>(1000 + step * world_.options.replicas + replica));
    later(draw.between(0, world_.options.pace_ms), start);
  }

  // The weights

  using Weights = SimWatch::Weights;
  // Calls `done` when the last pull has ended.
  void pull_all(std::function<void(Errc, const std::string& text, const Weights&)> done) {
    ParameterPort* port = master_.process().services().port(master_.session());
    std::vector<ParameterSpec> parameters = group_->in_graph().made();
    std::erase_if(parameters, [](const ParameterSpec& p) { return p.table.has_value(); });
    const auto seen = std::make_shared<Weights>();
    const WhenDone ended = when_all(
        parameters.size(), [seen, done = std::move(done)](Errc code, const std::string& text) {
          done(code, text, *seen);
        });
    for (const ParameterSpec& spec : parameters)
      port->pull(spec.name, {},
                 [seen, ended, name = spec.name](Errc code, const std::string& text, Tensor value) {
                   seen->emplace(name, value);
                   ended(code, text);
                 });
  }
  // A ps that goes just now comes back with the last checkpoint, and is asked again.
  void read_weights() {
    phase_ = Phase::reading;
    pull_all([this](Errc code, const std::string& text, const Weights& values) {
      program_.push_back([=, this] {
        world_.history.note("read " + text);
        weights_read(code, values);
        return TrainActions{};
      });
    });
  }
  void weights_read(Errc code, const Weights& values) {
    if (code == Errc::ok) {
      weights_ = sha256_of(values);
      world_.history.note("weights " + weights_);
      if (world_.options.watch)
        world_.options.watch->looked(world_.history.us(), world_.options.steps, values, true);
      phase_ = Phase::ended;
      return;
    }
    if (!TrainLoop::passes(code)) throw Violation{"I16", "the weights cannot be read"};
    if (code == Errc::stale && !owner())  // as parameter_values() does
      return group_->follow([this](Errc, const std::string&) {
        program_.push_back([this] {
          read_again();
          return TrainActions{};
        });
      });
    if (!all_there() || world_.options.checkpoint_every == 0 || !world_.ps_died())
      return read_again();
    driver_->establish(newest(), [this](Errc, const std::string&) {
      program_.push_back([this] {
        read_again();
        return TrainActions{};
      });
    });
  }
  void read_again() {
    later(500, [this] { read_weights(); });
  }
  void later(int64_t ms, std::function<void()> act) {
    later_.emplace(world_.net.now() + std::chrono::milliseconds(ms), std::move(act));
  }

  const SimTrainerWorld world_;
  const int number_;
  const std::unique_ptr<SimModel> model_;
  Master master_;
  std::shared_ptr<ParameterGroup> group_;
  SimLaws laws_;
  std::optional<TrainDriver> driver_;                      // from the first establish() on
  std::deque<Event> program_, events_;                     // of the program itself; of the training
  std::multimap<TimePoint, std::function<void()>> later_;  // acts, by their time
  std::optional<Manifest> began_with_;
  Phase phase_ = Phase::joining;
  bool prepared_ = false;
  OpenSteps open_;
  std::string weights_;
};

}  // namespace troupe::sim
