// SimCluster: 2 ps, 3 workers and a client as real processes in one thread: Process, Master,
// ParameterGroup and TrainLoop with CAF's deterministic scheduler, over SimNet and under virtual
// time. The next event is drawn from the seed: a job of any actor of any process, what is next on
// the network, or what the training loop has to hear. The client trains a small network with one
// slot per worker.
//
// Faults: requests to shards and their answers are dropped, doubled and overtaken; processes are
// killed within a step and started again. The invariants are checked after every event
// (shard_ledger.hpp), and at the end that no request is open (I21).
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <caf/all.hpp>
#include <caf/io/all.hpp>
#include <caf/io/network/test_multiplexer.hpp>
#include <caf/scheduler/test_coordinator.hpp>

#include "actors/master.hpp"
#include "actors/process.hpp"
#include "net/caf_bridge.hpp"
#include "net/codec.hpp"
#include "tests/support/shard_ledger.hpp"
#include "tests/support/sim_disk.hpp"
#include "tests/support/sim_net.hpp"
#include "training/checkpoint.hpp"
#include "training/digest.hpp"
#include "training/parameter_group.hpp"
#include "training/train_loop.hpp"
#include "troupe/ops.hpp"
#include "troupe/train.hpp"

namespace troupe::sim {

struct SimClusterOptions {
  Aggregation rule = Aggregation::sync;
  int64_t steps = 4;
  int64_t checkpoint_every = 0;  // 0: no checkpoints
  int64_t hidden = 6;            // width; wide parameters are cut over both ps
  std::string optimizer = "sgd";
  double drop = 0, duplicate = 0, overtake = 0;
  int worker_kills = 0, ps_kills = 0;
  // Mistakes on purpose, to see that the checks find them.
  bool other_data_after_kill = false;  // a slot whose worker came back is fed other records
  bool doubled_apply = false;          // the log says some updates twice

  static SimClusterOptions draw(Draw& draw) {
    SimClusterOptions o;
    o.steps = draw.between(3, 5);
    o.hidden = draw.chance(0.2) ? 4200 : 6;
    const char* const optimizers[] = {"sgd", "momentum", "adam"};
    o.optimizer = optimizers[draw.below(3)];
    return o;
  }
  SimClusterOptions without_faults() const {
    SimClusterOptions o = *this;
    o.drop = o.duplicate = o.overtake = 0;
    o.worker_kills = o.ps_kills = 0;
    o.other_data_after_kill = o.doubled_apply = false;
    return o;
  }
  std::string describe() const {
    return detail::concat(
        "options rule=", to_string(rule), " steps=", steps, " checkpoint_every=", checkpoint_every,
        " hidden=", hidden, " optimizer=", optimizer, " drop=", drop, " duplicate=", duplicate,
        " overtake=", overtake, " worker_kills=", worker_kills, " ps_kills=", ps_kills);
  }
};

class SimCluster {
 public:
  static constexpr int32_t kPs = 2, kWorkers = 3;

  SimCluster(const SimClusterOptions& options, uint64_t seed, const HashChain* golden,
             History& history)
      : o_(options),
        net_(seed),
        draw_(seed),
        history_(history),
        ledger_(options.rule, kWorkers, options.steps, golden) {
    history_.note(o_.describe());
    net_.filter = [this](const SimFrame& frame) { return verdict(frame); };
    build_graph();
    for (int i = 0; i < kPs + kWorkers + 1; ++i) {
      Peer& peer = *peers_.emplace_back(std::make_unique<Peer>());
      peer.index = i;
      peer.task = i < kPs              ? detail::concat("/job:ps/task:", i)
                  : i < kPs + kWorkers ? detail::concat("/job:worker/task:", i - kPs)
                                       : "/job:client/task:0";
    }
    for (size_t i = 0; i < peers_.size(); ++i) make(*peers_[i]);
    draw_kills(o_.worker_kills, kPs, kWorkers);
    draw_kills(o_.ps_kills, 0, kPs);
  }
  ~SimCluster() {
    group_->end();
    master_->stop();
    for (const auto& peer : peers_) end(*peer);
  }

