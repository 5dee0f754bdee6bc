// The events of a simulated cluster, and the invariants that are checked after each.
#include "chaos/sim_cluster.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace troupe::sim {
namespace {

constexpr std::chrono::hours kTimeMax{2};
// From the last start of a process to the first step: no deadline of a request is waited for.
constexpr std::chrono::seconds kStartMax{5};
// From the end of the last fault to a step that ends well, or to the first step.
constexpr std::chrono::seconds kProgressMax{30};
// From the end of a program that has given up to its next start.
constexpr int64_t kGaveUpMs = 500;

}  // namespace

void SimOutcome::add(const SimOutcome& other) {
  acknowledged += other.acknowledged;
  lost += other.lost;
  us += other.us;
  for (const auto& [kind, n] : other.faults) faults[kind] += n;
}

SimCluster::SimCluster(const SimClusterOptions& options, uint64_t seed, const Faults& faults,
                       const HashChain* golden, History& history)
    : world_(options, seed, faults, golden, history),
      processes_(world_, faults),
      injector_(world_, processes_, faults),
      draw_(seed) {
  history.note(detail::concat(describe(options), " faults: ", to_text(faults, options.shape)));
  if (options.watch) options.watch->begins();
  history.set_clock([this] { return world_.net.now().time_since_epoch().count() / 1000; });
  processes_.start_all();
}

void SimCluster::run() {
  const SimClusterOptions& o = world_.options;
  const std::chrono::milliseconds in_all(2 * o.pace_ms * o.steps);
  while (!processes_.all_programs(&SimTrainer::ended)) {
    if (++events_ > o.events_max || world_.net.now() > TimePoint{} + kTimeMax + in_all)
      throw Violation{"I21", "no end; " + processes_.pending()};
    if (world_.history.is_over()) throw Violation{"until", processes_.pending()};
    step();
    check();
    check_progress();
  }
  world_.progress.calm.ended = world_.history.events();
  check_end();
}

SimOutcome SimCluster::outcome() const {
  return {.acknowledged = world_.ledger.acknowledgements(),
          .lost = world_.ledger.lost(),
          .us = world_.history.us(),
          .faults = world_.injuries.happened()};
}

// Events

void SimCluster::step() {
  try {
    next_event();
  } catch (const SimCrash&) {  // of a process that has died at a fail point
  }
  injector_.bury();
}

void SimCluster::next_event() {
  SimNet& net = world_.net;
  if (const Fault* fault = world_.injuries.due(world_.history.events()))
    return injector_.strike(*fault);
  for (const auto& peer : processes_.all())
    if (peer->program() && peer->program()->gave_up())
      return processes_.kill(*peer, world_.in_ms(kGaveUpMs));
  std::vector<SimPeer*> ready, hearing;
  for (const auto& peer : processes_.all()) {
    if (!peer->runs()) continue;
    if (peer->life->jobs->has_job()) ready.push_back(peer.get());
    if (peer->program() && peer->program()->has_event()) hearing.push_back(peer.get());
  }
  const TimePoint due = net.next_due();
  const TimePoint timer =
      std::min({tick_at_, world_.injuries.next_heal(), processes_.next_timer()});
  // Jobs take time: what the network does meanwhile may come before them.
  const bool network = due <= timer && due <= net.now() + std::chrono::microseconds(50);
  const size_t choices = ready.size() + (network ? 1 : 0) + hearing.size();
  if (choices == 0) {
    if (due <= timer) return step_network();
    net.advance_to(timer);
    return pass_time();
  }
  const size_t choice = draw_.below(choices);
  if (choice < ready.size()) return run_job(*ready[choice]);
  if (network && choice == ready.size()) return step_network();
  act_as(*hearing[choice - ready.size() - (network ? 1 : 0)])->next_event();
}

void SimCluster::step_network() {
  world_.net.step();
  world_.history.note("network");
  processes_.settle();
  pass_time();
}

void SimCluster::run_job(SimPeer& peer) {
  auto& jobs = peer.life->jobs->jobs;
  std::swap(jobs.front(), jobs[draw_.below(jobs.size())]);
  world_.history.note(detail::concat("job ", peer.task, " of ", jobs.size()));
  processes_.active = &peer;
  const auto job = jobs.front();
  try {
    peer.life->jobs->run_once();
  } catch (const SimCrash&) {
    caf::intrusive_ptr_release(job);  // as the scheduler does after a job
    throw;
  }
  processes_.settle();
}

void SimCluster::pass_time() {
  processes_.pass_time();
  injector_.heal();
  if (world_.net.now() >= tick_at_) {
    tick_at_ = world_.net.now() + std::chrono::milliseconds(OpenSteps::kTickMs);
    for (const auto& peer : processes_.all())
      if (SimTrainer* program = act_as(*peer)) program->tick();
  }
  for (const auto& peer : processes_.all())
    if (SimTrainer* program = act_as(*peer)) program->pass_time();
  processes_.settle();
}

// The program of a peer, which is to do something now; null: there is none, or it is frozen.
SimTrainer* SimCluster::act_as(SimPeer& peer) {
  if (peer.program()) processes_.active = &peer;
  return peer.program();
}

