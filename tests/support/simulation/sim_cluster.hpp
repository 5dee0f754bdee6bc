// SimCluster: 2 ps, 3 workers and one or two clients as real processes in one thread: Process with
// CAF's deterministic scheduler, over SimNet and under virtual time. The next event is drawn from
// the seed: a job of any actor of any process, what is next on the network, or what the program of
// a client (sim_trainer.hpp) has to do.
//
// Faults: requests to shards and their answers are dropped, doubled and overtaken; processes are
// killed within a step, or before the first one, and started again; two workers, or a ps and
// somebody else, lose their link within a step, and get it back; a client freezes for a while. The
// invariants are checked after every event (shard_ledger.hpp), that a training begins soon after
// all processes are there (I16), and at the end that no request is open (I21).
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <caf/all.hpp>

#include "actors/cluster/process.hpp"
#include "tests/support/data_messages.hpp"
#include "tests/support/simulation/shard_ledger.hpp"
#include "tests/support/simulation/sim_disk.hpp"
#include "tests/support/simulation/sim_process.hpp"
#include "tests/support/simulation/sim_trainer.hpp"
#include "training/group/services.hpp"

namespace troupe::sim {

class SimCluster {
 public:
  static constexpr int32_t kPs = SimClusterOptions::kPs, kWorkers = SimClusterOptions::kWorkers;

  SimCluster(const SimClusterOptions& options, uint64_t seed, const HashChain* golden,
             History& history)
      : o_(options),
        net_(seed),
        draw_(seed),
        history_(history),
        ledger_(options.rule, kWorkers, options.steps, golden) {
    history_.note(describe(o_));
    net_.filter = [this](const SimFrame& frame) { return verdict(frame); };
    for (int i = 0; i < kPs + kWorkers + o_.clients; ++i) {
      Peer& peer = *peers_.emplace_back(std::make_unique<Peer>());
      peer.index = i;
      peer.task = i < kPs              ? detail::concat("/job:ps/task:", i)
                  : i < kPs + kWorkers ? detail::concat("/job:worker/task:", i - kPs)
                                       : detail::concat("/job:client/task:", i - kPs - kWorkers);
    }
    for (size_t i = 0; i < peers_.size(); ++i) make(*peers_[i]);
    draw_faults(&SimCluster::kill, o_.worker_kills, kPs, kWorkers);
    draw_faults(&SimCluster::kill, o_.ps_kills, 0, kPs);
    draw_faults(&SimCluster::cut, o_.worker_cuts, kPs, kWorkers);
    draw_faults(&SimCluster::lose_ps_link, o_.ps_links, 0, kPs);
    if (o_.start_cut) {
      net_.cut(*peers_[draw_.below(kPs)]->life->host,
               *peers_[kPs + draw_.below(kWorkers)]->life->host);
      heal_at_ = net_.now() + std::chrono::seconds(5);
    }
  }
  ~SimCluster() {
    ledger_.close();
    for (const auto& peer : peers_)
      if (peer->life && peer->life->trainer) peer->life->trainer->stop();
    for (const auto& peer : peers_)
      if (peer->life) end(*peer->life);
    for (const auto& life : dead_) {
      if (life->trainer) life->trainer->stop();
      end(*life);
    }
  }

  // Throws: Violation.
  void run() {
    while (!all(&SimTrainer::ended)) {
      if (++events_ > kEventsMax || net_.now() > TimePoint{} + std::chrono::hours(2))
        throw Violation{"I21", "no end; " + pending()};
      step();
      check();
      check_begun();
    }
    check_end();
  }
  const HashChain& chain() const { return ledger_.chain(); }
  const std::string& weights() const { return peers_.back()->life->trainer->weights(); }
  const std::map<int64_t, std::string>& looked() const {
    return peers_.back()->life->trainer->looked();
  }

 private:
  static constexpr int64_t kEventsMax = 400'000;
  // From the last start of a process to the first step: no deadline of a request is waited for.
  static constexpr std::chrono::seconds kStartMax{5};