  // Throws: Violation.
  void run() {
    while (phase_ != Phase::ended) {
      if (++events_ > kEventsMax || net_.now() > TimePoint{} + std::chrono::hours(2))
        throw Violation{"I21", "no end; " + pending()};
      step();
      check();
    }
    check_end();
  }
  const HashChain& chain() const { return ledger_.chain(); }
  const std::string& weights() const { return weights_; }

 private:
  static constexpr int64_t kEventsMax = 400'000;
  static constexpr const char* kFolder = "/checkpoints";

  struct Peer final : MeshListener {
    int index = 0;
    std::string task;
    uint64_t incarnation = 0;
    SimHost* host = nullptr;
    std::unique_ptr<Process> process;  // null: killed
    caf::scheduler::test_coordinator* jobs = nullptr;
    caf::io::network::test_multiplexer* brokers = nullptr;
    std::vector<const Shard*> shards;
    TimePoint back_at = TimePoint::max();

    void up(const Member&, const caf::actor&) override {}
    void down(const Member& member, const std::string& reason) override {
      process->peer_down(member, reason);
    }
  };
  struct Tower {
    Output loss, update, images, labels;
    int64_t call = 0;
  };
  struct Kill {
    int64_t step;    // when a slot begins it,
    int64_t events;  // and so many events have passed,
    int peer;        // this one is killed
    bool armed = false;
  };
  enum class Phase : uint8_t { joining, preparing, establishing, training, reading, ended };
  struct Timers : caf::detail::simple_actor_clock {  // its table of timers is protected
    static auto& of(caf::detail::simple_actor_clock& clock) { return clock.*(&Timers::schedule_); }
  };

  static std::string address(int i) { return detail::concat("127.0.0.1:", 1000 + i); }
  Process& client() { return *peers_.back()->process; }
  TrainLoop::Millis now() const {
    return std::chrono::duration_cast<TrainLoop::Millis>(net_.now().time_since_epoch());
  }

  // Processes

  void make(Peer& peer) {
    peer.back_at = TimePoint::max();
    ++peer.incarnation;
    peer.host = &net_.add(detail::concat(peer.task, "#", peer.incarnation));
    ProcessOptions options;
    options.threads = 1;
    options.cuda = false;
    troupe::ClusterOptions cluster;
    cluster.listen = address(peer.index);
    for (int i = 0; i < kPs + kWorkers; ++i)
      if (i != peer.index) cluster.seeds.push_back(address(i));
    ProcessSeams seams;
    seams.configure = [&peer](caf::actor_system_config& config) {
      load_test_network(config, peer.host->rng());
      config.set("scheduler.policy", caf::atom("testing"));
    };
    seams.transport = peer.host;
    seams.clock = peer.host;
    seams.rng = &peer.host->rng();
    seams.disk = &disk_;
    seams.on_shard = [this, &peer](Shard& shard) {
      shard.set_applied_log([this](const Shard::Applied& a) {
        ledger_.applied(a);
        if (o_.doubled_apply && a.version == 2) ledger_.applied(a);
      });
      peer.shards.push_back(&shard);
    };
    peer.process =
        std::make_unique<Process>(peer.task, peer.incarnation, options, cluster, std::move(seams));
    caf::actor_system& system = peer.process->system();
    peer.jobs = &dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
    peer.brokers = &dynamic_cast<caf::io::network::test_multiplexer&>(system.middleman().backend());
    peer.jobs->clock().current_time = net_.now();
    MeshListener* listener = &peer;
    if (peer.index == kPs + kWorkers) {
      master_ = std::make_unique<Master>(*peer.process, graph_, 77);
      listener = master_.get();
    }
    peer.process->start(listener);
    if (master_ && !group_) {
      group_ = std::make_shared<ParameterGroup>(*master_, ParameterOwnerOptions{});
      group_->begin();
    }
  }

