// SimTrainer: the program of a client of a SimCluster. It builds a small network with a tower on
// the worker of each of its replicas, trains it, and reads the weights in the end, as train() does,
// but never waits: what it does next is an event that the cluster lets happen.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/master/master.hpp"
#include "actors/cluster/process.hpp"
#include "tests/support/simulation/shard_ledger.hpp"
#include "tests/support/simulation/sim_cluster_options.hpp"
#include "tests/support/simulation/sim_disk.hpp"
#include "tests/support/simulation/sim_net.hpp"
#include "training/checkpoints/checkpoint.hpp"
#include "training/checkpoints/digest.hpp"
#include "training/loop/train_lead.hpp"
#include "troupe/ops.hpp"
#include "troupe/optimizer.hpp"

namespace troupe::sim {

// The events of its cluster that a program sees.
struct SimTrainerWorld {
  const SimClusterOptions& options;
  const SimNet& net;
  SimDisk& disk;
  History& history;
  ShardLedger& ledger;
  std::function<void(int64_t step)> begins;        // a replica begins this step
  std::function<bool(int32_t replica)> came_back;  // its worker was killed, and is there again
  std::function<void()> restores = {};  // there is a checkpoint, and it is to be restored
};

class SimTrainer final : TrainLead {
 public:
  SimTrainer(SimTrainerWorld world, Process& process, int number,
             const std::vector<int32_t>& replicas)
      : TrainLead([this](Event event) { events_.push_back(std::move(event)); }),
        world_(std::move(world)),
        o_(world_.options),
        process_(process),
        number_(number) {
    checkpoints_.rule = o_.rule;
    checkpoints_.replicas = replicas;
    if (o_.checkpoint_every > 0) checkpoints_.directory = kFolder;
    build_graph();
    master_ = std::make_unique<Master>(process, graph_, 77 + static_cast<uint64_t>(number));
  }
  // When the process has been started with its listener.
  MeshListener* listener() { return master_.get(); }
  void begin_group() {
    ParameterOwnerOptions options;
    if (o_.clients > 1)
      options = {.container = "together", .replicas = SimClusterOptions::kWorkers};
    group_ = std::make_shared<ParameterGroup>(*master_, options, &world_.disk);
    group_->begin();
  }
  // Before the process stops.
  void stop() {
    group_->end();
    master_->stop();
  }

  bool starting() const { return prepared_ && !loop_; }  // from the first prepare() to a step
  bool training() const { return phase_ == Phase::training; }
  bool ended() const { return phase_ == Phase::ended; }
  int64_t open_steps() const { return open_steps_; }
  const std::string& weights() const { return weights_; }  // once ended
  // The weights that pauses have seen, as hashes by step.
  const std::map<int64_t, std::string>& looked() const { return looked_; }

  bool has_event() const { return !program_.empty() || (loop_ && !events_.empty()); }
  void next_event() {
    world_.history.note(detail::concat("trainer ", number_));
    auto& from = program_.empty() ? events_ : program_;
    Event event = std::move(from.front());
    from.pop_front();
    carry_out(event());
  }
  // Every 50 ms.
  void tick() {
    if (loop_) carry_out(loop_->tick(now()));
    try {
      lead();
    } catch (const Error& e) {
      if (e.code() != Errc::timeout && e.code() != Errc::peer_lost) throw;
      if (e.code() == Errc::peer_lost) phase_ = Phase::joining;  // prepared again
    }
  }
  TimePoint next_timer() const { return reread_at_; }
  void pass_time() {
    if (world_.net.now() < reread_at_) return;
    reread_at_ = TimePoint::max();
    read_weights();
  }

  std::string pending() const {
    return detail::concat(open_steps_, " steps open; ", master_->describe());
  }

 private:
  static constexpr const char* kFolder = "/checkpoints";
  struct Tower {
    int32_t replica = 0;
    Output loss, update, images, labels;
    int64_t call = 0;
  };
  enum class Phase : uint8_t { joining, preparing, establishing, training, reading, ended };

  void build_graph() {
    Optimizer optimizer = sgd(0.1);
    optimizer.kind = o_.optimizer;
    const Output first1 = truncated_normal(graph_, Shape{4, o_.hidden}, 0, 0.5, 11);
    const Output first2 = truncated_normal(graph_, Shape{o_.hidden, 3}, 0, 0.5, 12);
    const Output zeros = fill(graph_, Shape{o_.hidden}, 0);
    for (int32_t replica : checkpoints_.replicas) {
      auto scope = graph_.scope({.name = detail::concat("tower", replica),
                                 .device = detail::concat("/job:worker/task:", replica),
                                 .replica = replica});
      Tower t;
      t.replica = replica;
      t.images = placeholder(graph_, DType::f32, {-1, 4}, "images");
      t.labels = placeholder(graph_, DType::i64, {-1}, "labels");
      const Output sum =
          bias_add(matmul(t.images, parameter("w1", first1)), parameter("b1", zeros));
      const Output h = o_.edges ? relu_next_door(sum, replica) : relu(sum);
      t.loss = reduce_mean(softmax_cross_entropy(matmul(h, parameter("w2", first2)), t.labels));
      t.update = minimize(t.loss, optimizer);
      towers_.push_back(t);
    }
  }

