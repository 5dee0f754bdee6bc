// SimCluster: ps, workers and one or two clients as real processes in one thread: Process with
// CAF's deterministic scheduler, over SimNet and under virtual time. The next event is drawn from
// the seed: a job of any actor of any process, what is next on the network, or what the program of
// a client (sim_trainer.hpp) has to do.
//
// Its faults (fault.hpp) are given to it and happen at events of its history. Requests to shards
// and their answers are dropped, doubled and overtaken; processes are killed and started again, the
// program among them, or freeze; links end or are silent, both ways or one; the folder of
// checkpoints cannot be read. Each fault ends by itself. The invariants are checked after every
// event (shard_ledger.hpp), that a training begins soon after all processes are there and gets on
// soon after the last fault has ended (I16), and at the end that no request is open (I21).
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <caf/all.hpp>

#include "actors/cluster/process.hpp"
#include "chaos/shard_ledger.hpp"
#include "chaos/sim_disk.hpp"
#include "chaos/sim_injuries.hpp"
#include "chaos/sim_process.hpp"
#include "chaos/sim_trainer.hpp"
#include "training/group/services.hpp"

namespace troupe::sim {

// The balance of a run, also of one that has failed.
struct SimOutcome {
  int64_t acknowledged = 0, lost = 0;          // gradients
  int64_t us = 0;                              // virtual time
  std::map<std::string, int64_t> faults = {};  // that have happened, by kind

  void add(const SimOutcome& other) {
    acknowledged += other.acknowledged;
    lost += other.lost;
    us += other.us;
    for (const auto& [kind, n] : other.faults) faults[kind] += n;
  }
};

inline std::string sim_address(int peer) { return detail::concat("127.0.0.1:", 1000 + peer); }

// The kind of a message between clients and shards, as frames name it.
template <class M>
uint16_t kind_of(const M& message) {
  MessageKinds kinds;
  add_parameter_messages(kinds);
  return kinds.encode(caf::make_message(message)).kind;
}

// A program was told of the checkpoint `before` and now of `path`, which nobody may ever load.
// Throws: Violation. `damaged`: its files are not those that were written.
inline void check_checkpoint(const std::string& before, const std::string& path,
                             const ShardLedger& ledger, SimDisk& disk, bool damaged) {
  if (step_in(path) < step_in(before))
    throw Violation{"I13", detail::concat(path, " is restored, and there was ", before)};
  const std::string folder = SimTrainer::kFolder;
  std::vector<Slice> slices;
  for (const auto& [id, slice] : ledger.seen()) slices.push_back(slice);
  const auto as_the_reader_sees =
      std::exchange(disk.folders, [] { return SimDisk::Folders::here; });
  try {
    const Manifest manifest = read_manifest(disk, folder, path.substr(folder.size() + 1));
    if (damaged) disk.bytes(folder + "/" + manifest.files[0].name).back() ^= 1;
    ledger.check_checkpoint(manifest.step, read_slices(disk, folder, manifest, slices));
  } catch (const Error& e) {
    throw Violation{"I14", detail::concat("a program was told of ", path, "; ", e.what())};
  }
  disk.folders = as_the_reader_sees;
}
// The second update of a slice, as if it had another gradient.
inline Shard::Applied of_other_gradient(Shard::Applied a) {
  Tensor& values = a.gradients[0].values;
  if (a.version == 2) values = Tensor::zeros(values.dtype(), values.shape());
  return a;
}

class SimCluster {
 public:
  // `golden`: the chain of values of a run without faults, which this run must equal; may be null.
  SimCluster(const SimClusterOptions& options, uint64_t seed, Faults faults,
             const HashChain* golden, History& history)
      : o_(options),
        net_(seed),
        draw_(seed),
        history_(history),
        ledger_(options.rule, options.replicas, options.steps, golden),
        injuries_(faults) {
    history_.note(detail::concat(describe(o_), " faults: ", to_text(faults, o_.shape)));
    if (o_.watch) o_.watch->begins();
    history_.set_clock([this] { return net_.now().time_since_epoch().count() / 1000; });
    injuries_.lasts_until(net_.now());
    net_.filter = [this](const SimFrame& frame) { return verdict(frame); };
    disk_.lie_on_sync = o_.lying_disk;
    const auto caller = [this] { return active_ ? active_->index : Fault::kAny; };
    disk_.caller.is_full = [this, caller] { return injuries_.is_full(caller(), net_.now()); };
    disk_.caller.fails = [this, caller] { return injuries_.disk_fails(caller()); };
    disk_.folders = [this, caller] { return injuries_.folder(caller(), net_.now()); };
    for (int i = 0; i < o_.shape.servers() + o_.clients; ++i) {
      Peer& peer = *peers_.emplace_back(std::make_unique<Peer>());
      peer.index = i;
      peer.task = i < o_.shape.ps ? detail::concat("/job:ps/task:", i)
                  : i < o_.shape.servers()
                      ? detail::concat("/job:worker/task:", i - o_.shape.ps)
                      : detail::concat("/job:client/task:", i - o_.shape.servers());
      for (const Fault& fault : faults)
        if (fault.kind == FaultKind::late && fault.who == i) peer.back_at = in_ms(fault.lasts);
    }
    const auto is_point = [](const Fault& fault) { return fault.kind == FaultKind::point; };
    if (std::any_of(faults.begin(), faults.end(), is_point))
      injuries_.watch([this, mine = std::this_thread::get_id()](FailPoint point) {
        return std::this_thread::get_id() == mine ? reached(point) : FailTable::Act{};
      });
    try {
      for (const auto& peer : peers_)
        if (peer->back_at == TimePoint::max()) make(*peer);
    } catch (...) {
      end();
      throw;
    }
  }
  ~SimCluster() { end(); }