  void end(Peer& peer) {
    if (!peer.process) return;
    peer.shards.clear();
    peer.process->stop();
    while (peer.jobs->try_run_once() || peer.brokers->try_exec_runnable()) {
    }
    if (peer.index == kPs + kWorkers) {
      group_.reset();
      master_.reset();
    }
    peer.process.reset();
  }

  void draw_kills(int count, int first, int among) {
    for (int i = 0; i < count; ++i)
      kills_.push_back({draw_.between(0, o_.steps - 1), draw_.between(0, 400),
                        first + static_cast<int>(draw_.below(static_cast<uint64_t>(among)))});
  }

  void kill(Peer& peer) {
    if (!peer.process) return;
    history_.note(detail::concat("kill ", peer.task));
    net_.kill(*peer.host);
    end(peer);
    peer.back_at = net_.now() + std::chrono::milliseconds(draw_.between(20, 800));
  }

  // What becomes of a frame of the data plane. Only what is sent again may be lost.
  Verdict verdict(const SimFrame& frame) {
    if (frame.channel != Channel::small || phase_ != Phase::training) return Verdict::pass;
    static const uint16_t first = encode(Push{}).kind, last = encode(Pulled{}).kind;
    if (frame.type < first || frame.type > last) return Verdict::pass;
    const auto fate = [&](const char* what, Verdict verdict) {
      history_.note(
          detail::concat(what, " kind=", frame.type, " from=", frame.from, " to=", frame.to));
      return verdict;
    };
    if (draw_.chance(o_.drop)) return fate("drop", Verdict::drop);
    if (draw_.chance(o_.duplicate)) return fate("double", Verdict::duplicate);
    if (draw_.chance(o_.overtake)) return fate("overtake", Verdict::hold_one);
    return Verdict::pass;
  }

  // Events

  TimePoint next_timer() const {
    TimePoint out = std::min(tick_at_, reread_at_);
    for (const auto& peer : peers_) {
      out = std::min(out, peer->back_at);
      if (!peer->process) continue;
      const auto& timers = Timers::of(peer->jobs->clock());
      if (!timers.empty()) out = std::min(out, timers.begin()->first);
    }
    return out;
  }

  void step() {
    for (Kill& k : kills_)
      if (k.armed && k.events-- == 0) return kill(*peers_[static_cast<size_t>(k.peer)]);
    std::vector<Peer*> ready;
    for (const auto& peer : peers_)
      if (peer->process && peer->jobs->has_job()) ready.push_back(peer.get());
    const TimePoint due = net_.next_due(), timer = next_timer();
    // Jobs take time: what the network does meanwhile may come before them.
    const bool network = due <= timer && due <= net_.now() + std::chrono::microseconds(50);
    const size_t choices = ready.size() + (network ? 1 : 0) + (reports_.empty() ? 0 : 1);
    if (choices == 0) {
      if (due <= timer) return step_network();
      net_.advance_to(timer);
      return pass_time();
    }
    const size_t choice = draw_.below(choices);
    if (choice < ready.size()) return run_job(*ready[choice]);
    if (network && choice == ready.size()) return step_network();
    auto report = std::move(reports_.front());
    reports_.pop_front();
    history_.note("trainer");
    carry_out(report());
  }

  void step_network() {
    net_.step();
    history_.note("network");
    settle();
    pass_time();
  }

  void run_job(Peer& peer) {
    auto& jobs = peer.jobs->jobs;
    std::swap(jobs.front(), jobs[draw_.below(jobs.size())]);
    history_.note(detail::concat("job ", peer.task, " of ", jobs.size()));
    peer.jobs->run_once();
    settle();
  }

  // CAF's brokers carry bytes at once.
  void settle() {
    for (const auto& peer : peers_)
      if (peer->process)
        while (peer->brokers->try_exec_runnable()) {
        }
  }