  // A process. One that is killed stays as it is until the end of the cluster, as its destructors
  // would run what it had still to do.
  struct Life final : MeshListener {
    SimHost* host = nullptr;
    std::unique_ptr<TrainingServices> services;
    std::unique_ptr<Process> process;
    std::unique_ptr<SimTrainer> trainer;  // of a client
    caf::scheduler::test_coordinator* jobs = nullptr;
    caf::io::network::test_multiplexer* brokers = nullptr;
    std::vector<const Shard*> shards;  // that live (Seen)
    bool killed = false;

    void up(const Member&, const caf::actor&) override {}
    void down(const Member& member, const std::string& reason) override {
      process->peer_down(member, reason);
    }
  };
  struct Peer {
    int index = 0;
    std::string task;
    uint64_t incarnation = 0;
    std::unique_ptr<Life> life;  // null: killed, and not yet back
    TimePoint back_at = TimePoint::max();
    TimePoint thaws_at = TimePoint::max();
    bool runs() const { return life && !life->host->frozen; }
    SimTrainer* program() const { return runs() ? life->trainer.get() : nullptr; }
  };
  struct Fault {
    void (SimCluster::*happen)(Peer&);  // kill, cut or lose_ps_link
    int64_t step;                       // when a replica begins it,
    int64_t events;                     // and so many events have passed,
    int peer;                           // to this one
    bool armed = false;
  };
  // Keeps a shard among those that are looked at, for as long as the shard keeps this: one may end
  // in a process that lives.
  struct Seen {
    Seen(Life& life, const Shard& shard) : of(life), what(&shard) { of.shards.push_back(what); }
    ~Seen() { std::erase(of.shards, what); }
    Seen(const Seen&) = delete;
    Life& of;
    const Shard* const what;
  };
  struct Timers : caf::detail::simple_actor_clock {  // its table of timers is protected
    static auto& of(caf::detail::simple_actor_clock& clock) { return clock.*(&Timers::schedule_); }
  };

  static std::string address(int i) { return detail::concat("127.0.0.1:", 1000 + i); }
  // True if that holds for the program of every client.
  bool all(bool (SimTrainer::*is)() const) const {
    return std::all_of(peers_.begin() + kPs + kWorkers, peers_.end(), [is](const auto& peer) {
      return peer->life && (*peer->life->trainer.*is)();
    });
  }

  // Processes

  void make(Peer& peer) {
    peer.back_at = TimePoint::max();
    ++peer.incarnation;
    peer.life = std::make_unique<Life>();
    Life& life = *peer.life;
    life.host = &net_.add(detail::concat(peer.task, "#", peer.incarnation));
    ProcessOptions options{.threads = 1, .cuda = false, .ops = builtin_ops()};
    troupe::ClusterOptions cluster{.listen = address(peer.index)};
    for (int i = 0; i < kPs + kWorkers; ++i)
      if (i != peer.index) cluster.seeds.push_back(address(i));
    ProcessSeams seams = seams_of(*life.host);
    const auto on_shard = [this, &life](const std::string&, Shard& shard) {
      shard.set_applied_log(
          [this, &life, seen = std::make_shared<Seen>(life, shard)](const Shard::Applied& a) {
            if (life.killed) ledger_.report({"kill", "a killed process has made an update"});
            ledger_.applied(a);
            if (o_.doubled_apply && a.version == 2) ledger_.applied(a);
          });
    };
    life.services = std::make_unique<TrainingServices>(ShardSeams{&disk_, on_shard});
    options.services = life.services.get();
    life.process =
        std::make_unique<Process>(peer.task, peer.incarnation, options, cluster, std::move(seams));
    life.jobs = &jobs_of(*life.process);
    life.brokers = &brokers_of(*life.process);
    life.jobs->clock().current_time = net_.now();
    if (peer.index >= kPs + kWorkers) life.trainer = make_trainer(peer);
    life.process->start(life.trainer ? life.trainer->listener() : &life);
    if (life.trainer) life.trainer->begin_group();
  }