  // Throws: Violation.
  void run() {
    const std::chrono::milliseconds in_all(2 * o_.pace_ms * o_.steps);
    while (!all(&SimTrainer::ended)) {
      if (++events_ > o_.events_max || net_.now() > TimePoint{} + kTimeMax + in_all)
        throw Violation{"I21", "no end; " + pending()};
      if (history_.is_over()) throw Violation{"until", pending()};
      step();
      check();
      check_progress();
    }
    calm_.ended = history_.events();
    check_end();
  }
  SimOutcome outcome() const {
    return {.acknowledged = ledger_.acknowledgements(),
            .lost = ledger_.lost(),
            .us = history_.us(),
            .faults = injuries_.happened()};
  }
  const CalmRun& calm() const { return calm_; }  // of a run without faults
  const HashChain& chain() const { return ledger_.chain(); }
  const std::string& weights() const { return peers_.back()->life->trainer->weights(); }
  // Also those of programs that have died.
  std::map<int64_t, std::string> looked() const {
    std::map<int64_t, std::string> out = peers_.back()->life->trainer->looked();
    for (const auto& life : dead_)
      if (life->trainer) out.insert(life->trainer->looked().begin(), life->trainer->looked().end());
    return out;
  }

 private:
  static constexpr std::chrono::hours kTimeMax{2};
  // From the last start of a process to the first step: no deadline of a request is waited for.
  static constexpr std::chrono::seconds kStartMax{5};
  // From the end of the last fault to a step that ends well, or to the first step.
  static constexpr std::chrono::seconds kProgressMax{30};
  // From the death at a fail point to the next start.
  static constexpr int64_t kDeadMs = 300;

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
    FailTable points;                  // armed
    std::multiset<std::string> made;   // their containers, and those of programs that died (Made)
    bool killed = false;
    bool dying = false;  // at a fail point: what it does until its job returns, nobody sees

    void up(const Member& member, const caf::actor& agent) override {
      process->peer_up(member, agent);
    }
    void down(const Member& member, const std::string& reason) override {
      process->peer_down(member, reason);
    }
  };
  struct Peer {
    int index = 0;
    std::string task;
    uint64_t incarnation = 0;
    bool died = false;           // once at least
    std::string told;            // the newest checkpoint that its program was told of, in any life
    std::unique_ptr<Life> life;  // null: killed, and not yet back
    TimePoint back_at = TimePoint::max();
    TimePoint thaws_at = TimePoint::max();
    bool runs() const { return life && !life->dying && !life->host->frozen; }
    SimTrainer* program() const { return runs() ? life->trainer.get() : nullptr; }
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
  // Keeps the name of a shard's container, as Seen.
  struct Made {
    Made(Life& life, std::string container) : of(life), at(of.made.insert(std::move(container))) {}
    ~Made() { of.made.erase(at); }
    Made(const Made&) = delete;
    Life& of;
    const std::multiset<std::string>::iterator at;
  };
  struct Timers : caf::detail::simple_actor_clock {  // its table of timers is protected
    static auto& of(caf::detail::simple_actor_clock& clock) { return clock.*(&Timers::schedule_); }
  };

