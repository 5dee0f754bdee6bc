// The actions of a TrainLoop on parameters, each with the event that answers it.
#include "training/loop/train_driver.hpp"

#include "graph/base/mutant.hpp"
#include "graph/parameter_nodes.hpp"
#include "training/group/pushed_parameters.hpp"
#include "training/group/session_parameters.hpp"
#include "training/loop/present_workers.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace troupe {
namespace {

constexpr int64_t kBadLossesPerLine = 100;
constexpr const char* kTrains = "trains";

std::vector<std::string> names_of(const std::map<std::string, Optimizer>& optimizers) {
  std::vector<std::string> out;
  for (const auto& [parameter, optimizer] : optimizers) out.push_back(parameter);
  return out;
}

// The order of writes is in no record.
void want_no_writes(const Graph& graph, const Aggregation& rule) {
  for (const auto& node : graph.nodes())
    if (writes_values(*node))
      throw Error(
          Errc::invalid_argument, "the order of updates under ", to_string(rule),
          " is recorded or repeated, and the ", describe(*node),
          " writes to a parameter, which no record has; train with sync, or without a record");
}

}  // namespace

TrainDriver::TrainDriver(TrainProgram& program, ParameterGroup& group, Post post,
                         CheckpointRequest checkpoints, ShardMaker::FirstValues values, Terms terms)
    : program_(program),
      group_(group),
      post_(std::move(post)),
      checkpoints_(std::move(checkpoints)),
      values_(std::move(values)),
      terms_(std::move(terms)) {
  ParameterGroup::Listener listener;
  listener.lost = [post = post_, this](const std::string& text) {
    post([this, text] { return loop_->shards_lost(text, program_.now()); });
  };
  listener.gone = [post = post_](const std::string& text) {
    post([text] { return TrainActions{{TrainAction::tell, 0, 0, Errc::peer_lost, text}}; });
  };
  listener.worker_gone = [post = post_, this](const std::string& text) {
    post([this, text] {
      if (!has_residuals(terms_.compression) || !begun())
        return TrainActions{{TrainAction::tell, 0, 0, Errc::peer_lost, text}};
      return loop_->shards_lost(
          text +
              "; residuals of gradients are lost with it, so all towers go back to the newest "
              "checkpoint",
          program_.now(), /*residuals=*/true);
    });
  };
  listener.members = [post = post_, this] {
    post([this] {
      look_at_members();
      return TrainActions{};
    });
  };
  listener.closed = [post = post_, this] {
    post([this] {
      return loop_->abandon(Errc::cancelled, "the session was closed while it trained",
                            program_.now());
    });
  };
  group_.listen(std::move(listener));
  take_requests();
}

TrainDriver::~TrainDriver() {
  end_requests();
  group_.listen({});
  if (places_.moves()) group_.master().process().departures().set_taker(nullptr);
}

// The rule at the step of a checkpoint, or at step 0.
Aggregation TrainDriver::rule_of(const std::optional<Manifest>& manifest) const {
  if (begun())
    return loop_->terms().rules.at(
        manifest && !mutant(Mutant::restored_with_first_rule) ? manifest->step : 0);
  if (!terms_.rules.empty()) return terms_.rules.begin()->second;
  return terms_.rule.value_or(manifest ? manifest->rule : Aggregation::sync);
}