  void pass_time() {
    for (const auto& peer : peers_) {
      if (net_.now() >= peer->back_at) {
        history_.note("start " + peer->task);
        make(*peer);
      }
      if (!peer->process) continue;
      auto& clock = peer->jobs->clock();
      if (net_.now() > clock.current_time) clock.advance_time(net_.now() - clock.current_time);
    }
    if (net_.now() >= tick_at_) {
      tick_at_ = net_.now() + std::chrono::milliseconds(50);
      if (loop_ && phase_ == Phase::training) carry_out(loop_->tick(now()));
      lead();
    }
    if (net_.now() >= reread_at_) {
      reread_at_ = TimePoint::max();
      read_weights();
    }
    settle();
  }

  // The client's program

  void build_graph() {
    Optimizer optimizer = sgd(0.1);
    optimizer.kind = o_.optimizer;
    for (int32_t i = 0; i < kWorkers; ++i) {
      auto scope = graph_.scope({.name = detail::concat("tower", i),
                                 .device = detail::concat("/job:worker/task:", i),
                                 .slot = i});
      Tower t;
      t.images = placeholder(graph_, DType::f32, {-1, 4}, "images");
      t.labels = placeholder(graph_, DType::i64, {-1}, "labels");
      const Output w1 = parameter("w1", truncated_normal(graph_, Shape{4, o_.hidden}, 0, 0.5, 11));
      const Output b1 = parameter("b1", fill(graph_, Shape{o_.hidden}, 0));
      const Output w2 = parameter("w2", truncated_normal(graph_, Shape{o_.hidden, 3}, 0, 0.5, 12));
      const Output h = relu(bias_add(matmul(t.images, w1), b1));
      t.loss = reduce_mean(softmax_cross_entropy(matmul(h, w2), t.labels));
      t.update = minimize(t.loss, optimizer);
      towers_.push_back(t);
    }
  }

  // The data of a step: a pure function of it.
  static std::vector<Tensor> batch(int64_t slot, int64_t step) {
    Tensor x = Tensor::empty(DType::f32, Shape{5, 4}), y = Tensor::empty(DType::i64, Shape{5});
    Draw draw(static_cast<uint64_t>(step * kWorkers + slot));
    for (int i = 0; i < 20; ++i)
      x.mutable_data<float>()[i] = static_cast<float>(draw.below(1000)) * 0.001F;
    for (int i = 0; i < 5; ++i) y.mutable_data<int64_t>()[i] = static_cast<int64_t>(draw.below(3));
    return {x, y};
  }

  // What waits for nothing but the state of the master.
  void lead() {
    if (phase_ == Phase::joining && master_->agents().size() == kPs + kWorkers) {
      phase_ = Phase::preparing;
      for (Tower& t : towers_) t.call = master_->prepare({t.loss, t.update}, {t.images, t.labels});
    }
    if (phase_ == Phase::preparing) {
      try {
        for (Tower& t : towers_) master_->wait_ready(t.call, std::chrono::milliseconds(0));
      } catch (const Error& e) {
        if (e.code() == Errc::timeout || e.code() == Errc::peer_lost) return;  // not yet
        throw;
      }
      phase_ = Phase::establishing;
      group_->establish(start_from(), [this](Errc code, const std::string& text) {
        reports_.push_back([this, code, text] {
          if (code != Errc::ok) throw Violation{"I16", "no start: " + text};
          return begin();
        });
      });
    }
  }

  TrainOrders begin() {
    TrainLoop::Plan plan;
    std::map<int64_t, int64_t> next;
    for (int32_t slot = 0; slot < kWorkers; ++slot) {
      plan.slots.push_back(slot);
      next[slot] = 0;
    }
    plan.steps = o_.steps;
    plan.checkpoints = o_.checkpoint_every > 0;
    plan.checkpoint_every = o_.checkpoint_every;
    loop_ = std::make_unique<TrainLoop>(plan, next);
    ParameterGroup::Listener listener;
    listener.lost = [this](const std::string& text) {
      reports_.push_back([this, text] { return loop_->shards_lost(text, now()); });
    };
    group_->listen(std::move(listener));
    phase_ = Phase::training;
    return loop_->begin(now());
  }