  // True if that holds for the program of every client.
  bool all(bool (SimTrainer::*is)() const) const {
    return std::all_of(peers_.begin() + o_.shape.servers(), peers_.end(), [is](const auto& peer) {
      return peer->life && peer->life->trainer && (*peer->life->trainer.*is)();
    });
  }

  // Processes

  void make(Peer& peer) {
    peer.back_at = TimePoint::max();
    const bool is_program = peer.index >= o_.shape.servers();
    const int number = peer.index - o_.shape.servers();
    auto model = is_program ? std::make_unique<SimModel>(o_, replicas_of(o_, number)) : nullptr;
    ++peer.incarnation;
    active_ = &peer;
    peer.life = std::make_unique<Life>();
    Life& life = *peer.life;
    life.host = &net_.add(detail::concat(peer.task, "#", peer.incarnation));
    ProcessOptions options{.threads = 1, .cuda = false, .ops = o_.ops};
    if (is_program)
      options.log = [&life](LogLevel, const std::string& line) {
        if (life.trainer) life.trainer->steps().log(line);
      };
    troupe::ClusterOptions cluster{.listen = sim_address(peer.index)};
    for (int i = 0; i < o_.shape.servers(); ++i)
      if (i != peer.index) cluster.seeds.push_back(sim_address(i));
    if (o_.secret) cluster.secret = "the secret of all processes";
    ProcessSeams seams = seams_of(*life.host);
    const auto on_shard = [this, &life](const std::string& container, Shard& shard) {
      const auto made = std::make_shared<Made>(life, container);
      if (!is_present(container)) return shard.set_applied_log([made](const Shard::Applied&) {});
      const auto seen = std::make_shared<Seen>(life, shard);
      shard.set_applied_log([this, &life, &shard, container, seen, made](const Shard::Applied& a) {
        if (life.dying) return;
        if (life.killed) ledger_.report({"kill", "a killed process has made an update"});
        if (!is_present(container)) return;
        ledger_.applied(o_.other_gradient ? of_other_gradient(a) : a);
        ledger_.remember(a.slice, shard);
        if (o_.doubled_apply && a.version == 2) ledger_.applied(a);
      });
    };
    const auto on_client = [this, &life](uint64_t session, ParameterClient& client) {
      client.set_answer_log([this, &life, session](const TakenAnswer& answer) {
        if (life.dying) return;
        if (life.killed) ledger_.report({"kill", "a killed process has taken an answer"});
        if (is_present(own_container(session))) ledger_.taken(planted(answer));
      });
    };
    life.services = std::make_unique<TrainingServices>(ShardSeams{&disk_, on_shard, on_client});
    options.services = life.services.get();
    life.process =
        std::make_unique<Process>(peer.task, peer.incarnation, options, cluster, std::move(seams));
    life.jobs = &jobs_of(*life.process);
    life.brokers = &brokers_of(*life.process);
    life.jobs->clock().current_time = net_.now();
    if (is_program) life.trainer = make_trainer(peer, number, std::move(model));
    life.process->start(life.trainer ? life.trainer->listener() : &life);
    if (life.trainer) life.trainer->begin_group();
  }

  // False for the shards of a program that has died.
  bool is_present(const std::string& container) const {
    if (o_.clients > 1) return true;
    if (!peers_.back()->life) return false;
    const auto life = static_cast<int>(peers_.back()->incarnation) - 1;
    return container == own_container(SimTrainer::session_of(0, life));
  }
  TakenAnswer planted(TakenAnswer answer) const {
    if (o_.early_acknowledgement && answer.version < 0 && answer.at.step + 1 < o_.steps)
      ++answer.at.step;
    if (o_.values_of_before && answer.version > 0) --answer.version;
    return answer;
  }

