// train(): leads a training on the caller's thread, with checkpoints in files and the program's own
// functions.
#include "troupe/training.hpp"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <set>

#include "actors/async/option_range.hpp"
#include "graph/device_name.hpp"
#include "graph/op_properties.hpp"
#include "graph/prune.hpp"
#include "training/checkpoints/checkpoint_folder.hpp"
#include "training/checkpoints/digest.hpp"
#include "training/group/pushed_parameters.hpp"
#include "training/group/session_parameters.hpp"
#include "training/loop/present_workers.hpp"
#include "training/loop/progress_meter.hpp"
#include "training/loop/sources.hpp"
#include "training/loop/train_driver.hpp"
#include "training/loop/train_order.hpp"
#include "training/loop/train_start.hpp"
#include "troupe/op.hpp"

namespace troupe {

namespace {

constexpr std::chrono::milliseconds kTick{50};

using Millis = TrainLoop::Millis;
Millis now_millis() {
  return std::chrono::duration_cast<Millis>(std::chrono::steady_clock::now().time_since_epoch());
}

// Events of other threads for the training thread.
class Events {
 public:
  void post(TrainDriver::Event event) {
    {
      std::lock_guard lock(mutex_);
      events_.push_back(std::move(event));
    }
    ready_.notify_one();
  }
  // The next event, or null after a tick.
  TrainDriver::Event next() {
    std::unique_lock lock(mutex_);
    if (!ready_.wait_for(lock, kTick, [&] { return !events_.empty(); })) return nullptr;
    auto event = std::move(events_.front());
    events_.pop_front();
    return event;
  }