  // The first of two clients has one replica.
  std::unique_ptr<SimTrainer> make_trainer(const Peer& peer) {
    const int number = peer.index - kPs - kWorkers;
    std::vector<int32_t> replicas = {0, 1, 2};
    if (o_.clients > 1) replicas = number == 0 ? std::vector{0} : std::vector{1, 2};
    SimTrainerWorld world{
        .options = o_, .net = net_, .disk = disk_, .history = history_, .ledger = ledger_};
    world.begins = [this](int64_t step) {
      for (Fault& fault : faults_) fault.armed = fault.armed || fault.step == step;
      // A program whose last step is done does not come back when its owner restores what it did.
      if (o_.clients > 1 && step + 1 == o_.steps)
        std::erase_if(faults_, [](const Fault& fault) {
          return fault.happen == &SimCluster::kill && fault.peer < kPs;
        });
    };
    world.restores = [this] { lose_folder(); };
    world.came_back = [this](int32_t replica) {
      return peers_[static_cast<size_t>(kPs + replica)]->incarnation > 1;
    };
    return std::make_unique<SimTrainer>(std::move(world), *peer.life->process, number, replicas);
  }

  static void end(Life& life) {
    if (!life.process) return;
    life.process->stop();
    while (life.jobs->try_run_once() || life.brokers->try_exec_runnable()) {
    }
    life.trainer.reset();
    life.process.reset();
  }

  void draw_faults(void (SimCluster::*happen)(Peer&), int count, int first, int among) {
    for (int i = 0; i < count; ++i)
      faults_.push_back({happen, draw_.between(0, o_.steps - 1), draw_.between(0, 400),
                         first + static_cast<int>(draw_.below(static_cast<uint64_t>(among)))});
  }

  void kill(Peer& peer) {
    if (!peer.life) return;
    history_.note(detail::concat("kill ", peer.task));
    net_.kill(*peer.life->host);
    peer.life->killed = true;
    peer.life->shards.clear();
    dead_.push_back(std::move(peer.life));
    peer.thaws_at = TimePoint::max();
    folder_goes_ = o_.folder_away;
    peer.back_at = net_.now() + std::chrono::milliseconds(draw_.between(20, 800));
  }

  // From the first restore after a kill on, for a while, nobody can read what is on the disk, or
  // one of those that read it.
  void lose_folder() {
    if (!std::exchange(folder_goes_, false)) return;
    const auto how = draw_.chance(0.5) ? SimDisk::Folders::empty : SimDisk::Folders::refused;
    const int who = static_cast<int>(draw_.between(-1, kPs));
    const Peer* const blind = who < 0      ? nullptr
                              : who == kPs ? peers_[kPs + kWorkers].get()
                                           : peers_[static_cast<size_t>(who)].get();
    const TimePoint until = net_.now() + std::chrono::milliseconds(draw_.between(100, 3000));
    history_.note(detail::concat("no folder for ", blind ? blind->task : "all"));
    disk_.folders = [this, how, blind, until] {
      return net_.now() < until && (!blind || blind == active_) ? how : SimDisk::Folders::here;
    };
  }

  // From the worker after it, both ways or one.
  void cut(Peer& peer) {
    const Peer& next = *peers_[static_cast<size_t>(kPs + (peer.index - kPs + 1) % kWorkers)];
    const bool one_way = draw_.chance(0.3), turned = draw_.chance(0.5);
    history_.note(detail::concat("cut ", peer.task, " and ", next.task));
    if (!peer.life || !next.life) return;
    net_.cut(*(turned ? next : peer).life->host, *(turned ? peer : next).life->host, one_way);
    heal_at_ = net_.now() + std::chrono::milliseconds(draw_.between(500, 5000));
  }