  std::unique_ptr<SimTrainer> make_trainer(const Peer& peer, int number,
                                           std::unique_ptr<SimModel> model) {
    SimTrainerWorld world{
        .options = o_, .net = net_, .disk = disk_, .history = history_, .ledger = ledger_};
    world.begins = [this, &peer](int64_t step) {
      if (replicas_keep_step(o_) && step < step_in(peer.told))
        throw Violation{"I13", detail::concat("step ", step, " is done again, and the program, or ",
                                              "its predecessor, was told of ", peer.told)};
      if (calm_.begun == 0) calm_.begun = history_.events();
      gets_on_at_ = net_.now();
      last_step_ = last_step_ || step + 1 == o_.steps;
    };
    world.restores = [this] { injuries_.restores(net_.now()); };
    world.disk_failed = [this] { return injuries_.disk_failed() && o_.clients == 1; };
    world.gets_on = [this] { gets_on_at_ = net_.now(); };
    world.ps_died = [this] { return ps_died(); };
    world.came_back = [this](int32_t replica) {
      return peers_[static_cast<size_t>(o_.shape.ps) + static_cast<size_t>(replica)]->died;
    };
    return std::make_unique<SimTrainer>(std::move(world), *peer.life->process, number,
                                        static_cast<int>(peer.incarnation) - 1, std::move(model));
  }

  void end() {
    injuries_.watch(nullptr);
    ledger_.close();
    for (const auto& peer : peers_)
      if (peer->life && peer->life->trainer) peer->life->trainer->stop();
    for (const auto& peer : peers_)
      if (peer->life) end(*peer->life);
    history_.set_clock({});
    for (const auto& life : dead_) {
      if (life->trainer) life->trainer->stop();
      end(*life);
    }
  }
  static void end(Life& life) {
    if (!life.process) return;
    life.process->stop();
    while (life.jobs->try_run_once() || life.brokers->try_exec_runnable()) {
    }
    life.trainer.reset();
    life.process.reset();
  }

  // Faults

