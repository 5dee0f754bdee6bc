// How each kind of fault strikes, and when it may.
#include "chaos/sim_injector.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace troupe::sim {
namespace {

// From the death at a fail point to the next start.
constexpr int64_t kDeadMs = 300;

// The kind of a message between clients and shards, as frames name it.
template <class M>
uint16_t kind_of(const M& message) {
  MessageKinds kinds;
  add_parameter_messages(kinds);
  return kinds.encode(caf::make_message(message)).kind;
}

}  // namespace

SimInjector::SimInjector(SimWorld& world, SimProcesses& processes, const Faults& faults)
    : world_(world), processes_(processes) {
  world_.net.filter = [this](const SimFrame& frame) { return meet(frame); };
  const auto caller = [this] { return processes_.active ? processes_.active->index : Fault::kAny; };
  SimDisk& disk = world_.disk;
  disk.caller.is_full = [this, caller] {
    return world_.injuries.is_full(caller(), world_.net.now());
  };
  disk.caller.fails = [this, caller] { return world_.injuries.disk_fails(caller()); };
  disk.folders = [this, caller] { return world_.injuries.folder(caller(), world_.net.now()); };
  const auto is_point = [](const Fault& fault) { return fault.kind == FaultKind::point; };
  if (std::any_of(faults.begin(), faults.end(), is_point))
    world_.injuries.watch([this, mine = std::this_thread::get_id()](FailPoint point) {
      return std::this_thread::get_id() == mine ? reached(point) : FailTable::Act{};
    });
}

SimInjector::~SimInjector() {
  world_.injuries.watch(nullptr);
  world_.disk.folders = [] { return SimDisk::Folders::here; };
  world_.disk.caller = {};
  world_.net.filter = nullptr;
}

void SimInjector::strike(const Fault& fault) {
  SimInjuries& injuries = world_.injuries;
  if (fault.is_of_frame()) injuries.note(fault);
  if (fault.is_of_message()) return injuries.order(fault);
  SimPeer* const who = processes_.at(fault.who);
  SimPeer* const other = processes_.at(fault.other);
  const std::string text = to_text(fault, world_.options.shape);
  if (fault.kind == FaultKind::late || !may(fault, who, other))
    return world_.history.note("no fault " + text);
  world_.history.note(detail::concat("fault ", text, " ", who ? who->task : "",
                                     other ? " and " + other->task : ""));
  injuries.note(fault);
  injuries.count(fault.kind);
  const TimePoint until = world_.in_ms(fault.lasts);
  injuries.lasts_until(until);
  switch (fault.kind) {
    case FaultKind::power:
      return lose_power(until, static_cast<uint64_t>(fault.at));
    case FaultKind::kill:
      return processes_.kill(*who, until);
    case FaultKind::gone:
      return processes_.kill(*who, TimePoint::max());
    case FaultKind::leave:
      who->leaves = true;
      return;
    case FaultKind::freeze: {
      const bool frozen = who->thaws_at != TimePoint::max();
      return processes_.freeze(*who, frozen ? std::max(who->thaws_at, until) : until);
    }
    case FaultKind::reset:
      return world_.net.reset(*who->life->host, *other->life->host);
    case FaultKind::cut:
    case FaultKind::cut_from: {
      const bool one_way = fault.kind == FaultKind::cut_from;
      world_.net.cut(who->task, other->task, one_way);
      return injuries.cut({until, fault.who, fault.other, one_way});
    }
    case FaultKind::point:
      return who->life->points.add(fail_orders(fault.order).front());
    case FaultKind::disk_full:
      return injuries.fill_disk(fault, until);
    case FaultKind::disk_error:
      return injuries.fail_disk(fault);
    default:
      return injuries.lose_folder(fault);
  }
}

// A fault that finds nothing to break, or breaks a promise that nobody has made, does not happen.
bool SimInjector::may(const Fault& fault, const SimPeer* who, const SimPeer* other) const {
  const SimClusterOptions& o = world_.options;
  switch (fault.kind) {
    case FaultKind::power: {
      const SimPeer& program = processes_.last_program();
      return o.clients == 1 && program.life && may_die(program) &&
             world_.injuries.folder(Fault::kAny, world_.net.now()) == SimDisk::Folders::here;
    }
    case FaultKind::kill:
      return who && who->life && may_die(*who);
    case FaultKind::gone:
    case FaultKind::leave:
      return who && who->life && !who->leaves && processes_.may_go(*who);
    case FaultKind::freeze:
      return who && who->life;
    // Errors are those of the disk, or of memory.
    case FaultKind::point:
      return who && who->life &&
             (fault.order.find("=error") == std::string::npos ||
              (o.clients == 1 && o.pause_every == 0));
    case FaultKind::reset:
      return who && other && who->life && other->life;
    case FaultKind::cut:
    case FaultKind::cut_from:
      return who && other;
    // A program whose last checkpoint cannot be written ends, and its successor resumes.
    case FaultKind::disk_full:
    case FaultKind::disk_error:
      return o.clients == 1 && pauses_repeat(o);
    // A program that begins anew and finds no checkpoint where some were begins at step 0.
    case FaultKind::blind:
      return world_.progress.calm.begun > 0 && !processes_.program_died();
    default:
      return true;
  }
}