  // Nobody dies: one link of this ps ends or is silent for a while, to a worker or a client, or
  // that client does nothing for a while, so that all others take it for lost.
  void lose_ps_link(Peer& ps) {
    enum { reset, cut, freeze };
    const int first = draw_.chance(0.3) ? kPs : kPs + kWorkers,
              end = static_cast<int>(peers_.size());
    Peer& other = *peers_[static_cast<size_t>(
        draw_.between(first, first == kPs ? kPs + kWorkers - 1 : end - 1))];
    const auto how = draw_.between(reset, first == kPs ? cut : freeze);
    const auto pause = std::chrono::milliseconds(draw_.between(200, 4000));
    history_.note(detail::concat("no link between ", ps.task, " and ", other.task, ": ", how));
    const bool one_way = how == cut && draw_.chance(0.3);
    if (!ps.life || !other.life) return;
    SimHost &host = *ps.life->host, &there = *other.life->host;
    if (how == reset) return net_.reset(host, there);
    if (how == cut) {
      net_.cut(host, there, one_way);
      heal_at_ = net_.now() + pause;
    } else {
      net_.freeze(there);
      other.thaws_at = net_.now() + pause;
    }
  }

  // The fate of a frame of the data plane. Only messages that are sent again may be lost.
  Verdict verdict(const SimFrame& frame) {
    if (frame.channel != Channel::small || !all(&SimTrainer::training)) return Verdict::pass;
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
    TimePoint out = std::min(tick_at_, heal_at_);
    for (const auto& peer : peers_) {
      out = std::min({out, peer->back_at, peer->thaws_at});
      if (!peer->runs()) continue;
      if (const SimTrainer* program = peer->program()) out = std::min(out, program->next_timer());
      const auto& timers = Timers::of(peer->life->jobs->clock());
      if (!timers.empty()) out = std::min(out, timers.begin()->first);
    }
    return out;
  }

  void step() {
    for (Fault& fault : faults_)
      if (fault.armed && fault.events-- == 0 &&
          (fault.happen != &SimCluster::kill || all(&SimTrainer::training)))
        return (this->*fault.happen)(*peers_[static_cast<size_t>(fault.peer)]);
    if (o_.start_kill >= 0 && all(&SimTrainer::starting) && o_.start_kill-- == 0)
      return kill(*peers_[draw_.below(kPs + kWorkers)]);
    std::vector<Peer*> ready, hearing;
    for (const auto& peer : peers_) {
      if (!peer->runs()) continue;
      if (peer->life->jobs->has_job()) ready.push_back(peer.get());
      if (peer->program() && peer->program()->has_event()) hearing.push_back(peer.get());
    }
    const TimePoint due = net_.next_due(), timer = next_timer();
    // Jobs take time: what the network does meanwhile may come before them.
    const bool network = due <= timer && due <= net_.now() + std::chrono::microseconds(50);
    const size_t choices = ready.size() + (network ? 1 : 0) + hearing.size();
    if (choices == 0) {
      if (due <= timer) return step_network();
      net_.advance_to(timer);
      return pass_time();
    }
    const size_t choice = draw_.below(choices);
    if (choice < ready.size()) return run_job(*ready[choice]);
    if (network && choice == ready.size()) return step_network();
    active_ = hearing[choice - ready.size() - (network ? 1 : 0)];
    active_->program()->next_event();
  }

  void step_network() {
    net_.step();
    history_.note("network");
    settle();
    pass_time();
  }

  void run_job(Peer& peer) {
    auto& jobs = peer.life->jobs->jobs;
    std::swap(jobs.front(), jobs[draw_.below(jobs.size())]);
    history_.note(detail::concat("job ", peer.task, " of ", jobs.size()));
    active_ = &peer;
    peer.life->jobs->run_once();
    settle();
  }

  // CAF's brokers carry bytes at once.
  void settle() {
    for (const auto& peer : peers_)
      if (peer->runs())
        while (peer->life->brokers->try_exec_runnable()) {
        }
  }