  TimePoint in_ms(int64_t ms) const { return net_.now() + std::chrono::milliseconds(ms); }
  void apply(const Fault& fault) {
    if (fault.is_of_frame()) injuries_.note(fault);
    if (fault.is_of_message()) return injuries_.order(fault);
    Peer* const who = peer_at(fault.who);
    Peer* const other = peer_at(fault.other);
    if (fault.kind == FaultKind::late || !may(fault, who, other))
      return history_.note(detail::concat("no fault ", to_text(fault, o_.shape)));
    history_.note(detail::concat("fault ", to_text(fault, o_.shape), " ", who ? who->task : "",
                                 other ? " and " + other->task : ""));
    injuries_.note(fault);
    injuries_.count(fault.kind);
    const TimePoint until = in_ms(fault.lasts);
    injuries_.lasts_until(until);
    switch (fault.kind) {
      case FaultKind::power:
        return lose_power(until, static_cast<uint64_t>(fault.at));
      case FaultKind::kill:
        return kill(*who, until);
      case FaultKind::freeze:
        net_.freeze(*who->life->host);
        who->thaws_at = who->thaws_at == TimePoint::max() ? until : std::max(who->thaws_at, until);
        return;
      case FaultKind::reset:
        return net_.reset(*who->life->host, *other->life->host);
      case FaultKind::cut:
      case FaultKind::cut_from: {
        const bool one_way = fault.kind == FaultKind::cut_from;
        net_.cut(who->task, other->task, one_way);
        return injuries_.cut({until, fault.who, fault.other, one_way});
      }
      case FaultKind::point:
        return who->life->points.add(fail_orders(fault.order).front());
      case FaultKind::disk_full:
        return injuries_.fill_disk(fault, until);
      case FaultKind::disk_error:
        return injuries_.fail_disk(fault);
      default:
        return injuries_.lose_folder(fault);
    }
  }
  Peer* peer_at(int index) {
    const auto at = static_cast<size_t>(index);
    return index >= 0 && at < peers_.size() ? peers_[at].get() : nullptr;
  }
  // A fault that finds nothing to break, or breaks a promise that nobody has made, does not happen.
  bool may(const Fault& fault, const Peer* who, const Peer* other) const {
    switch (fault.kind) {
      case FaultKind::power: {
        const Peer& program = *peers_.back();
        return o_.clients == 1 && program.life && may_die(program) &&
               injuries_.folder(Fault::kAny, net_.now()) == SimDisk::Folders::here;
      }
      case FaultKind::kill:
        return who && who->life && may_die(*who);
      case FaultKind::freeze:
        return who && who->life;
      // Errors are those of the disk, or of memory.
      case FaultKind::point:
        return who && who->life &&
               (fault.order.find("=error") == std::string::npos ||
                (o_.clients == 1 && o_.pause_every == 0));
      case FaultKind::reset:
        return who && other && who->life && other->life;
      case FaultKind::cut:
      case FaultKind::cut_from:
        return who && other;
      // A program whose last checkpoint cannot be written ends, and its successor resumes.
      case FaultKind::disk_full:
      case FaultKind::disk_error:
        return o_.clients == 1 && pauses_repeat(o_);
      // A program that begins anew and finds no checkpoint where some were begins at step 0.
      case FaultKind::blind:
        return calm_.begun > 0 && !any_died(o_.shape.servers(), Fault::kAny);
      default:
        return true;
    }
  }
  bool any_died(int first, int end) const {
    const auto last = end < 0 ? peers_.end() : peers_.begin() + end;
    return std::any_of(peers_.begin() + first, last, [](const auto& peer) { return peer->died; });
  }
  bool ps_died() const { return !o_.deaths_denied && any_died(0, o_.shape.ps); }
  bool may_die(const Peer& peer) const {
    const bool begun = calm_.begun > 0;
    const auto is = [this](bool (SimTrainer::*what)() const) {
      return std::any_of(peers_.begin() + o_.shape.servers(), peers_.end(),
                         [what](const auto& p) { return p->life && (*p->life->trainer.*what)(); });
    };
    // A container is handed on with all of its values. A program asks for its rate scale anew.
    const bool ps_gone = any_died(0, o_.shape.ps);
    if (peer.life->trainer)
      return (o_.clients == 1 || (begun && !(peer.life->trainer->owner() && ps_gone))) &&
             pauses_repeat(o_) && !peer.life->trainer->ended() &&
             injuries_.folder(peer.index, net_.now()) == SimDisk::Folders::here;
    if (peer.index >= o_.shape.ps || !begun) return true;
    // Weights that are read after the training come back from a checkpoint alone.
    if (o_.clients == 1)
      return !is(&SimTrainer::ended) && (o_.checkpoint_every > 0 || !is(&SimTrainer::reading));
    // A program whose last step is done does not come back when its owner restores what it did.
    return all(&SimTrainer::training) && !last_step_;
  }
  // A checkpoint that the program was told of is there afterwards.
  void lose_power(TimePoint back_at, uint64_t seed) {
    const int64_t step = step_in(peers_.back()->life->trainer->checkpoint());
    for (const auto& peer : peers_)
      if (peer->life) kill(*peer, back_at + std::chrono::milliseconds(peer->index));
    Draw draw(seed);
    disk_.crash([&draw](uint64_t n) { return draw.below(n); });
    std::vector<std::string> warnings;
    const std::optional<Manifest> found = find_newest(disk_, SimTrainer::kFolder, warnings);
    if ((found ? found->step : -1) < step)
      throw Violation{"I13", detail::concat("the checkpoint of step ", step, " was lost with the ",
                                            "power; ", warnings.empty() ? "" : warnings.back())};
  }
  void kill(Peer& peer, TimePoint back_at) {
    net_.kill(*peer.life->host);
    peer.life->killed = true;
    peer.life->dying = false;
    peer.life->shards.clear();
    while (o_.busy_after_kill && peer.life->jobs->try_run_once()) {
    }
    if (peer.life->trainer && o_.clients == 1) {
      ledger_.program_died();
      for (const auto& other : peers_)
        if (other->life) other->life->shards.clear();
    }
    dead_.push_back(std::move(peer.life));
    if (active_ == &peer) active_ = nullptr;
    peer.died = true;
    peer.thaws_at = TimePoint::max();
    peer.back_at = back_at;
  }