  ParameterGroup::Start start_from() {
    ParameterGroup::Start start;
    start.rule = o_.rule;
    for (int32_t slot = 0; slot < kWorkers; ++slot) start.slots.push_back(slot);
    start.mode = BeginEpoch::reset;
    std::vector<std::string> warnings;
    if (const auto manifest = find_newest(disk_, kFolder, warnings)) {
      start.mode = BeginEpoch::restore;
      start.directory = kFolder;
      start.manifest = manifest_name(manifest->generation, manifest->step);
      start.next_step = manifest->step;
    }
    return start;
  }

  void carry_out(const TrainOrders& orders) {
    for (const TrainOrder& order : orders) {
      switch (order.kind) {
        case TrainOrder::start:
          start_step(order.slot, order.step);
          break;
        case TrainOrder::cancel:
          std::exchange(cancel_, std::make_shared<Cancellation>())->cancel();
          break;
        case TrainOrder::snapshot: {
          history_.note(detail::concat("snapshot at step ", order.step));
          ParameterGroup::Snapshot what;
          what.directory = kFolder;
          what.step = order.step;
          what.rule = o_.rule;
          what.slots = start_from().slots;
          group_->snapshot(
              std::move(what),
              [this] { reports_.push_back([this] { return loop_->snapshot_captured(now()); }); },
              [this](Errc code, const std::string& text) {
                reports_.push_back(
                    [this, code, text] { return loop_->snapshot_taken(code, text, now()); });
              });
          break;
        }
        case TrainOrder::restore: {
          const ParameterGroup::Start start = start_from();
          history_.note(detail::concat("restore at step ", start.next_step));
          group_->establish(start,
                            [this, step = start.next_step](Errc code, const std::string& text) {
                              reports_.push_back([this, step, code, text] {
                                if (code != Errc::ok)
                                  return loop_->restore_failed(code, text, now());
                                std::map<int64_t, int64_t> next;
                                for (int32_t slot = 0; slot < kWorkers; ++slot) next[slot] = step;
                                return loop_->restored(next, now());
                              });
                            });
          break;
        }
        case TrainOrder::finish:
          read_weights();
          break;
        case TrainOrder::fail:
          throw Violation{"I16", "the training gave up: " + order.text + "; " + pending()};
        case TrainOrder::ask_epoch:  // it is their owner
        case TrainOrder::tell:
          history_.note(order.text);
          break;
      }
    }
  }

  void start_step(int64_t slot, int64_t step) {
    history_.note(detail::concat("start slot=", slot, " step=", step));
    for (Kill& k : kills_) k.armed = k.armed || k.step == step;
    const Tower& tower = towers_[static_cast<size_t>(slot)];
    RunOptions run;
    run.step = step;
    run.cancel = cancel_.get();
    ++open_steps_;
    const auto report = [this, slot, step, keep = cancel_](RunResult result) {
      reports_.push_back([this, slot, step, result = std::move(result)] {
        --open_steps_;
        history_.note(detail::concat("slot=", slot, " step=", step,
                                     " code=", static_cast<int>(result.code), " ", result.text));
        if (result.code != Errc::ok)
          return loop_->step_failed(slot, step, result.code, result.text, now());
        ledger_.step_done(static_cast<int32_t>(slot), step);
        return loop_->step_done(slot, step, result.values.at(0).item<float>(), now());
      });
    };
    const bool other =
        o_.other_data_after_kill && peers_[static_cast<size_t>(kPs + slot)]->incarnation > 1;
    try {
      master_->start(tower.call, batch(slot, other ? step + 1 : step), run, report);
    } catch (const Error& e) {
      report({e.code(), e.what(), {}});
    }
  }