  void pass_time() {
    for (const auto& peer : peers_) {
      if (net_.now() >= peer->back_at) {
        history_.note("start " + peer->task);
        make(*peer);
        last_start_ = net_.now();
      }
      if (net_.now() >= peer->thaws_at) {
        history_.note("thaw " + peer->task);
        peer->thaws_at = TimePoint::max();
        net_.thaw(*peer->life->host);
      }
      if (!peer->runs()) continue;
      auto& clock = peer->life->jobs->clock();
      if (net_.now() > clock.current_time) clock.advance_time(net_.now() - clock.current_time);
    }
    if (net_.now() >= heal_at_) {
      heal_at_ = TimePoint::max();
      history_.note("heal");
      net_.heal();
    }
    if (net_.now() >= tick_at_) {
      tick_at_ = net_.now() + std::chrono::milliseconds(50);
      for (const auto& peer : peers_)
        if (SimTrainer* program = peer->program()) program->tick();
    }
    for (const auto& peer : peers_)
      if (SimTrainer* program = peer->program()) program->pass_time();
    settle();
  }

  // Checks

  void check() {
    for (const auto& peer : peers_)
      if (peer->life)
        for (const Shard* shard : peer->life->shards) ledger_.look(*shard);
    ledger_.check();
  }

  void check_begun() {
    const bool whole = std::all_of(peers_.begin(), peers_.end(),
                                   [](const auto& peer) { return peer->life != nullptr; });
    if (whole && all(&SimTrainer::starting) && net_.now() - last_start_ > kStartMax)
      throw Violation{"I16", "all processes are there, and no training begins; " + pending()};
  }

  void check_end() {
    // Messages still under way may arrive: doubled messages, answers to those that were given up.
    o_.drop = o_.duplicate = o_.overtake = 0;
    for (const TimePoint until = net_.now() + std::chrono::seconds(20); net_.now() < until;) {
      step();
      check();
    }
    size_t shards = 0;
    for (const auto& peer : peers_) {
      if (!peer->life) continue;
      shards += peer->life->shards.size();
      for (const Shard* shard : peer->life->shards) ledger_.check_end(*shard);
      const std::string open = peer->life->process->services().waiting_for();
      if (!open.empty()) throw Violation{"I21", peer->task + ": " + open};
    }
    if (shards != kPs) throw Violation{"I21", detail::concat(shards, " shards at the end")};
    for (const auto& peer : peers_) {
      if (!peer->life || !peer->life->trainer) continue;
      SimTrainer& program = *peer->life->trainer;
      if (program.open_steps() != 0) throw Violation{"I21", program.pending()};
      if (o_.rule == Aggregation::sync && program.weights() != weights())
        throw Violation{"I5", "the programs have read other weights"};
    }
    ledger_.check_end();
    history_.note(detail::concat("end trace=", net_.trace()));
  }

  std::string pending() {
    std::string out;
    for (const auto& peer : peers_) {
      out += " " + peer->task + ": ";
      if (!peer->life) {
        out += "is not there;";
        continue;
      }
      out += peer->life->process->services().waiting_for();
      for (const Shard* shard : peer->life->shards)
        out += detail::concat(", shard ", to_string(shard->state()), " ", shard->waiting_for());
      out += ";";
      if (peer->life->trainer) out += " " + peer->life->trainer->pending() + ";";
    }
    return out;
  }

  SimClusterOptions o_;
  SimNet net_;
  Draw draw_;
  History& history_;
  ShardLedger ledger_;
  SimDisk disk_;                              // all processes see it
  Peer* active_ = nullptr;                    // the peer whose job or event is under way
  bool folder_goes_ = false;                  // at the next restore
  std::vector<std::unique_ptr<Life>> dead_;   // killed
  std::vector<std::unique_ptr<Peer>> peers_;  // ps, workers, clients
  std::vector<Fault> faults_;                 // kills first, then cuts, then links of ps
  int64_t events_ = 0;
  TimePoint tick_at_ = net_.now();
  TimePoint last_start_ = net_.now();  // of a process
  TimePoint heal_at_ = TimePoint::max();
};

}  // namespace troupe::sim