  // A process has come to a fail point.
  FailTable::Act reached(FailPoint point) {
    const SimHost* const host = net_.under_way;
    Peer* const peer = host ? peer_at(peer_of_host(host->name())) : active_;
    if (!peer || !peer->runs() || (host && peer->life->host != host)) return {};
    const FailTable::Act act = peer->life->points.reached(point);
    const bool dies = act.action == FailAction::die;
    if (act.action == FailAction::none || (dies && !may_die(*peer))) return {};
    history_.note(detail::concat("fail point ", kFailPoints[static_cast<size_t>(point)].name, " ",
                                 dies ? "ends " : "is reached by ", peer->task));
    if (act.action == FailAction::sleep) {
      net_.freeze(*peer->life->host);
      peer->thaws_at = net_.now() + act.lasts;
      injuries_.lasts_until(peer->thaws_at);
      return {};
    }
    injuries_.lasts_until(net_.now());
    if (!dies) return act;
    net_.kill(*peer->life->host);
    peer->life->dying = true;
    disk_.set_caller_gone(true);
    throw SimCrash{};  // the rest of its job is not done
  }
  void bury() {
    disk_.set_caller_gone(false);
    for (const auto& peer : peers_)
      if (peer->life && peer->life->dying) kill(*peer, in_ms(kDeadMs));
  }

  // The fate of a frame of the data plane. Only messages that are sent again may be lost.
  Verdict verdict(const SimFrame& frame) {
    const int from = peer_of_host(frame.from), to = peer_of_host(frame.to);
    if (const auto bit =
            injuries_.of_frame(from, to, frame.channel == Channel::bulk && frame.flags != 0)) {
      const auto at = static_cast<size_t>(*bit / 8) % frame.bytes.size();
      history_.note(detail::concat("corrupt byte ", at, " kind=", frame.type, " from=", frame.from,
                                   " to=", frame.to));
      frame.bytes[at] ^= static_cast<std::byte>(1 << (*bit % 8));
      injuries_.lasts_until(net_.now());
      return Verdict::pass;
    }
    if (frame.channel != Channel::small || !all(&SimTrainer::training)) return Verdict::pass;
    static const uint16_t first = kind_of(Push{}), last = kind_of(Pulled{});
    if (frame.type < first || frame.type > last) return Verdict::pass;
    ++calm_.messages;
    const Verdict out = injuries_.of_message(from, to);
    static constexpr const char* kNames[] = {"pass", "drop", "twice", "overtake"};
    if (out != Verdict::pass) {
      injuries_.lasts_until(net_.now());
      history_.note(detail::concat(kNames[static_cast<int>(out)], " kind=", frame.type,
                                   " from=", frame.from, " to=", frame.to));
    }
    return out;
  }
  int peer_of_host(const std::string& name) const {
    const std::string task = name.substr(0, name.find('#'));
    const auto it = std::find_if(peers_.begin(), peers_.end(),
                                 [&task](const auto& peer) { return peer->task == task; });
    return it == peers_.end() ? Fault::kAny : (*it)->index;
  }

  // Events

