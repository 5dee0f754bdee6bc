// The lives of simulated processes.
#include "chaos/sim_processes.hpp"

#include <algorithm>
#include <utility>

#include <caf/all.hpp>

namespace troupe::sim {
namespace {

// Keeps a shard among those that are looked at, for as long as the shard keeps this: one may end
// in a process that lives.
struct Seen {
  Seen(SimLife& life, const Shard& shard) : of(life), what(&shard) { of.shards.push_back(what); }
  ~Seen() { std::erase(of.shards, what); }
  Seen(const Seen&) = delete;
  SimLife& of;
  const Shard* const what;
};
// Keeps the name of a shard's container, as Seen.
struct Made {
  Made(SimLife& life, std::string container) : of(life), at(of.made.insert(std::move(container))) {}
  ~Made() { of.made.erase(at); }
  Made(const Made&) = delete;
  SimLife& of;
  const std::multiset<std::string>::iterator at;
};
struct Timers : caf::detail::simple_actor_clock {  // its table of timers is protected
  static auto& of(caf::detail::simple_actor_clock& clock) { return clock.*(&Timers::schedule_); }
};

std::string address(int peer) { return detail::concat("127.0.0.1:", 1000 + peer); }

std::string task_of(int peer, const SimShape& in) {
  if (peer < in.ps) return detail::concat("/job:ps/task:", peer);
  if (peer < in.servers()) return detail::concat("/job:worker/task:", peer - in.ps);
  return detail::concat("/job:client/task:", peer - in.servers());
}

// Mistakes on purpose

// The second update of a slice, as if it had another gradient.
Shard::Applied of_other_gradient(Shard::Applied a) {
  Tensor& values = a.gradients[0].values;
  if (a.version == 2) values = Tensor::zeros(values.dtype(), values.shape());
  return a;
}
TakenAnswer planted(TakenAnswer answer, const SimClusterOptions& o) {
  if (o.early_acknowledgement && answer.version < 0 && answer.at.step + 1 < o.steps)
    ++answer.at.step;
  if (o.values_of_before && answer.version > 0) --answer.version;
  return answer;
}

}  // namespace

void SimLife::end() {
  if (!process) return;
  process->stop();
  while (jobs->try_run_once() || brokers->try_exec_runnable()) {
  }
  trainer.reset();
  process.reset();
}

SimProcesses::SimProcesses(SimWorld& world, const Faults& faults) : world_(world) {
  const SimClusterOptions& o = world.options;
  for (int i = 0; i < o.shape.servers() + o.clients; ++i) {
    SimPeer& peer = *peers_.emplace_back(std::make_unique<SimPeer>());
    peer.index = i;
    peer.task = task_of(i, o.shape);
    for (const Fault& fault : faults)
      if (fault.kind == FaultKind::late && fault.who == i) peer.back_at = world.in_ms(fault.lasts);
  }
}

SimProcesses::~SimProcesses() {
  world_.ledger.close();
  for (const auto& peer : peers_)
    if (peer->life && peer->life->trainer) peer->life->trainer->stop();
  for (const auto& peer : peers_)
    if (peer->life) peer->life->end();
  world_.history.set_clock({});
  for (const auto& life : dead_) {
    if (life->trainer) life->trainer->stop();
    life->end();
  }
}

void SimProcesses::start_all() {
  for (const auto& peer : peers_)
    if (peer->back_at == TimePoint::max()) start(*peer);
}

void SimProcesses::start(SimPeer& peer) {
  const SimClusterOptions& o = world_.options;
  peer.back_at = TimePoint::max();
  const bool is_program = peer.index >= programs_begin();
  auto model = is_program
                   ? std::make_unique<SimModel>(o, replicas_of(o, peer.index - programs_begin()))
                   : nullptr;
  ++peer.incarnation;
  active = &peer;
  peer.life = std::make_unique<SimLife>();
  SimLife& life = *peer.life;
  life.host = &world_.net.add(detail::concat(peer.task, "#", peer.incarnation));
  ProcessOptions options{.threads = 1, .cuda = false, .ops = o.ops};
  if (is_program)
    options.log = [&life](LogLevel, const std::string& line) {
      if (life.trainer) life.trainer->steps().log(line);
    };
  troupe::ClusterOptions cluster{.listen = address(peer.index)};
  for (int i = 0; i < programs_begin(); ++i)
    if (i != peer.index) cluster.seeds.push_back(address(i));
  if (o.secret) cluster.secret = "the secret of all processes";
  life.services = std::make_unique<TrainingServices>(shard_seams(life));
  options.services = life.services.get();
  life.process = std::make_unique<Process>(peer.task, peer.incarnation, options, cluster,
                                           seams_of(*life.host));
  life.jobs = &jobs_of(*life.process);
  life.brokers = &brokers_of(*life.process);
  life.jobs->clock().current_time = world_.net.now();
  if (is_program) life.trainer = make_trainer(peer, std::move(model));
  life.process->start(life.trainer ? life.trainer->listener() : &life);
  if (life.trainer) life.trainer->begin_group();
}

// The ledger sees all that shards apply, and all that clients take.
ShardSeams SimProcesses::shard_seams(SimLife& life) {
  const auto on_shard = [this, &life](const std::string& container, Shard& shard) {
    const auto made = std::make_shared<Made>(life, container);
    if (!is_present(container)) return shard.set_applied_log([made](const Shard::Applied&) {});
    const auto seen = std::make_shared<Seen>(life, shard);
    shard.set_applied_log([this, &life, &shard, container, seen, made](const Shard::Applied& a) {
      const SimClusterOptions& o = world_.options;
      ShardLedger& ledger = world_.ledger;
      if (life.dying) return;
      if (life.killed) ledger.report({"kill", "a killed process has made an update"});
      if (!is_present(container)) return;
      ledger.applied(o.other_gradient ? of_other_gradient(a) : a);
      ledger.remember(a.slice, shard);
      if (o.doubled_apply && a.version == 2) ledger.applied(a);
    });
  };
  const auto on_client = [this, &life](uint64_t session, ParameterClient& client) {
    client.set_answer_log([this, &life, session](const TakenAnswer& answer) {
      if (life.dying) return;
      if (life.killed) world_.ledger.report({"kill", "a killed process has taken an answer"});
      if (is_present(own_container(session))) world_.ledger.taken(planted(answer, world_.options));
    });
  };
  return {&world_.disk, on_shard, on_client};
}

std::unique_ptr<SimTrainer> SimProcesses::make_trainer(const SimPeer& peer,
                                                       std::unique_ptr<SimModel> model) {
  SimTrainerWorld world{.options = world_.options,
                        .net = world_.net,
                        .disk = world_.disk,
                        .history = world_.history,
                        .ledger = world_.ledger};
  world.begins = [this, &peer](int64_t step) {
    if (replicas_keep_step(world_.options) && step < step_in(peer.told))
      throw Violation{"I13", detail::concat("step ", step, " is done again, and the program, or ",
                                            "its predecessor, was told of ", peer.told)};
    SimProgress& progress = world_.progress;
    if (progress.calm.begun == 0) progress.calm.begun = world_.history.events();
    progress.gets_on_at = world_.net.now();
    progress.last_step = progress.last_step || step + 1 == world_.options.steps;
  };
  world.restores = [this] { world_.injuries.restores(world_.net.now()); };
  world.disk_failed = [this] {
    return world_.injuries.disk_failed() && world_.options.clients == 1;
  };
  world.gets_on = [this] { world_.progress.gets_on_at = world_.net.now(); };
  world.ps_died = [this] { return ps_died(); };
  world.came_back = [this](int32_t replica) {
    return peers_[static_cast<size_t>(world_.options.shape.ps + replica)]->died;
  };
  return std::make_unique<SimTrainer>(std::move(world), *peer.life->process,
                                      peer.index - programs_begin(),
                                      static_cast<int>(peer.incarnation) - 1, std::move(model));
}

void SimProcesses::kill(SimPeer& peer, TimePoint back_at) {
  world_.net.kill(*peer.life->host);
  peer.life->killed = true;
  peer.life->dying = false;
  peer.life->shards.clear();
  while (world_.options.busy_after_kill && peer.life->jobs->try_run_once()) {
  }
  if (peer.life->trainer && world_.options.clients == 1) {
    world_.ledger.program_died();
    for (const auto& other : peers_)
      if (other->life) other->life->shards.clear();
  }
  dead_.push_back(std::move(peer.life));
  if (active == &peer) active = nullptr;
  peer.died = true;
  peer.thaws_at = TimePoint::max();
  peer.back_at = back_at;
}

void SimProcesses::freeze(SimPeer& peer, TimePoint until) {
  world_.net.freeze(*peer.life->host);
  peer.thaws_at = until;
}

// A worker that is back after a kill stays.
bool SimProcesses::may_go(const SimPeer& peer) const {
  const SimClusterOptions& o = world_.options;
  const auto stays = [&](const auto& other) {
    return other->index >= o.shape.ps && other->index < o.shape.servers() && other.get() != &peer &&
           !other->leaves && (other->life || other->back_at != TimePoint::max());
  };
  return o.move_after_ms > 0 && peer.index >= o.shape.ps && peer.index < o.shape.servers() &&
         std::any_of(peers_.begin(), peers_.end(), stays);
}

void SimProcesses::let_leave() {
  for (const auto& peer : peers_) {
    if (!peer->leaves || !peer->runs()) continue;
    const bool waits = std::any_of(peers_.begin(), peers_.end(), [&](const auto& program) {
      return program->program() && program->life->process->departures().leaves(peer->task);
    });
    if (waits) continue;
    world_.history.note("leave " + peer->task);
    kill(*peer, TimePoint::max());
    world_.injuries.lasts_until(world_.net.now());
  }
}

void SimProcesses::pass_time() {
  const TimePoint now = world_.net.now();
  let_leave();
  for (const auto& peer : peers_) {
    if (now >= peer->back_at) {
      world_.history.note("start " + peer->task);
      start(*peer);
      world_.injuries.lasts_until(now);
    }
    if (now >= peer->thaws_at) {
      world_.history.note("thaw " + peer->task);
      peer->thaws_at = TimePoint::max();
      world_.net.thaw(*peer->life->host);
    }
    if (!peer->runs()) continue;
    auto& clock = peer->life->jobs->clock();
    if (now > clock.current_time) clock.advance_time(now - clock.current_time);
  }
}

TimePoint SimProcesses::next_timer() const {
  TimePoint out = TimePoint::max();
  for (const auto& peer : peers_) {
    out = std::min({out, peer->back_at, peer->thaws_at});
    if (!peer->runs()) continue;
    if (const SimTrainer* program = peer->program()) out = std::min(out, program->next_timer());
    const auto& timers = Timers::of(peer->life->jobs->clock());
    if (!timers.empty()) out = std::min(out, timers.begin()->first);
  }
  return out;
}

void SimProcesses::settle() {
  for (const auto& peer : peers_) {
    active = peer.get();
    while (peer->runs() && peer->life->brokers->try_exec_runnable()) {
    }
  }
}

SimPeer* SimProcesses::at(int index) const {
  const auto i = static_cast<size_t>(index);
  return index >= 0 && i < peers_.size() ? peers_[i].get() : nullptr;
}

int SimProcesses::index_of_host(const std::string& name) const {
  const std::string task = name.substr(0, name.find('#'));
  const auto it = std::find_if(peers_.begin(), peers_.end(),
                               [&task](const auto& peer) { return peer->task == task; });
  return it == peers_.end() ? Fault::kAny : (*it)->index;
}

bool SimProcesses::all_programs(bool (SimTrainer::*is)() const) const {
  return std::all_of(peers_.begin() + programs_begin(), peers_.end(), [is](const auto& peer) {
    return peer->life && peer->life->trainer && (*peer->life->trainer.*is)();
  });
}
bool SimProcesses::any_program(bool (SimTrainer::*is)() const) const {
  return std::any_of(peers_.begin() + programs_begin(), peers_.end(),
                     [is](const auto& peer) { return peer->life && (*peer->life->trainer.*is)(); });
}

bool SimProcesses::program_died() const {
  return any_died(programs_begin(), static_cast<int>(peers_.size()));
}
bool SimProcesses::any_ps_died() const { return any_died(0, world_.options.shape.ps); }
bool SimProcesses::any_died(int first, int end) const {
  return std::any_of(peers_.begin() + first, peers_.begin() + end,
                     [](const auto& peer) { return peer->died; });
}

bool SimProcesses::shards_serve() const {
  return std::all_of(peers_.begin(), peers_.begin() + world_.options.shape.ps, [](const auto& ps) {
    return ps->life && !ps->life->shards.empty() &&
           std::all_of(ps->life->shards.begin(), ps->life->shards.end(),
                       [](const Shard* shard) { return shard->state() == Shard::State::serving; });
  });
}

bool SimProcesses::is_present(const std::string& container) const {
  if (world_.options.clients > 1) return true;
  if (!last_program().life) return false;
  const auto life = static_cast<int>(last_program().incarnation) - 1;
  return container == own_container(SimTrainer::session_of(0, life));
}

std::map<int64_t, std::string> SimProcesses::looked() const {
  std::map<int64_t, std::string> out = last_program().life->trainer->looked();
  for (const auto& life : dead_)
    if (life->trainer) out.insert(life->trainer->looked().begin(), life->trainer->looked().end());
  return out;
}

std::string SimProcesses::pending() const {
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

}  // namespace troupe::sim