void TrainDriver::establish(const std::optional<Manifest>& manifest, ParameterGroup::Done done) {
  ParameterGroup::Start start;
  const Aggregation rule = rule_of(manifest);
  start.rule = rule;
  start.replicas = checkpoints_.replicas;
  if (group_.shared())  // replicas of other sessions count in synchronous updates
    for (int32_t replica : group_.in_graph().replicas())
      if (std::find(start.replicas.begin(), start.replicas.end(), replica) == start.replicas.end())
        start.replicas.push_back(replica);
  std::sort(start.replicas.begin(), start.replicas.end());
  check_rule(rule, start.replicas.size(), names_of(pushed_in(group_.master().graph()).optimizers));
  check(rule);
  start.mode = BeginEpoch::reset;
  start.skips_bad = terms_.skips_bad;
  start.values = values_;
  if (manifest) {
    start.mode = BeginEpoch::restore;
    start.directory = checkpoints_.directory;
    start.manifest = manifest_name(manifest->generation, manifest->step);
    start.next_step = manifest->step;
    start.rate_scale = manifest->rate_scale;
  }
  // A change may have come after the checkpoint of its step.
  if (begun())
    start.rate_scale = loop_->terms().scales.change_at(start.next_step).value_or(start.rate_scale);
  if (goes_on()) start.mode = BeginEpoch::keep;
  start.compression = terms_.compression;
  start.compression.plan.begin = start.next_step;
  start.replay = terms_.replay;
  start.record = terms_.record;
  start.part = ++terms_.part;
  group_.establish(std::move(start), std::move(done));
}

void TrainDriver::check(const Aggregation& rule) const {
  if ((!terms_.record.empty() || !terms_.replay.empty()) && !rule.repeats())
    want_no_writes(group_.master().graph(), rule);
  const bool alone = rule.local() || rule.kind == Aggregation::Kind::sync_backup;
  if (alone && group_.shared())
    throw Error(Errc::invalid_argument, "the rule ", to_string(rule),
                " wants all replicas in one program, and a container is shared by several: a ",
                "replica does not know how far those of others are; train with sync or ssp:S");
  if (alone && has_residuals(terms_.compression))
    throw Error(
        Errc::invalid_argument, "the rule ", to_string(rule),
        " leaves gradients out, or sums them up, and a codec with a residual, topk or sign, "
        "counts on each; train with sync, async or ssp:S, or with the codec int8");
  if (!rule.local()) return;
  want_no_tables(group_.in_graph().made(), to_string(rule).c_str(),
                 "and a round of local steps copies parameters whole; train it with sync, ssp:S "
                 "or async");
  if (const int64_t beyond = terms_.steps % rule.bound; beyond != 0)
    throw Error(Errc::invalid_argument, "the training has ", terms_.steps,
                " steps, and each round of ", to_string(rule), " has ", rule.bound, "; take ",
                terms_.steps - beyond + rule.bound, " steps, or rounds that fit");
  if (terms_.skips_bad)
    throw Error(Errc::invalid_argument, "gradients that are not finite cannot be skipped under ",
                to_string(rule),
                ", as each replica makes its updates alone; let the training "
                "fail or roll back");
}

// A loss after the first epoch is one of this session's own.
bool TrainDriver::goes_on() const { return !begun() && group_.took_over(); }