 private:
  std::mutex mutex_;  // guards the rest
  std::condition_variable ready_;
  std::deque<TrainDriver::Event> events_;  // a few per replica
};

// Checks that loss and update are set, and that the loss has a value.
void check_outputs(const Tower& tower) {
  for (const auto& [output, what] : {std::pair(tower.loss, "loss"), {tower.update, "update"}})
    if (!output.defined())
      throw Error(Errc::invalid_argument, "Tower::", what, " of replica ", tower.replica,
                  " is empty");
  if (tower.loss.graph->node(tower.loss.node).outputs.empty())
    throw Error(Errc::invalid_argument, "the loss of replica ", tower.replica, ", ",
                tower.loss.name(), ", has no value; are Tower::loss and Tower::update exchanged?");
}

// A shard takes one gradient of a replica in a step: two towers that push for one would wait for
// each other, or lose half of their gradients.
void want_own_pushes(const Tower& tower, const std::set<int64_t>& replicas) {
  const Graph& graph = *tower.loss.graph;
  for (const int32_t id : prune(graph, {tower.loss, tower.update}, tower.feeds)) {
    const Node& node = graph.node(id);
    if (properties_of(node).parameter.kind != ParameterUse::pushes) continue;
    const std::optional<int64_t> other = own_replica(node);
    if (other && *other != tower.replica && replicas.count(*other))
      throw Error(Errc::invalid_argument, "the tower of replica ", tower.replica, " pushes by ",
                  describe(node), " for replica ", *other,
                  ", which has a tower of its own; call parameter() or table_parameter() within ",
                  "each tower's Graph::scope({.replica = ...}), under one name");
  }
}

// A tower with its prepared call.
struct PreparedTower {
  const Tower* tower;
  Callable step;
};

// The dtype in which the towers compute their products, bodies of functions included: the 16-bit
// dtype if there is one, as the rest is then in f32. Several are joined by "+"; none: "f32".
std::string compute_of(const std::map<int64_t, PreparedTower>& towers) {
  std::set<std::string> wide, half;
  for (const auto& [replica, prepared] : towers) {
    const Tower& tower = *prepared.tower;
    const Graph& graph = *tower.loss.graph;
    for (const int32_t id : prune(graph, {tower.loss, tower.update}, tower.feeds))
      if (const Node& node = graph.node(id); node.op->precision == Precision::low)
        for (const TensorType& type : node.outputs)
          (is_half(type.dtype) ? half : wide).insert(to_string(type.dtype));
  }
  std::string out;
  for (const std::string& dtype : half.empty() ? wide : half)
    out += (out.empty() ? "" : "+") + dtype;
  return out.empty() ? "f32" : out;
}

Compression compression_of(const TrainOptions& options) {
  return {
      options.compression.gradients,
      options.compression.values,
      options.data_seed,
      {.every = options.checkpoint_every, .pauses = options.pause_every, .steps = options.steps}};
}

void check_compression(const TrainOptions& options, const std::vector<ParameterSpec>& all,
                       bool shared) {
  std::vector<CodedParameter> parameters;
  for (const ParameterSpec& p : all)
    parameters.push_back({p.name, p.dtype, p.optimizer.has_value()});
  check(compression_of(options), parameters);
  if (!has_residuals(compression_of(options))) return;
  constexpr const char* kCodec =
      "a codec with a residual, topk or sign, in TrainOptions::compression.gradients wants ";
  if (options.steps == 0)
    throw Error(Errc::invalid_argument, kCodec,
                "TrainOptions::steps, as the last step pushes what is left");
  if (options.bad_gradients == TrainOptions::BadGradients::skip)
    throw Error(Errc::invalid_argument, kCodec,
                "bad_gradients fail or roll_back: a gradient that is skipped would take the "
                "residual of its step with it");
  if (shared)
    throw Error(Errc::invalid_argument, kCodec,
                "parameters of one program: another one that shares the container takes "
                "checkpoints at steps of its own");
}

// Called before anything is prepared. Throws: Error(invalid_argument) naming the option.
void check_numbers(const std::vector<Tower>& towers, const TrainOptions& o) {
  want_least("TrainOptions::examples_per_step", o.examples_per_step, 0, "0 (not known) or more");
  want_least("TrainOptions::checkpoint_every", o.checkpoint_every, 0,
             "0 (only at the end) or more steps");
  want_least("TrainOptions::checkpoint_keep", o.checkpoint_keep, 1, "at least 1 checkpoint");
  want_least("TrainOptions::roll_backs_max", o.roll_backs_max, 0, "0 or more");
  want_least("TrainOptions::move_after", o.move_after.count(), 0, "0 ms (never) or more");
  want_least("TrainOptions::patience", o.patience.count(), 0, "0 ms or more");
  for (const Tower& tower : towers)
    want_range("Tower::replica", tower.replica, 0, INT32_MAX, "a number from 0");
}

class Trainer final : public TrainProgram {
 public:
  Trainer(Session& session, const std::vector<Tower>& towers, const TrainOptions& options)
      : session_(session),
        options_(options),
        group_(session),
        claim_(group_->claim_training()),
        events_(std::make_shared<Events>()),
        program_(options, [this] { end_for_program(); }),
        start_(session, options, *group_, program_) {
    if (!claim_)
      throw Error(Errc::invalid_argument,
                  "this session is being trained already: a training steps all of its parameters; "
                  "wait until it has ended, or train in another session");
    pushed_in(group_->master().graph());  // throws for a parameter with two optimizers
    std::vector<const Tower*> whole;
    for (const Tower& tower : towers)
      if (tower.loss.defined() && tower.update.defined()) whole.push_back(&tower);
    // Patience must not end before the move that would make it needless.
    const auto move_after = std::min(options.move_after, options.patience / 2);
    places_ = first_places(group_->master(), stays(), whole, move_after, now_millis(),
                           [this](const std::string& text) { moved(text); });
    std::set<int64_t> replicas;
    for (const Tower& tower : towers) replicas.insert(tower.replica);
    for (const Tower& tower : towers) {
      if (towers_.count(tower.replica))
        throw Error(Errc::invalid_argument, "two towers have replica ", tower.replica,
                    "; give each its own with Graph::scope({.replica = ...})");
      check_outputs(tower);
      if (!is_wide_float(tower.loss.dtype()) || tower.loss.shape().ndim() != 0)
        throw Error(Errc::invalid_argument, "the loss of replica ", tower.replica, ", ",
                    tower.loss.name(), ", is ", tower.loss.dtype(), tower.loss.shape(),
                    "; wants one f32 or f64, as reduce_mean() makes it");
      if (!tower.feeds.empty() && !tower.batch)
        throw Error(Errc::invalid_argument, "Tower::batch of replica ", tower.replica,
                    " is empty: give a function that makes the values of its ", tower.feeds.size(),
                    " feeds for a step");
      want_own_pushes(tower, replicas);
      start_.patiently([&] {
        towers_.emplace(
            tower.replica,
            PreparedTower{&tower, session.prepare({tower.loss, tower.update}, tower.feeds)});
      });
    }
    if (towers_.empty()) throw Error(Errc::invalid_argument, "train() was given no towers");
    std::vector<const Tower*> in_order;
    for (const auto& [replica, prepared] : towers_) in_order.push_back(prepared.tower);
    sources_ = sources_of(in_order);
    if (options.steps < 0 || (options.steps == 0 && !sources_.ends))
      throw Error(Errc::invalid_argument, "TrainOptions::steps is ", options.steps,
                  "; say how many steps each tower does; 0, until the data end, is for towers of a "
                  "source that ends with repeat()");
    if (options.pause_every < 0 || (options.pause_every > 0 && !options.on_pause))
      throw Error(Errc::invalid_argument, "TrainOptions::pause_every is ", options.pause_every,
                  options.on_pause ? "; wants at least 0" : ", and on_pause is empty");
    if (options.bad_gradients == TrainOptions::BadGradients::roll_back &&
        options.checkpoint_dir.empty())
      throw Error(Errc::invalid_argument,
                  "TrainOptions::bad_gradients is roll_back, which wants a ",
                  "checkpoint_dir to go back to");
    if (options.resume && options.checkpoint_dir.empty())
      throw Error(Errc::invalid_argument, "resume wants a checkpoint_dir");
    if (group_->in_graph().made().empty())
      throw Error(Errc::invalid_argument,
                  "the towers train no parameter; make some with parameter()");
    check_compression(options, group_->in_graph().made(), group_->shared());
    check_order(options, group_->shared());
  }