  TimePoint next_timer() const {
    TimePoint out = std::min(tick_at_, injuries_.next_heal());
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
    try {
      next_event();
    } catch (const SimCrash&) {  // of a process that has died at a fail point
    }
    bury();
  }
  void next_event() {
    if (const Fault* fault = injuries_.due(history_.events())) return apply(*fault);
    for (const auto& peer : peers_)
      if (peer->program() && peer->program()->gave_up()) return kill(*peer, in_ms(500));
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

  // The program of a peer, which is to do something now; null: there is none, or it is frozen.
  SimTrainer* of(Peer& peer) {
    if (peer.program()) active_ = &peer;
    return peer.program();
  }

  // CAF's brokers carry bytes at once.
  void settle() {
    for (const auto& peer : peers_) {
      active_ = peer.get();
      while (peer->runs() && peer->life->brokers->try_exec_runnable()) {
      }
    }
  }

  void pass_time() {
    for (const auto& peer : peers_) {
      if (net_.now() >= peer->back_at) {
        history_.note("start " + peer->task);
        make(*peer);
        injuries_.lasts_until(net_.now());
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
    for (const auto& cut : injuries_.healed(net_.now())) {
      const std::string &from = peer_at(cut.from)->task, &to = peer_at(cut.to)->task;
      history_.note(detail::concat("heal ", from, " and ", to));
      if (!o_.cuts_stay) net_.heal(from, to, cut.one_way);
    }
    if (net_.now() >= tick_at_) {
      tick_at_ = net_.now() + std::chrono::milliseconds(OpenSteps::kTickMs);
      for (const auto& peer : peers_)
        if (SimTrainer* program = of(*peer)) program->tick();
    }
    for (const auto& peer : peers_)
      if (SimTrainer* program = of(*peer)) program->pass_time();
    settle();
  }

  // Checks

  void check() {
    for (const auto& peer : peers_)
      if (peer->life)
        for (const Shard* shard : peer->life->shards) ledger_.look(*shard);
    ledger_.check();
    for (const auto& peer : peers_)
      if (const SimTrainer* program = peer->program())
        if (const std::string now = program->checkpoint(); !now.empty() && now != peer->told) {
          const std::string before = std::exchange(peer->told, now);
          check_checkpoint(replicas_keep_step(o_) ? before : "", now, ledger_, disk_,
                           o_.damaged_files);
        }
    const bool anew = o_.clients == 1 && any_died(o_.shape.servers(), Fault::kAny);
    if (ledger_.lost() > 0 && !ps_died() && !anew)
      throw Violation{"I2", detail::concat(ledger_.lost(), " acknowledged gradients are lost, and ",
                                           "no ps has died")};
  }

  void check_progress() {
    if (calm_.prepared == 0 && all(&SimTrainer::starting)) calm_.prepared = history_.events();
    const TimePoint well_at = injuries_.well_at();
    // A container is handed on some seconds after the death of its owner.
    const bool waits = o_.clients > 1 && any_died(o_.shape.servers(), Fault::kAny);
    const bool starts = all(&SimTrainer::starting) && !waits;
    if (starts && injuries_.only_kills() && net_.now() - well_at > kStartMax)
      throw Violation{"I16", "all processes are there, and no training begins; " + pending()};
    const ns still = net_.now() - std::max(well_at, gets_on_at_);
    injuries_.stood_still(still);
    if (still > kProgressMax)
      throw Violation{"I16", "no fault is left, and the training does not get on; " + pending()};
  }

  void check_end() {
    // Messages still under way may arrive: doubled messages, answers to those that were given up.
    injuries_.end();
    for (const TimePoint until = net_.now() + std::chrono::seconds(20); net_.now() < until;) {
      step();
      check();
    }
    std::set<uint32_t> slices;
    for (const auto& peer : peers_) {
      if (!peer->life) continue;
      if (peer->index >= o_.shape.ps && !peer->life->shards.empty())
        throw Violation{"I21", peer->task + " has shards, and is no ps"};
      for (const std::string& container : peer->life->made)
        if (!is_present(container))
          throw Violation{"I19", peer->task + " keeps the shards of a dead program, " + container};
      for (const Shard* shard : peer->life->shards) {
        ledger_.check_end(*shard);
        for (const Slice& slice : shard->slices())
          if (!slices.insert(slice.id).second)
            throw Violation{"I21", detail::concat("two shards have slice ", slice.id)};
      }
      const std::string open = peer->life->process->services().waiting_for();
      if (!open.empty()) throw Violation{"I21", peer->task + ": " + open};
    }
    if (slices.size() != ledger_.seen().size())
      throw Violation{"I21", detail::concat("of ", ledger_.seen().size(), " slices ", slices.size(),
                                            " are there at the end")};
    for (const auto& peer : peers_) {
      if (!peer->life || !peer->life->trainer) continue;
      SimTrainer& program = *peer->life->trainer;
      if (program.steps().size() != 0) throw Violation{"I21", program.pending()};
      if (o_.rule == Aggregation::sync && program.weights() != weights())
        throw Violation{"I5", "the programs have read other weights"};
    }
    ledger_.check_end();
    history_.note(detail::concat("end acknowledged=", ledger_.acknowledgements(),
                                 " lost=", ledger_.lost(), " still_ms=", injuries_.still_ms(),
                                 " trace=", net_.trace()));
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
  std::vector<std::unique_ptr<Life>> dead_;   // killed
  std::vector<std::unique_ptr<Peer>> peers_;  // ps, workers, clients
  SimInjuries injuries_;
  CalmRun calm_;
  bool last_step_ = false;  // a replica has begun it
  int64_t events_ = 0;
  TimePoint tick_at_ = net_.now();
  TimePoint gets_on_at_ = net_.now();  // the training
};

}  // namespace troupe::sim