int64_t TrainDriver::step_of(const std::optional<Manifest>& manifest) const {
  const auto steps = next_steps(manifest);
  return std::min_element(steps.begin(), steps.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->second;
}

// The replicas of a follower, or of a new owner, continue where the shards have them. Under the
// asynchronous rule others are elsewhere, and a push far behind the newest one of its replica is
// refused.
std::map<int64_t, int64_t> TrainDriver::next_steps(const std::optional<Manifest>& manifest) const {
  std::map<int64_t, int64_t> out;
  for (int32_t replica : checkpoints_.replicas) out[replica] = manifest ? manifest->step : 0;
  if (group_.owner() && !goes_on()) return out;
  const std::map<int32_t, int64_t> followed = group_.followed().next_steps;
  for (const auto& [replica, step] : followed)
    if (const auto mine = out.find(replica); mine != out.end()) mine->second = step;
  return out;
}

void TrainDriver::begin(TrainLoop::Plan plan, const std::optional<Manifest>& manifest) {
  if (manifest)
    newest_ = checkpoints_.directory + "/" + manifest_name(manifest->generation, manifest->step);
  plan.replicas.assign(checkpoints_.replicas.begin(), checkpoints_.replicas.end());
  plan.checkpoints = !checkpoints_.directory.empty() && group_.owner();
  plan.follows = !group_.owner();
  if (plan.follows) plan.roll_backs = 0;  // the owner restores
  plan.rule = plan.follows ? group_.followed().rule : rule_of(manifest);
  plan.repeats = !terms_.replay.empty();
  plan.ordered = plan.repeats || !terms_.record.empty();
  loop_ = std::make_unique<TrainLoop>(plan, next_steps(manifest));
  group_.went_on();
  phase_ = kTrains;
  group_.requests().go_on();
  carry_out(loop_->begin(program_.now()));
  for (const auto& [step, rule] : terms_.rules) {
    TermChange change{.rule = rule, .step = step};
    if (step > 0) carry_out(loop_->ask(change, program_.now()));
  }
}

void TrainDriver::carry_out(const TrainActions& actions) {
  for (const TrainAction& action : actions) switch (action.kind) {
      case TrainAction::start:
        phase_ = kTrains;
        carry_out(places_.begin(action.replica, action.step, program_.now()));
        break;
      case TrainAction::cancel:
        cancel();
        break;
      case TrainAction::checkpoint:
        take_checkpoint(action.step);
        break;
      case TrainAction::give_up_checkpoint:
        group_.give_up_checkpoint(action.code, action.text);
        break;
      case TrainAction::pause:
        pause(action.step);
        break;
      case TrainAction::change_terms:
        change_terms(action.step);
        break;
      case TrainAction::restore:
        phase_ = "restores its shards";
        action.code == Errc::bad_data ? begin_epoch() : restore();
        break;
      case TrainAction::ask_epoch:
        ask_epoch();
        break;
      case TrainAction::ask_source:
        ask_source();
        break;
      case TrainAction::finish:
        program_.ended(Errc::ok, {});
        break;
      case TrainAction::fail:
        program_.ended(action.code == Errc::ok ? Errc::internal : action.code, action.text);
        break;
      case TrainAction::tell:
        program_.tell(action.code, action.text);
        break;
    }
}

void TrainDriver::cancel() {
  std::exchange(cancel_, std::make_shared<Cancellation>())->cancel();
  for (const auto& [replica, step] : places_.take_back())
    post_([this, replica = replica, step = step] {
      return loop_->step_failed(replica, step, Errc::cancelled, "it had not begun", program_.now());
    });
}

void TrainDriver::tick_places() { carry_out(places_.tick(program_.now())); }

// Places

void TrainDriver::set_places(ReplicaPlaces places) {
  places_ = std::move(places);
  if (!places_.moves()) return;
  group_.master().process().departures().set_taker([post = post_, this] {
    post([this] {
      look_at_members();
      return TrainActions{};
    });
  });
  post_([this] {  // some may have come or gone meanwhile
    look_at_members();
    return TrainActions{};
  });
}

void TrainDriver::look_at_members() {
  if (places_.moves()) carry_out(see_workers(group_.master(), places_, program_.now()));
}

void TrainDriver::carry_out(const ReplicaActions& actions) {
  take_places(group_.master(), places_, actions);
  for (const ReplicaActions::Move& move : actions.moves) program_.moved(to_string(move));
  for (const auto& [replica, step] : actions.starts) program_.start_step(replica, step);
}

void TrainDriver::end_pause(int64_t step, bool more) {
  const auto told = [post = post_, this, more](Errc code, const std::string& text) {
    post([this, more, code, text] {
      return code == Errc::ok ? loop_->pause_ended(more, program_.now())
                              : loop_->pause_failed(code, text, program_.now());
    });
  };
  if (const std::optional<double> scale = group_.rate_scale().end_pause())
    group_.set_rate_scale(*scale, step, told);
  else
    told(Errc::ok, {});
}

void TrainDriver::change_terms(int64_t step) {
  const auto told = [post = post_, this](Errc code, const std::string& text) {
    post([this, code, text] { return loop_->terms_told(code, text, program_.now()); });
  };
  const std::optional<double> scale = loop_->terms().scales.telling();
  const auto then_scale = [&group = group_, scale, step, told](Errc code, const std::string& text) {
    if (code == Errc::ok && scale)
      group.set_rate_scale(*scale, step, told);
    else
      told(code, text);
  };
  if (const std::optional<Aggregation> rule = loop_->terms().rules.telling())
    group_.change_rule(*rule, step, then_scale);
  else
    then_scale(Errc::ok, {});
}

// A function of the program may take long, and the training thread with it.
void TrainDriver::pause(int64_t step) {
  group_.requests().rest(state(detail::concat("in the pause of step ", step)));
  program_.pause(step);
  group_.requests().go_on();
}

// Requests of other threads

void TrainDriver::take_requests() {
  TrainingRequests::Training training;
  training.change = [post = post_, this,
                     optimizers = pushed_in(group_.master().graph()).optimizers](
                        TermChange change, TrainingRequests::Taken taken) {
    if (change.rule) {
      const Aggregation& rule = *change.rule;
      check_rule(rule, checkpoints_.replicas.size(), names_of(optimizers));
      check(rule);
      if (!terms_.replay.empty()) return taken(Errc::ok, {}, change.step);  // the record has them
      for (const auto& [parameter, optimizer] : optimizers)
        check_rule(rule.of(parameter), optimizer, "parameter " + parameter);
    } else {
      check_rate_scale(optimizers, change.rate_scale, "set_rate_scale()");
      if (!terms_.replay.empty() || !terms_.record.empty())
        throw Error(Errc::invalid_argument,
                    "the order of updates is recorded or repeated, and a record has no rate scale "
                    "that is set while steps run; set it in on_pause, which a replay calls again");
    }
    post([this, change, taken = std::move(taken)]() mutable { return take(change, taken); });
  };
  training.ask = [post = post_, this](TrainingRequests::Then then) {
    post([this, then = std::move(then)] {
      then(state(phase_));
      return TrainActions{};
    });
  };
  group_.requests().begin(std::move(training), state(phase_));
}

TrainActions TrainDriver::take(TermChange change, const TrainingRequests::Taken& taken) {
  const auto beyond = [&] { return terms_.steps > 0 && change.step >= terms_.steps; };
  if (beyond()) {  // it changes nothing
    taken(Errc::invalid_argument,
          detail::concat("step ", change.step, " is past the end of the training, which has ",
                         terms_.steps, " steps, counted from 0"),
          change.step);
    return {};
  }
  TrainActions out = loop_->ask(change, program_.now());
  if (beyond())
    taken(Errc::stale, "the training is in its last steps, so no step is left for the change",
          change.step);
  else
    taken(Errc::ok, {}, change.step);
  return out;
}

void TrainDriver::end_requests() { group_.requests().end(progress()); }

TrainingTold TrainDriver::state(const std::string& phase) const {
  TrainingTold out = progress();
  out.phase = phase;
  const auto named = program_.places();
  const std::map<std::string, std::string> moved = places_.places();
  for (const int32_t replica : checkpoints_.replicas) {
    const auto task = named.find(replica);
    const auto place = task == named.end() ? moved.end() : moved.find(task->second);
    out.replicas.push_back(replica);
    out.tasks.push_back(place != moved.end()  ? place->second
                        : task != named.end() ? task->second
                                              : "");
  }
  program_.add_speed(out);
  return out;
}

TrainingTold TrainDriver::progress() const {
  TrainingTold out;
  out.steps = terms_.steps;
  out.rate_scale = group_.rate_scale().now();
  if (!begun()) return out;
  out.step = loop_->done_steps();
  out.loss = loop_->mean_loss();
  out.recoveries = loop_->recoveries();
  out.rule = to_string(loop_->terms().rules.held());
  for (const auto& [step, rule] : loop_->terms().rules.open_changes()) {
    out.rule_steps.push_back(step);
    out.rules.push_back(to_string(rule));
  }
  for (const auto& [step, scale] : loop_->terms().scales.open_changes()) {
    out.scale_steps.push_back(step);
    out.scales.push_back(scale);
  }
  return out;
}

TrainActions TrainDriver::step_ended(int64_t replica, int64_t step, const RunResult& result) {
  carry_out(places_.ended(replica, program_.now()));
  if (result.code != Errc::ok)
    return loop_->step_failed(replica, step, result.code, result.text, program_.now());
  const Tensor& loss = result.values.at(0);
  const double value = loss.dtype() == DType::f64 ? loss.item<double>() : loss.item<float>();
  if (!std::isfinite(value) && terms_.skips_bad)
    warn_of(replica, step, value);
  else if (!std::isfinite(value))
    return loop_->step_failed(
        replica, step, Errc::bad_data,
        detail::concat("the loss is ", value, "; lower the learning rate, or look for bad records"),
        program_.now());
  return loop_->step_done(replica, step, value, program_.now());
}

// A loss that is not finite is that of data whose gradients are most likely skipped.
void TrainDriver::warn_of(int64_t replica, int64_t step, double loss) {
  if (bad_losses_++ % kBadLossesPerLine != 0) return;
  program_.tell(Errc::io,
                detail::concat("the loss of replica ", replica, " in step ", step, " is ", loss,
                               ", and training goes on: gradients that are not "
                               "finite are skipped; losses like that so far: ",
                               bad_losses_));
}

void TrainDriver::take_checkpoint(int64_t step) {
  CheckpointRequest request = checkpoints_;
  request.step = step;
  group_.take_checkpoint(
      std::move(request),
      [post = post_, this] { post([this] { return loop_->checkpoint_captured(program_.now()); }); },
      [post = post_, this](Errc code, const std::string& text) {
        post([this, code, text] {
          if (code == Errc::ok) newest_ = text;
          return loop_->checkpoint_ended(code, text, program_.now());
        });
      });
}

// A folder that had a checkpoint and has none just now is away, as one that cannot be read is: to
// begin anew would lose the checkpoints in it.
std::optional<Manifest> TrainDriver::find_checkpoint() {
  std::optional<Manifest> found = program_.newest();
  if (!found && !newest_.empty())
    throw Error(Errc::io, "no checkpoint is in ", checkpoints_.directory, ", where ", newest_,
                " was; mount it again, or put a copy there");
  return found;
}

// Links may be the whole loss.
void TrainDriver::restore() {
  group_.look_again(loop_->done_steps(), [post = post_, this](Errc code, const std::string& text) {
    post([this, code, text] {
      if (code == Errc::ok || mutant(Mutant::stale_shards_kept))
        return loop_->shards_kept(program_.now());
      if (code != Errc::stale) return loop_->restore_failed(code, text, program_.now());
      begin_epoch();
      return TrainActions{};
    });
  });
}

void TrainDriver::begin_epoch() {
  std::optional<Manifest> manifest;
  try {
    if (group_.owner()) manifest = find_checkpoint();
  } catch (const Error& e) {
    const Process& process = group_.master().process();
    std::string why = detail::concat(process.task(), ": ", e.what());
    if (std::exchange(unread_, why) != why)
      process.log()->warn("the checkpoints cannot be read: error={}", why);
    post_([this, code = e.code(), text = std::move(why)] {
      return loop_->restore_failed(code, text, program_.now());
    });
    return;
  }
  establish(manifest, [post = post_, this, manifest](Errc code, const std::string& text) {
    post([this, manifest, code, text] {
      if (code != Errc::ok) return loop_->restore_failed(code, text, program_.now());
      return loop_->restored(next_steps(manifest), program_.now());
    });
  });
}

void TrainDriver::ask_epoch() {
  group_.ask_epoch([post = post_, this](bool is_new) {
    post([this, is_new] { return loop_->epoch_found(is_new, program_.now()); });
  });
}

void TrainDriver::ask_source() {
  group_.ask_moved([post = post_, this](int64_t ms) {
    post([this, ms] { return loop_->source_found(TrainLoop::Millis(ms), program_.now()); });
  });
}

}  // namespace troupe