  Output relu_next_door(Output x, int32_t replica) {
    const int32_t next = (replica + 1) % SimClusterOptions::kWorkers;
    const auto scope = graph_.scope({.device = detail::concat("/job:worker/task:", next)});
    return relu(x);
  }

  // The data of a step: a pure function of it.
  static std::vector<Tensor> batch(int64_t replica, int64_t step) {
    Tensor x = Tensor::empty(DType::f32, Shape{5, 4}), y = Tensor::empty(DType::i64, Shape{5});
    Draw draw(static_cast<uint64_t>(step * SimClusterOptions::kWorkers + replica));
    for (int i = 0; i < 20; ++i)
      x.mutable_data<float>()[i] = static_cast<float>(draw.below(1000)) * 0.001F;
    for (int i = 0; i < 5; ++i) y.mutable_data<int64_t>()[i] = static_cast<int64_t>(draw.below(3));
    return {x, y};
  }

  // Reads the state of the master without waiting for anything else. Throws: Error(timeout): not
  // yet.
  void lead() {
    if (phase_ == Phase::joining && all_there()) {
      phase_ = Phase::preparing;
      prepared_ = true;
      for (Tower& t : towers_) t.call = master_->prepare({t.loss, t.update}, {t.images, t.labels});
    }
    if (phase_ != Phase::preparing) return;
    for (Tower& t : towers_) master_->wait_ready(t.call, std::chrono::milliseconds(0));
    phase_ = Phase::establishing;
    listen();
    group_->establish(start_from(newest()), [this](Errc code, const std::string& text) {
      program_.push_back([this, code, text] { return established(code, text); });
    });
  }
  bool all_there() const {
    return master_->agents().size() ==
           static_cast<size_t>(SimClusterOptions::kPs + SimClusterOptions::kWorkers + o_.clients -
                               1);
  }
  TrainOrders established(Errc code, const std::string& text) {
    if (code == Errc::peer_lost || code == Errc::stale) {
      phase_ = Phase::preparing;  // tried again
      return {};
    }
    if (code != Errc::ok) throw Violation{"I16", "no start: " + text};
    phase_ = Phase::training;
    TrainLoop::Plan plan;
    plan.steps = o_.steps;
    plan.checkpoint_every = o_.checkpoint_every;
    plan.pause_every = o_.pause_every;
    return begin(plan, step_of(std::nullopt));
  }

  // The functions that TrainLead leaves open

  ParameterGroup& group() override { return *group_; }
  TrainLoop::Millis now() const override {
    return std::chrono::duration_cast<TrainLoop::Millis>(world_.net.now().time_since_epoch());
  }
  std::optional<Manifest> newest() override {
    std::vector<std::string> warnings;
    std::optional<Manifest> found = find_newest(world_.disk, kFolder, warnings);
    if (!found && !warnings.empty()) throw Error(Errc::bad_data, warnings.back());
    return found;
  }
  void take_snapshot(int64_t step) override {
    world_.history.note(detail::concat("snapshot at step ", step));
    TrainLead::take_snapshot(step);
  }
  void restore() override {
    world_.history.note("restore");
    if (!checkpoint_.empty()) world_.restores();
    TrainLead::restore();
  }
  // Somebody looks at all parameters, which are those of this step.
  void pause(int64_t step) override {
    world_.history.note(detail::concat("pause at step ", step));
    ParameterPort* port = process_.services().port(master_->session());
    const auto open = std::make_shared<size_t>(0);
    const auto failed = std::make_shared<Errc>(Errc::ok);
    const auto seen = std::make_shared<std::map<std::string, Tensor>>();
    for (const ParameterSpec& spec : group_->parameters()) {
      ++*open;
      port->pull(spec.name, {},
                 [=, this, name = spec.name](Errc code, const std::string& text, Tensor value) {
                   post_([=, this] {
                     if (code != Errc::ok) *failed = code;
                     seen->emplace(name, value);
                     if (--*open > 0) return TrainOrders{};
                     if (*failed != Errc::ok) return loop_->pause_failed(*failed, text, now());
                     looked(step, {seen->begin(), seen->end()});
                     return loop_->pause_ended(true, now());
                   });
                 });
    }
  }
  // The newest checkpoint that was taken.
  int64_t kept_step() const {
    const size_t at = checkpoint_.rfind("-step");
    return at == std::string::npos ? 0 : std::stoll(checkpoint_.substr(at + 5));
  }
  // The same in each pause of a step, however often it is done.
  void looked(int64_t step, const std::vector<std::pair<std::string, Tensor>>& values) {
    const std::string sha = weights_sha256(values);
    world_.history.note(detail::concat("looked at step ", step, " ", sha));
    if (o_.rule == Aggregation::sync && looked_.emplace(step, sha).first->second != sha)
      throw Violation{"I5", detail::concat("two pauses of step ", step, " saw other weights")};
  }
  void cancel() override { std::exchange(cancel_, std::make_shared<Cancellation>())->cancel(); }
  void finish() override { read_weights(); }
  void give_up(Errc, const std::string& text) override {
    throw Violation{"I16", "the training gave up: " + text + "; " + pending()};
  }
  void tell(Errc, const std::string& text) override {
    world_.history.note(text);
    if (no_ps_dies() && text.starts_with("shards restored"))
      throw Violation{"I2", "no ps has died, and " + text};
  }
  bool no_ps_dies() const { return o_.ps_kills == 0 && o_.start_kill < 0; }