  TrainResult run();

 private:
  std::optional<Manifest> newest() override { return start_.find_newest().manifest; }
  TrainLoop::Millis now() const override { return now_millis(); }
  void start_step(int64_t replica, int64_t step) override;
  void pause(int64_t step) override;
  void ended(Errc code, const std::string& text) override;
  void tell(Errc about, const std::string& text) override;
  void moved(const std::string& text) override { program_.tell(TrainEvent::moved, text); }
  std::map<int32_t, std::string> places() const override;
  void add_speed(TrainingTold& state) const override;

  std::string stays() const;  // why replicas do not move; empty: they may
  bool elsewhere() const;     // true if another process holds a slice
  void lead(const std::optional<Manifest>& manifest);
  void end_compression();
  std::string save_into(const std::string& folder, int64_t step);
  // Why steps of this program are in no checkpoint; empty: they are, or none was wanted.
  std::string unsaved();
  void progress();
  // A function of the program threw: the training ends, and train() throws it again when all towers
  // have stopped.
  void end_for_program();
  std::vector<std::pair<std::string, Tensor>> final_values(int64_t step);

  Session& session_;
  const TrainOptions& options_;
  const ParameterVisit group_;
  const std::shared_ptr<const void> claim_;
  const std::shared_ptr<Events> events_;
  ProgramCalls program_;
  TrainStart start_;
  std::map<int64_t, PreparedTower> towers_;  // by replica
  SourceUse sources_;
  ReplicaPlaces places_;                // until the first step
  std::optional<Error> failure_;        // of the training
  std::optional<TrainDriver> driver_;   // from run() on
  std::optional<ProgressMeter> meter_;  // from the first step on
};

std::string Trainer::stays() const {
  if (group_->shared()) return "the container that several programs share";
  if (has_residuals(compression_of(options_)))
    return "a codec with a residual, topk or sign, whose state is in its process";
  return options_.move_after <= std::chrono::milliseconds(0) ? "TrainOptions::move_after of 0" : "";
}

// Where the losses are placed.
std::map<int32_t, std::string> Trainer::places() const {
  Process& process = group_->master().process();
  std::map<int32_t, std::string> out;
  for (const auto& [replica, prepared] : towers_) {
    const Output& loss = prepared.tower->loss;
    const DeviceName name = parse_device_name(loss.graph->node(loss.node).device);
    std::string& task = out[static_cast<int32_t>(replica)];
    if (!process.mesh())
      task = process.task();
    else if (name.job && name.task)
      task = to_string(DeviceName{.job = name.job, .task = name.task});
  }
  return out;
}

void Trainer::add_speed(TrainingTold& state) const {
  if (!meter_) return;
  const TrainProgress progress =
      meter_->at(state.step, state.loss, ProgressMeter::Time::clock::now());
  state.examples_per_second = progress.examples_per_second;
  state.remaining_s = progress.remaining.count();
}

bool Trainer::elsewhere() const {
  Process& process = group_->master().process();
  if (!process.mesh()) return false;
  const std::vector<ParameterSlice> slices = parameter_slices(session_);
  return std::any_of(slices.begin(), slices.end(),
                     [&](const ParameterSlice& s) { return s.task != process.task(); });
}

TrainResult Trainer::run() {
  CheckpointRequest checkpoints;
  checkpoints.keep = options_.checkpoint_keep;
  checkpoints.data_seed = options_.data_seed;
  checkpoints.compute = compute_of(towers_);
  checkpoints.sources = sources_.texts;
  for (const auto& [replica, prepared] : towers_)
    checkpoints.replicas.push_back(static_cast<int32_t>(replica));
  if (start_.folder()) checkpoints.directory = start_.folder()->path();
  const std::optional<Manifest> manifest = start_.begin_with(checkpoints);
  ShardMaker::FirstValues values;
  if (!manifest && !options_.anew) values = start_.present_values();
  TrainDriver::Terms terms{.rule = options_.rule,
                           .skips_bad = options_.bad_gradients == TrainOptions::BadGradients::skip,
                           .compression = compression_of(options_),
                           .steps = options_.steps};
  set_order(options_, checkpoints, manifest ? manifest->step : 0, terms);
  driver_.emplace(
      *this, *group_,
      [events = events_](TrainDriver::Event event) { events->post(std::move(event)); },
      std::move(checkpoints), std::move(values), std::move(terms));
  // The parameters of a predecessor that has died fill its nodes until its lease is over.
  start_.patiently(
      [&] {
        group_->wait(
            [&](ParameterGroup::Done done) { driver_->establish(manifest, std::move(done)); });
      },
      /*full=*/options_.resume);
  const int64_t first = driver_->step_of(manifest);
  if (group_->took_over())
    program_.tell(TrainEvent::resumed,
                  detail::concat("resumed at step ", first,
                                 " from the values in the container, whose owner has "
                                 "gone"));
  else if (manifest)
    program_.tell(
        TrainEvent::resumed,
        detail::concat("resumed at step ", first, " from ",
                       manifest_name(manifest->generation, manifest->step),
                       options_.rule ? "" : ", with the rule " + to_string(manifest->rule),
                       manifest->rate_scale == 1
                           ? ""
                           : detail::concat(", at a rate scale of ", manifest->rate_scale)));
  if (!start_.folder() && group_->owner() && elsewhere())
    program_.tell(
        TrainEvent::warning,
        "no checkpoint_dir is given, and other processes hold parameters: if one of them dies, "
        "training begins anew at step 0");
  program_.rethrow();
  meter_.emplace(options_.steps, options_.examples_per_step * static_cast<int64_t>(towers_.size()),
                 first, ProgressMeter::Time::clock::now());
  lead(manifest);
  end_compression();
  program_.rethrow();
  if (failure_) throw *failure_;
  TrainResult result;
  const TrainLoop& loop = driver_->loop();
  result.steps = loop.done_steps();
  result.resumed_at = first;
  result.loss = loop.mean_loss();
  result.seconds = meter_->elapsed(ProgressMeter::Time::clock::now()).count();
  result.recoveries = loop.recoveries();
  result.lost_updates = loop.lost_updates();
  result.checkpoint = driver_->newest();
  result.unsaved = unsaved();
  result.weights_sha256 = weights_sha256(final_values(result.steps));
  if (const std::string why = end_record(options_, result.steps, result.weights_sha256);
      !why.empty())
    program_.tell(TrainEvent::warning, why);
  if (const std::string why = check_repeated(options_, result.weights_sha256); !why.empty())
    program_.tell(TrainEvent::warning, why);
  program_.rethrow();
  return result;
}

// Asynchronous replicas go on when the owner, which takes the checkpoints, has ended its training.
std::string Trainer::unsaved() {
  const TrainLoop& loop = driver_->loop();
  if (!start_.folder() || group_->owner() || loop.terms().rules.at(loop.done_steps()).by_steps())
    return loop.unsaved();
  const auto owner = std::make_shared<ShardMaker::OwnerSeen>();
  std::string why = "the program that takes the checkpoints of the container trains no more";
  try {
    group_->wait([&](ParameterGroup::Done done) { group_->ask_owner(owner, std::move(done)); });
    if (owner->trains) return "";
  } catch (const Error& e) {
    why = detail::concat("the owner of the container does not show: ", e.what());
  }
  why +=
      "; its last checkpoint may lack steps of this program: save the weights, or train on "
      "once that program has ended, to take its place";
  program_.tell(TrainEvent::warning, why);
  return why;
}

// Codecs are of the training alone.
void Trainer::end_compression() {
  const Compression compression = compression_of(options_);
  if (!compression.used()) return;
  const TrainLoop& loop = driver_->loop();
  if (!failure_ && has_residuals(compression) && !compression.plan.flushes(loop.done_steps() - 1))
    program_.tell(TrainEvent::warning,
                  detail::concat("training ends at step ", loop.done_steps(),
                                 ", before the step that pushes what codecs have left, so the "
                                 "weights lack the residuals of all replicas; set "
                                 "TrainOptions::steps to the steps that the data have"));
  try {
    group_->wait([&](ParameterGroup::Done done) { group_->train({}, std::move(done)); });
  } catch (const Error&) {  // the session is being closed
  }
}

// Carries out all actions, from the first to the last; no tower runs afterwards.
void Trainer::lead(const std::optional<Manifest>& manifest) {
  TrainLoop::Plan plan;
  if (options_.steps > 0) plan.steps = options_.steps;
  plan.checkpoint_every = options_.checkpoint_every;
  plan.pause_every = options_.pause_every;
  plan.patience = options_.patience;
  if (options_.bad_gradients == TrainOptions::BadGradients::roll_back)
    plan.roll_backs = options_.roll_backs_max;
  plan.reads = !sources_.texts.empty();
  driver_->set_places(std::move(places_));
  driver_->begin(plan, manifest);
  while (!driver_->loop().ended()) {
    auto event = events_->next();
    if (!event) driver_->tick_places();
    driver_->carry_out(event ? event() : driver_->loop().tick(now_millis()));
    progress();
  }
  driver_->end_requests();
}

std::vector<std::pair<std::string, Tensor>> Trainer::final_values(int64_t step) {
  try {
    const ParameterVisit group(session_);
    const auto values = pull_values(group, without_tables(group));
    return {values.begin(), values.end()};
  } catch (const Error& e) {
    // A shard died after the last step; its values are in the checkpoint of that step.
    const std::optional<Manifest> last =
        e.code() == Errc::peer_lost || e.code() == Errc::stale ? newest() : std::nullopt;
    if (!last || last->step != step) throw;
    program_.tell(TrainEvent::warning,
                  detail::concat("the final weights are read from the checkpoint: ", e.what()));
    return read_parameters(real_disk(), start_.folder()->path(), *last);
  }
}

void Trainer::ended(Errc code, const std::string& text) {
  if (code != Errc::ok) failure_.emplace(code, text);
}

void Trainer::tell(Errc about, const std::string& text) {
  program_.tell(about == Errc::ok                                 ? TrainEvent::resumed
                : about == Errc::peer_lost                        ? TrainEvent::lost
                : about == Errc::io || about == Errc::end_of_data ? TrainEvent::warning
                                                                  : TrainEvent::recovering,
                text);
}

void Trainer::end_for_program() {
  events_->post([this] {
    return driver_->loop().abandon(Errc::cancelled, "a function of the program threw",
                                   now_millis());
  });
}

void Trainer::start_step(int64_t replica, int64_t step) {
  const PreparedTower& prepared = towers_.at(replica);
  RunOptions run;
  run.step = step;
  run.timeout = options_.patience;  // ends a step that waits for a lost worker, naming it
  const auto& cancel = driver_->cancellation();
  run.cancel = cancel.get();
  const auto report = [events = events_, this, replica, step, keep = cancel](RunResult result) {
    events->post([this, replica, step, result = std::move(result)] {
      return driver_->step_ended(replica, step, result);
    });
  };
  std::vector<Tensor> feeds;
  if (prepared.tower->batch) program_.call([&] { feeds = prepared.tower->batch(step); });
  if (program_.threw()) return report({Errc::cancelled, "a function of the program threw", {}});
  try {
    prepared.step.start(feeds, run, report);
  } catch (const Error& e) {
    report({e.code(), e.what(), {}});
  }
}

// Runs on the training thread, which is free: the loop waits for the answer, and no tower runs.
void Trainer::pause(int64_t step) {
  progress();
  bool more = true;
  std::optional<Error> lost;
  group_->rate_scale().begin_pause(step);
  program_.call([&] {
    try {
      more = options_.on_pause(
          {step, driver_->loop().mean_loss(),
           [this, step](const std::string& folder) { return save_into(folder, step); }});
    } catch (const Error& e) {
      if (!TrainLoop::passes(e.code())) throw;
      lost = e;
    }
  });
  if (!lost && !program_.threw()) return driver_->end_pause(step, more);
  group_->rate_scale().drop_pause();
  events_->post([this, more, lost] {
    TrainLoop& loop = driver_->loop();
    return lost ? loop.pause_failed(lost->code(), lost->what(), now_millis())
                : loop.pause_ended(more, now_millis());
  });
}

std::string Trainer::save_into(const std::string& dir, int64_t step) {
  if (!group_->owner())
    throw Error(Errc::invalid_argument,
                "the parameters are another session's, which alone takes checkpoints");
  CheckpointFolder folder(dir);
  if (folder.path() == driver_->checkpoints().directory)
    throw Error(Errc::invalid_argument, "a pause's checkpoint wants a folder of its own, got ", dir,
                ", which is the training's checkpoint_dir");
  CheckpointRequest request = driver_->checkpoints();
  request.directory = folder.path();
  request.lock = folder.claim();
  request.step = step;
  request.keep = 1;
  return group_->save(std::move(request));
}

void Trainer::progress() {
  if (!options_.on_progress) return;
  const TrainLoop& loop = driver_->loop();
  const auto loss = [&loop] { return loop.mean_loss(); };
  if (const auto p = meter_->next(loop.done_steps(), loss, ProgressMeter::Time::clock::now()))
    program_.call([&] { options_.on_progress(*p); });
}

}  // namespace

TrainResult train(Session& session, const std::vector<Tower>& towers, const TrainOptions& options) {
  check_numbers(towers, options);
  return Trainer(session, towers, options).run();
}

}  // namespace troupe