// Checks

void SimCluster::check() {
  ShardLedger& ledger = world_.ledger;
  for (const auto& peer : processes_.all())
    if (peer->life)
      for (const Shard* shard : peer->life->shards) ledger.look(*shard);
  ledger.check();
  for (const auto& peer : processes_.all())
    if (const SimTrainer* program = peer->program())
      if (const std::string now = program->checkpoint(); !now.empty() && now != peer->told)
        check_told(*peer, now);
  const bool anew = world_.options.clients == 1 && processes_.program_died();
  if (ledger.lost() > 0 && !processes_.ps_died() && !anew &&
      !goes_back_with_workers(world_.options))
    throw Violation{"I2", detail::concat(ledger.lost(), " acknowledged gradients are lost, and ",
                                         "no ps has died")};
}

// A program is told of the checkpoint `path`, which nobody may ever load.
void SimCluster::check_told(SimPeer& peer, const std::string& path) {
  const std::string before = std::exchange(peer.told, path);
  if (replicas_keep_step(world_.options) && step_in(path) < step_in(before))
    throw Violation{"I13", detail::concat(path, " is restored, and there was ", before)};
  const std::string folder = SimTrainer::kFolder;
  SimDisk& disk = world_.disk;
  const ShardLedger& ledger = world_.ledger;
  std::vector<Slice> slices;
  for (const auto& [id, slice] : ledger.seen()) slices.push_back(slice);
  const auto as_the_reader_sees =
      std::exchange(disk.folders, [] { return SimDisk::Folders::here; });
  try {
    const Manifest manifest = read_manifest(disk, folder, path.substr(folder.size() + 1));
    if (world_.options.damaged_files) disk.bytes(folder + "/" + manifest.files[0].name).back() ^= 1;
    ledger.check_checkpoint(manifest.step, read_slices(disk, folder, manifest, slices));
  } catch (const Error& e) {
    throw Violation{"I14", detail::concat("a program was told of ", path, "; ", e.what())};
  }
  disk.folders = as_the_reader_sees;
}

void SimCluster::check_progress() {
  SimProgress& progress = world_.progress;
  const bool starting = processes_.all_programs(&SimTrainer::starting);
  if (progress.calm.prepared == 0 && starting) progress.calm.prepared = world_.history.events();
  const TimePoint now = world_.net.now(), well_at = world_.injuries.well_at();
  // A container is handed on some seconds after the death of its owner.
  const bool waits = world_.options.clients > 1 && processes_.program_died();
  if (starting && !waits && world_.injuries.only_kills() && now - well_at > kStartMax)
    throw Violation{"I16",
                    "all processes are there, and no training begins; " + processes_.pending()};
  const ns still = now - std::max(well_at, progress.gets_on_at);
  world_.injuries.stood_still(still);
  if (still > kProgressMax)
    throw Violation{"I16",
                    "no fault is left, and the training does not get on; " + processes_.pending()};
}

void SimCluster::check_end() {
  ShardLedger& ledger = world_.ledger;
  // Messages still under way may arrive: doubled messages, answers to those that were given up.
  world_.injuries.end();
  for (const TimePoint until = world_.net.now() + std::chrono::seconds(20);
       world_.net.now() < until;) {
    step();
    check();
  }
  std::set<uint32_t> slices;
  for (const auto& peer : processes_.all())
    if (peer->life) check_end_of(*peer, slices);
  if (slices.size() != ledger.seen().size())
    throw Violation{"I21", detail::concat("of ", ledger.seen().size(), " slices ", slices.size(),
                                          " are there at the end")};
  for (const auto& peer : processes_.all()) {
    if (!peer->life || !peer->life->trainer) continue;
    SimTrainer& program = *peer->life->trainer;
    if (program.steps().size() != 0) throw Violation{"I21", program.pending()};
    if (world_.options.rule.repeats() && program.weights() != weights())
      throw Violation{"I5", "the programs have read other weights"};
  }
  ledger.check_end();
  world_.history.note(
      detail::concat("end acknowledged=", ledger.acknowledgements(), " lost=", ledger.lost(),
                     " still_ms=", world_.injuries.still_ms(), " trace=", world_.net.trace()));
}

// Adds its slices, which no process before it has.
void SimCluster::check_end_of(const SimPeer& peer, std::set<uint32_t>& slices) {
  const SimLife& life = *peer.life;
  if (peer.index >= world_.options.shape.ps && !life.shards.empty())
    throw Violation{"I21", peer.task + " has shards, and is no ps"};
  for (const std::string& container : life.made)
    if (!processes_.is_present(container))
      throw Violation{"I19", peer.task + " keeps the shards of a dead program, " + container};
  for (const Shard* shard : life.shards) {
    world_.ledger.check_end(*shard);
    for (const Slice& slice : shard->slices())
      if (!slices.insert(slice.id).second)
        throw Violation{"I21", detail::concat("two shards have slice ", slice.id)};
  }
  const std::string open = life.process->services().waiting_for();
  if (!open.empty()) throw Violation{"I21", detail::concat(peer.task, ": ", open)};
}

}  // namespace troupe::sim