  void start_step(int64_t replica, int64_t step) override {
    world_.history.note(detail::concat("start replica=", replica, " step=", step));
    if (step < kept_step())
      throw Violation{"I13",
                      detail::concat("step ", step, " is done again, and there is ", checkpoint_)};
    if (const auto done = done_.find(replica);
        no_ps_dies() && done != done_.end() && step <= done->second)
      throw Violation{
          "I2", detail::concat("step ", step, " of replica ", replica, " is done again after ",
                               done->second, ", and no ps has died")};
    world_.begins(step);
    const auto tower = std::find_if(towers_.begin(), towers_.end(),
                                    [replica](const Tower& t) { return t.replica == replica; });
    RunOptions run;
    run.step = step;
    run.cancel = cancel_.get();
    ++open_steps_;
    const auto report = [this, replica, step, keep = cancel_](RunResult result) {
      post_([this, replica, step, result = std::move(result)] {
        --open_steps_;
        world_.history.note(detail::concat("replica=", replica, " step=", step, " code=",
                                           static_cast<int>(result.code), " ", result.text));
        if (result.code == Errc::ok) world_.ledger.step_done(static_cast<int32_t>(replica), step);
        if (result.code == Errc::ok) done_[replica] = step;
        return step_ended(replica, step, result);
      });
    };
    const bool other = o_.other_data_after_kill && world_.came_back(tower->replica);
    try {
      master_->start(tower->call, batch(replica, other ? step + 1 : step), run, report);
    } catch (const Error& e) {
      report({e.code(), e.what(), {}});
    }
  }

  // The weights

  // A ps that goes just now comes back with the last checkpoint, and is asked again.
  void read_weights() {
    phase_ = Phase::reading;
    values_.clear();
    read_error_ = Errc::ok;
    ParameterPort* port = process_.services().port(master_->session());
    const std::vector<ParameterSpec> parameters = group_->parameters();
    open_reads_ = static_cast<int64_t>(parameters.size());
    for (const ParameterSpec& spec : parameters)
      port->pull(spec.name, {},
                 [this, name = spec.name](Errc code, const std::string& text, Tensor value) {
                   program_.push_back([this, name, code, text, value] {
                     world_.history.note(detail::concat("read ", name, " ", text));
                     if (code != Errc::ok) read_error_ = code;
                     values_.emplace_back(name, value);
                     if (--open_reads_ == 0) weights_read();
                     return TrainOrders{};
                   });
                 });
  }
  void weights_read() {
    if (read_error_ == Errc::ok) {
      std::sort(values_.begin(), values_.end(),
                [](const auto& a, const auto& b) { return a.first < b.first; });
      weights_ = weights_sha256(values_);
      world_.history.note("weights " + weights_);
      phase_ = Phase::ended;
      return;
    }
    if (read_error_ != Errc::peer_lost && read_error_ != Errc::stale)
      throw Violation{"I16", "the weights cannot be read"};
    if (!all_there() || o_.checkpoint_every == 0 || no_ps_dies()) return read_again();
    group_->establish(start_from(newest()), [this](Errc, const std::string&) {
      program_.push_back([this] {
        read_again();
        return TrainOrders{};
      });
    });
  }
  void read_again() { reread_at_ = world_.net.now() + std::chrono::milliseconds(500); }

  const SimTrainerWorld world_;
  const SimClusterOptions& o_;
  Process& process_;
  const int number_;
  Graph graph_;
  std::vector<Tower> towers_;
  std::unique_ptr<Master> master_;
  std::shared_ptr<ParameterGroup> group_;
  std::shared_ptr<Cancellation> cancel_ = std::make_shared<Cancellation>();
  std::deque<Event> program_, events_;  // of the program itself; of the training
  Phase phase_ = Phase::joining;
  bool prepared_ = false;
  int64_t open_steps_ = 0, open_reads_ = 0;
  Errc read_error_ = Errc::ok;
  TimePoint reread_at_ = TimePoint::max();
  std::vector<std::pair<std::string, Tensor>> values_;
  std::string weights_;
  std::map<int64_t, std::string> looked_;  // hashes, by step
  std::map<int64_t, int64_t> done_;        // by replica: the last step that ended well
};

}  // namespace troupe::sim