bool SimInjector::may_die(const SimPeer& peer) const {
  const SimClusterOptions& o = world_.options;
  const bool begun = world_.progress.calm.begun > 0;
  // A container is handed on with all of its values, and one that has lost them all is made anew by
  // the first program. A program asks for its rate scale anew.
  if (const SimTrainer* program = peer.life->trainer.get())
    return (o.clients == 1 || (begun && processes_.shards_serve() &&
                               !(program->owner() && processes_.any_ps_died()))) &&
           pauses_repeat(o) && !program->ended() &&
           world_.injuries.folder(peer.index, world_.net.now()) == SimDisk::Folders::here;
  if (peer.index >= o.shape.ps || !begun) return true;
  // Weights that are read after the training come back from a checkpoint alone.
  if (o.clients == 1)
    return !processes_.any_program(&SimTrainer::ended) &&
           (o.checkpoint_every > 0 || !processes_.any_program(&SimTrainer::reading));
  // A program whose last step is done does not come back when its owner restores what it did.
  return processes_.all_programs(&SimTrainer::training) && !world_.progress.last_step;
}

// A checkpoint that the program was told of is there afterwards.
void SimInjector::lose_power(TimePoint back_at, uint64_t seed) {
  const int64_t step = step_in(processes_.last_program().life->trainer->checkpoint());
  for (const auto& peer : processes_.all())
    if (peer->life) processes_.kill(*peer, back_at + std::chrono::milliseconds(peer->index));
  Draw draw(seed);
  world_.disk.crash([&draw](uint64_t n) { return draw.below(n); });
  std::vector<std::string> warnings;
  const std::optional<Manifest> found = find_newest(world_.disk, SimTrainer::kFolder, warnings);
  if ((found ? found->step : -1) < step)
    throw Violation{"I13", detail::concat("the checkpoint of step ", step, " was lost with the ",
                                          "power; ", warnings.empty() ? "" : warnings.back())};
}

// A process has come to a fail point.
FailTable::Act SimInjector::reached(FailPoint point) {
  const SimHost* const host = world_.net.under_way;
  SimPeer* const peer =
      host ? processes_.at(processes_.index_of_host(host->name())) : processes_.active;
  if (!peer || !peer->runs() || (host && peer->life->host != host)) return {};
  const FailTable::Act act = peer->life->points.reached(point);
  const bool dies = act.action == FailAction::die;
  if (act.action == FailAction::none || (dies && !may_die(*peer))) return {};
  world_.history.note(detail::concat("fail point ", kFailPoints[static_cast<size_t>(point)].name,
                                     " ", dies ? "ends " : "is reached by ", peer->task));
  if (act.action == FailAction::sleep) {
    processes_.freeze(*peer, world_.net.now() + act.lasts);
    world_.injuries.lasts_until(peer->thaws_at);
    return {};
  }
  world_.injuries.lasts_until(world_.net.now());
  if (!dies) return act;
  world_.net.kill(*peer->life->host);
  peer->life->dying = true;
  world_.disk.set_caller_gone(true);
  throw SimCrash{};  // the rest of its job is not done
}
void SimInjector::bury() {
  world_.disk.set_caller_gone(false);
  for (const auto& peer : processes_.all())
    if (peer->life && peer->life->dying) processes_.kill(*peer, world_.in_ms(kDeadMs));
}

// The fate of a frame of the data plane. Only messages that are sent again may be lost.
Verdict SimInjector::meet(const SimFrame& frame) {
  const int from = processes_.index_of_host(frame.from), to = processes_.index_of_host(frame.to);
  if (damages(frame, from, to)) return Verdict::pass;
  if (frame.channel != Channel::small || !processes_.all_programs(&SimTrainer::training))
    return Verdict::pass;
  static const uint16_t first = kind_of(Push{}), last = kind_of(Pulled{});
  if (frame.type < first || frame.type > last) return Verdict::pass;
  ++world_.progress.calm.messages;
  const Verdict out = world_.injuries.of_message(from, to);
  static constexpr const char* kNames[] = {"pass", "drop", "twice", "overtake"};
  if (out != Verdict::pass) {
    world_.injuries.lasts_until(world_.net.now());
    world_.history.note(detail::concat(kNames[static_cast<int>(out)], " kind=", frame.type,
                                       " from=", frame.from, " to=", frame.to));
  }
  return out;
}
bool SimInjector::damages(const SimFrame& frame, int from, int to) {
  const bool large = frame.channel == Channel::bulk && frame.flags != 0;
  const std::optional<int64_t> bit = world_.injuries.of_frame(from, to, large);
  if (!bit) return false;
  const auto at = static_cast<size_t>(*bit / 8) % frame.bytes.size();
  world_.history.note(detail::concat("corrupt byte ", at, " kind=", frame.type,
                                     " from=", frame.from, " to=", frame.to));
  frame.bytes[at] ^= static_cast<std::byte>(1 << (*bit % 8));
  world_.injuries.lasts_until(world_.net.now());
  return true;
}

void SimInjector::heal() {
  for (const auto& cut : world_.injuries.healed(world_.net.now())) {
    const std::string &from = processes_.at(cut.from)->task, &to = processes_.at(cut.to)->task;
    world_.history.note(detail::concat("heal ", from, " and ", to));
    if (!world_.options.cuts_stay) world_.net.heal(from, to, cut.one_way);
  }
}

}  // namespace troupe::sim