  // A ps that goes just now comes back with the last checkpoint, and is asked again.
  void read_weights() {
    phase_ = Phase::reading;
    kills_.clear();
    values_.clear();
    read_error_ = Errc::ok;
    ParameterPort* port = client().services().port(master_->session());
    const std::vector<ParameterSpec> parameters = group_->parameters();
    open_reads_ = static_cast<int64_t>(parameters.size());
    for (const ParameterSpec& spec : parameters)
      port->pull(spec.name, 0, -1,
                 [this, name = spec.name](Errc code, const std::string& text, Tensor value) {
                   reports_.push_back([this, name, code, text, value] {
                     history_.note(detail::concat("read ", name, " ", text));
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
      history_.note("weights " + weights_);
      phase_ = Phase::ended;
      return;
    }
    if (read_error_ != Errc::peer_lost && read_error_ != Errc::stale)
      throw Violation{"I16", "the weights cannot be read"};
    const bool all_there = master_->agents().size() == kPs + kWorkers;
    if (!all_there || o_.checkpoint_every == 0) {
      reread_at_ = net_.now() + std::chrono::milliseconds(500);
      return;
    }
    group_->establish(start_from(), [this](Errc, const std::string&) {
      reports_.push_back([this] {
        reread_at_ = net_.now() + std::chrono::milliseconds(500);
        return TrainOrders{};
      });
    });
  }

  // Checks

  void check() {
    for (const auto& peer : peers_)
      for (const Shard* shard : peer->shards) ledger_.look(*shard);
    ledger_.check();
  }

  void check_end() {
    // What is still under way may arrive: doubled messages, answers to those that were given up.
    phase_ = Phase::training;
    o_.drop = o_.duplicate = o_.overtake = 0;
    for (const TimePoint until = net_.now() + std::chrono::seconds(20); net_.now() < until;) {
      step();
      check();
    }
    size_t shards = 0;
    for (const auto& peer : peers_) {
      shards += peer->shards.size();
      for (const Shard* shard : peer->shards) ledger_.check_end(*shard);
      if (peer->process && !peer->process->services().waiting_for().empty())
        throw Violation{"I21", peer->task + ": " + peer->process->services().waiting_for()};
    }
    if (shards != kPs) throw Violation{"I21", detail::concat(shards, " shards at the end")};
    if (open_steps_ != 0) throw Violation{"I21", detail::concat(open_steps_, " steps are open")};
    ledger_.check_end();
    history_.note(detail::concat("end trace=", net_.trace()));
  }

  std::string pending() {
    std::string out = detail::concat(open_steps_, " steps open;");
    for (const auto& peer : peers_) {
      out += " " + peer->task + ": ";
      out += peer->process ? peer->process->services().waiting_for() : "is not there";
      for (const Shard* shard : peer->shards)
        out += detail::concat(", shard ", to_string(shard->state()), " ", shard->waiting_for());
      out += ";";
    }
    return out + " " + master_->describe();
  }

  SimClusterOptions o_;
  Graph graph_;
  std::vector<Tower> towers_;
  SimNet net_;
  Draw draw_;
  History& history_;
  ShardLedger ledger_;
  SimDisk disk_;                              // all processes see it
  std::vector<std::unique_ptr<Peer>> peers_;  // ps, workers, client
  std::vector<Kill> kills_;
  int64_t events_ = 0;
  TimePoint tick_at_ = net_.now();

  // The client's.
  std::unique_ptr<Master> master_;
  std::shared_ptr<ParameterGroup> group_;
  std::unique_ptr<TrainLoop> loop_;
  std::shared_ptr<Cancellation> cancel_ = std::make_shared<Cancellation>();
  std::deque<std::function<TrainOrders()>> reports_;  // for the training loop
  Phase phase_ = Phase::joining;
  int64_t open_steps_ = 0, open_reads_ = 0;
  Errc read_error_ = Errc::ok;
  TimePoint reread_at_ = TimePoint::max();
  std::vector<std::pair<std::string, Tensor>> values_;
  std::string weights_;
};

}  // namespace troupe::sim
