// fit() and evaluate(): data epochs are pauses of train().
#include "troupe/training.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "actors/async/option_range.hpp"
#include "actors/master/session_state.hpp"
#include "data/source/fields.hpp"
#include "data/source/source_steps.hpp"
#include "graph/op_properties.hpp"
#include "graph/prune.hpp"
#include "training/group/pushed_parameters.hpp"
#include "training/loop/fit_history.hpp"

namespace troupe {
namespace {

template <class... Parts>
Error refuse(const char* function, const Parts&... parts) {
  return Error(Errc::invalid_argument, function, ": ", detail::concat(parts...));
}

void check_feeds(const Evaluation& e) {
  if (e.feeds.empty() || e.feeds.size() > 2)
    throw refuse("evaluate",
                 "Evaluation::feeds are of features, and of labels if there is a second one; got ",
                 e.feeds.size());
}

void check(const Evaluation& e) {
  if (e.fetches.empty() || e.metrics.empty())
    throw refuse("evaluate", "Evaluation wants something to fetch, and metrics of it");
  if (e.batch_size < 1)
    throw refuse("evaluate", "Evaluation::batch_size is ", e.batch_size, "; wants at least 1");
  std::set<std::string> names;
  for (const Metric& m : e.metrics) {
    if (!m.begin)
      throw refuse("evaluate", "metric \"", m.name,
                   "\" has no function `begin`; metric() makes one");
    if (!names.insert(m.name).second)
      throw refuse("evaluate", "two metrics are called \"", m.name, "\"; name one of them anew");
  }
}

void check(const char* function, const Dataset& data) {
  const auto rows = [](const Tensor& x) {
    return x.defined() && x.ndim() > 0 ? x.dim(0) : int64_t{-1};
  };
  const auto told = [](const Tensor& x) {
    return x.defined() ? to_string(x.shape()) : std::string("none");
  };
  if (rows(data.features) < 0 || rows(data.features) != rows(data.labels))
    throw refuse(function, "wants a data set with a label for each record, got features ",
                 told(data.features), " and labels ", told(data.labels));
}

// The records of an evaluation, batch by batch.
struct Fed {
  std::vector<Tensor> feeds;
  Batch batch;  // as metrics see it
};
using NextBatch = std::function<std::optional<Fed>()>;

NextBatch batches_of(const Evaluation& e, const Dataset& data) {
  return [&e, &data, begin = int64_t{0}]() mutable -> std::optional<Fed> {
    if (begin >= data.size()) return std::nullopt;
    const Dataset rows = data.rows(begin, std::min(data.size(), begin + e.batch_size));
    Fed out{{rows.features}, {rows.features, rows.labels, {}}};
    if (e.feeds.size() > 1) out.feeds.push_back(rows.labels);
    for (int64_t i = 0; i < rows.size(); ++i) out.batch.records.push_back(begin + i);
    begin += rows.size();
    return out;
  };
}

constexpr std::chrono::seconds kStillReading{5};  // until the log says so

// Throws: Error(cancelled) once the session is closed or the run cancelled. Says in the log that a
// step takes long.
SourceSteps::Meanwhile while_reading(const Session& session, const RunOptions& run) {
  return [&session, cancel = run.cancel, begin = std::chrono::steady_clock::now(),
          said = false](const std::string& doing) mutable {
    const Gate::Visit open = session.state().open();
    if (cancel && cancel->cancelled())
      throw Error(Errc::cancelled, "the evaluation was cancelled while it waited for its source");
    if (std::chrono::steady_clock::now() - begin < kStillReading || std::exchange(said, true))
      return;
    session.state().process->log()->warn("an evaluation waits for its source: doing={}", doing);
  };
}

// The plan of a source that is evaluated.
SourcePlan one_epoch(const Source& source) {
  SourcePlan plan = plan_source(source.spec());
  if (plan.epochs >= 0)
    throw refuse("evaluate", "the source ends with repeat(", plan.epochs,
                 "); leave it out, as each record is evaluated once");
  plan.epochs = 1;
  return plan;
}

std::shared_ptr<SharedStages> stages_of(const Session& session, const Source& source) {
  return std::make_shared<SharedStages>(one_epoch(source),
                                        functions_of(session.state().process->ops()));
}

NextBatch batches_of(const Session& session, const Evaluation& e,
                     const std::shared_ptr<SharedStages>& stages, const RunOptions& run) {
  auto steps = std::make_shared<SourceSteps>(stages);
  const Fields& fields = steps->fields();
  if (steps->batching() == Batching::none)
    throw refuse("evaluate",
                 "the source does not end with batches; end it with batch() or bucket(), with "
                 "map() at most behind that");
  if (e.feeds.size() != fields.size())
    throw refuse("evaluate", "Evaluation::feeds are ", e.feeds.size(),
                 " outputs, and the source has ", fields.size(),
                 " fields; give one for each, as SourceBatch::outputs() does");
  size_t labels = find_field(fields, "label");
  if (labels == fields.size()) labels = 1;
  return
      [steps, fields, labels, &session, run, begin = int64_t{0}]() mutable -> std::optional<Fed> {
        std::optional<Record> record = steps->next(while_reading(session, run));
        if (!record) return std::nullopt;
        Fed out{std::move(*record), {}};
        out.batch.features = out.feeds[0];
        if (labels < fields.size()) out.batch.labels = out.feeds[labels];
        const Tensor& first = out.feeds[0];
        for (int64_t i = 0; i < (first.ndim() == 0 ? 1 : first.dim(0)); ++i)
          out.batch.records.push_back(begin++);
        return out;
      };
}

// Runs a prepared evaluation over all batches.
Scores measure(const Callable& call, const Evaluation& e, const NextBatch& next,
               const RunOptions& run) {
  std::vector<Metric::Tally> tallies;
  for (const Metric& m : e.metrics) {
    tallies.push_back(m.begin());
    if (!tallies.back().add || !tallies.back().value)
      throw refuse("evaluate", "metric \"", m.name, "\" begins without `add` or `value`");
  }
  uint64_t batch_number = 0;
  while (const std::optional<Fed> fed = next()) {
    RunOptions of_batch = run;  // each batch draws other random numbers
    if (run.seed)
      of_batch.seed = static_cast<int64_t>(static_cast<uint64_t>(*run.seed) + batch_number++);
    const std::vector<Tensor> values = call(fed->feeds, of_batch);
    for (const Metric::Tally& tally : tallies) tally.add(values, fed->batch);
  }
  Scores out;
  for (size_t i = 0; i < tallies.size(); ++i) out[e.metrics[i].name] = tallies[i].value();
  return out;
}

bool validates(const FitOptions& o) { return o.validation.size() > 0 || o.validation_source; }

// The metric that decides which epoch is best; null without validation data.
const Metric* watched(const FitOptions& o) {
  if (o.validation.size() > 0 && o.validation_source)
    throw refuse("fit", "FitOptions has both validation and validation_source; give one");
  if (!validates(o)) {
    if (o.stop_after > 0 || o.keep_best || o.return_best || !o.watch.empty() ||
        o.plateau.epochs != 0)
      throw refuse("fit", "what is best is told by validation data; give FitOptions::validation");
    return nullptr;
  }
  check(o.evaluation);
  if (o.validation_source) {
    one_epoch(*o.validation_source);
  } else {
    check_feeds(o.evaluation);
    check("fit", o.validation);
  }
  if (o.watch.empty()) return &o.evaluation.metrics[0];
  std::string names;
  for (const Metric& m : o.evaluation.metrics) {
    if (m.name == o.watch) return &m;
    names += (names.empty() ? "" : ", ") + m.name;
  }
  throw refuse("fit", "there is no metric \"", o.watch, "\" to watch; there are ", names);
}

// Throws: Error(invalid_argument), also for optimizers of the graph that take no rate scale.
void check(const Plateau& plateau, const Graph& graph) {
  want_least("fit: FitOptions::plateau.epochs", plateau.epochs, 0, "0 (never) or more epochs");
  if (!(plateau.factor > 0 && plateau.factor < 1) || !(plateau.least >= 0))
    throw refuse("fit", "FitOptions::plateau has factor ", plateau.factor, " and least ",
                 plateau.least, "; wants a factor in (0, 1), and 0 or more as the least scale");
  if (plateau.epochs > 0) check_rate_scale(graph, plateau.factor, "fit: FitOptions::plateau");
}

class Fit {
 public:
  Fit(Session& session, std::vector<Tower> towers, const Dataset& data, const FitOptions& options)
      : session_(session),
        o_(options),
        towers_(std::move(towers)),
        history_(policy(watched(options))) {
    check_options();
    feed_towers(data);
  }
  Fit(Session& session, std::vector<Tower> towers, const Source& data, const FitOptions& options)
      : session_(session),
        o_(options),
        towers_(std::move(towers)),
        history_(policy(watched(options))) {
    check_options();
    count_steps(data);
  }
  FitResult run();

 private:
  FitHistory::Policy policy(const Metric* metric) const {
    if (!metric) return {};
    return {metric->name, metric->greater_is_better, o_.min_improvement, o_.stop_after, o_.plateau};
  }
  void check_options() const;
  void feed_towers(const Dataset& data);
  void check_readers(const std::string& source) const;
  void count_steps(const Source& data);
  void check_validation();
  TrainOptions train_options();
  void note_loss(const TrainProgress& p);
  double mean_loss(int64_t step) const;
  bool epoch_ended(const TrainPause& pause);
  bool is_kept() const { return !o_.train.checkpoint_dir.empty(); }
  std::string directory() const {
    return std::filesystem::absolute(o_.train.checkpoint_dir).string();
  }

  Session& session_;
  const FitOptions& o_;
  std::vector<Tower> towers_;
  std::vector<std::unique_ptr<Prefetch>> ahead_;  // of towers that fit() feeds from the data
  int64_t records_ = 0, per_epoch_ = 0;           // records of a replica in a step; 0: not known
  std::optional<Callable> evaluation_;            // set at the first pause
  std::shared_ptr<SharedStages> held_out_;        // of validation_source, from run() on
  NextBatch first_pass_;                          // of held_out_, begun; null once it is used
  FitHistory history_;
  int64_t last_step_ = -1;      // the last step that was reported; -1: none
  std::vector<double> losses_;  // by step; NaN for steps of an earlier program
  bool stopped_ = false;
};

void Fit::check_options() const {
  if (towers_.empty()) throw refuse("fit", "was given no towers");
  if (o_.epochs < 1) throw refuse("fit", "FitOptions::epochs is ", o_.epochs, "; wants at least 1");
  want_least("fit: FitOptions::batch_size", o_.batch_size, 1, "at least 1 record");
  want_least("fit: FitOptions::steps_per_epoch", o_.steps_per_epoch, 0,
             "0 (as many as the data has batches) or more");
  want_least("fit: FitOptions::stop_after", o_.stop_after, 0, "0 (never) or more epochs");
  check(o_.plateau, *towers_[0].loss.graph);
  if (!(o_.min_improvement >= 0))
    throw refuse("fit", "FitOptions::min_improvement is ", o_.min_improvement,
                 "; wants 0 or more of the metric that is watched");
  if ((o_.keep_best || o_.return_best) && !is_kept())
    throw refuse("fit", "the best epoch is kept in checkpoint_dir; give one");
  if (o_.train.on_progress || o_.train.on_pause)
    throw refuse("fit", "on_progress and on_pause are its own; use on_step and on_epoch");
}

// Either all towers have their own batches, or none has.
void Fit::feed_towers(const Dataset& data) {
  records_ = o_.batch_size;
  const auto count = static_cast<int64_t>(towers_.size());
  const bool own = std::all_of(towers_.begin(), towers_.end(),
                               [](const Tower& t) { return static_cast<bool>(t.batch); });
  per_epoch_ = o_.steps_per_epoch;
  if (own) {
    if (per_epoch_ == 0)
      throw refuse("fit", "towers with batches of their own want FitOptions::steps_per_epoch");
    return;
  }
  const Batches batches(
      data,
      {.batch_size = o_.batch_size, .replicas = count, .seed = o_.seed, .shuffle = o_.shuffle});
  if (per_epoch_ == 0) per_epoch_ = batches.steps_per_epoch();
  for (int64_t i = 0; i < count; ++i) {
    Tower& tower = towers_[static_cast<size_t>(i)];
    if (tower.batch)
      throw refuse("fit", "replica ", tower.replica, " has batches of its own, others have not");
    if (tower.replica != i)
      throw refuse("fit", "tower ", i, " has replica ", tower.replica,
                   "; replicas count from 0, in order");
    if (tower.feeds.empty() || tower.feeds.size() > 2)
      throw refuse("fit", "the feeds of replica ", i,
                   " are features, and labels if there is a second one; got ", tower.feeds.size());
    Prefetch& ahead = *ahead_.emplace_back(std::make_unique<Prefetch>(batches, i));
    tower.batch = [&ahead, labels = tower.feeds.size() > 1](int64_t step) {
      const Batch batch = ahead.at(step);
      std::vector<Tensor> out = {batch.features};
      if (labels) out.push_back(batch.labels);
      return out;
    };
  }
}

// Each tower reads the source that tells the epochs, for as many replicas as there are towers.
void Fit::check_readers(const std::string& source) const {
  const auto count = static_cast<int64_t>(towers_.size());
  for (const Tower& tower : towers_) {
    const Graph& graph = *tower.loss.graph;
    bool reads = false;
    for (const int32_t id : prune(graph, {tower.loss, tower.update})) {
      const Node& node = graph.node(id);
      const InputUse& input = properties_of(node).input;
      if (!input.source || input.source(node) != source) continue;
      reads = true;
      if (input.replicas(node) != count)
        throw refuse("fit", describe(node), " shares the source with ", input.replicas(node),
                     " replicas, and there are ", count,
                     " towers; give their number in ReadOptions::replicas");
    }
    if (!reads)
      throw refuse("fit", "replica ", tower.replica,
                   " does not read the source that fit() was given; build it with read_source() of "
                   "that one");
  }
}

// Towers that read a source have no feeds.
void Fit::count_steps(const Source& data) {
  for (const Tower& tower : towers_)
    if (!tower.feeds.empty() || tower.batch)
      throw refuse("fit", "replica ", tower.replica,
                   " has feeds; towers of a source read it themselves, by read_source()");
  const SourcePlan plan = plan_source(data.spec());
  check_readers(data.to_text());
  const int64_t size = batch_size(*plan.stages);
  const bool told = o_.batch_size != FitOptions().batch_size;
  records_ = size == 0 && told ? o_.batch_size : size;
  if (size > 0 && told && o_.batch_size != size)
    throw refuse("fit", "FitOptions::batch_size is ", o_.batch_size,
                 ", and the source has batches of ", size, "; leave it out");
  if (!o_.shuffle)
    throw refuse("fit",
                 "FitOptions::shuffle is of a data set; a source is in order without "
                 "shuffle()");
  if (plan.epochs >= 0)
    throw refuse("fit", "the source ends with repeat(", plan.epochs,
                 "); leave it out, as FitOptions::epochs says how often the data come");
  per_epoch_ = o_.steps_per_epoch;
  if (per_epoch_ > 0) return;
  const auto ops = session_.state().process->ops();
  per_epoch_ = SourceCursor(build_stages(*plan.stages, functions_of(ops)), -1, 0,
                            static_cast<int64_t>(towers_.size()))
                   .steps_per_epoch();
}

// Reads a batch: a source that cannot be evaluated is refused before an epoch has passed. The first
// evaluation goes on from there: a reader that is stopped under way leaves a cache() without the
// place that it had come to, and the next one makes all records again.
void Fit::check_validation() {
  if (!o_.validation_source) return;
  held_out_ = stages_of(session_, *o_.validation_source);
  RunOptions run;
  run.timeout = o_.train.patience;
  try {
    NextBatch rest = batches_of(session_, o_.evaluation, held_out_, run);
    std::optional<Fed> first = rest();
    first_pass_ = [first = std::move(first), rest = std::move(rest)]() mutable {
      return first ? std::exchange(first, std::nullopt) : rest();
    };
  } catch (const Error& e) {  // which of the two sources it is
    throw Error(e.code(), "fit: FitOptions::validation_source: ", e.what());
  }
}

TrainOptions Fit::train_options() {
  TrainOptions t = o_.train;
  t.steps = o_.epochs * per_epoch_;
  if (t.rule && t.rule->local() && t.rule->bound > 0 && per_epoch_ % t.rule->bound != 0)
    throw refuse("fit", "an epoch has ", per_epoch_, " steps, and a round of the rule ",
                 to_string(*t.rule), " has ", t.rule->bound,
                 ", so epochs would end within rounds; choose FitOptions::steps_per_epoch or the "
                 "rule so that rounds fit");
  // A training that was told to stop does no more steps when it is resumed.
  if (history_.wants_stop()) t.steps = std::min(t.steps, history_.epochs().back().step);
  t.examples_per_step = records_;
  t.data_seed = o_.seed;
  if (t.checkpoint_every == 0) t.checkpoint_every = per_epoch_;
  t.pause_every = per_epoch_;
  t.on_pause = [this](const TrainPause& pause) { return epoch_ended(pause); };
  t.on_progress = [this](const TrainProgress& p) {
    note_loss(p);
    if (o_.on_step) o_.on_step(p);
  };
  return t;
}

// Keeps the loss of a step that was just done. The first report, and reports of repeated steps,
// carry an older loss and are skipped.
void Fit::note_loss(const TrainProgress& p) {
  const int64_t before = std::exchange(last_step_, p.step);
  if (before < 0 || p.step != before + 1) return;
  const auto step = static_cast<size_t>(p.step - 1);
  if (step >= losses_.size()) losses_.resize(step + 1, std::numeric_limits<double>::quiet_NaN());
  losses_[step] = p.loss;
}

// The mean loss of the data epoch that ends with this step.
double Fit::mean_loss(int64_t step) const {
  MeanMetric mean;
  for (int64_t i = step - per_epoch_; i < step; ++i) {
    const auto known = static_cast<size_t>(i);
    if (known < losses_.size() && !std::isnan(losses_[known])) mean.add(losses_[known]);
  }
  return mean.value();
}

// After an exception the pause comes again, and the epoch is judged as the first time.
bool Fit::epoch_ended(const TrainPause& pause) {
  if (pause.step % per_epoch_ != 0)  // a pause waits for the end of a round
    throw refuse("fit", "the epoch that ended before step ", pause.step,
                 " ended within a round of local steps, as set_rule() or the checkpoint has a rule "
                 "whose rounds do not fit into the ",
                 per_epoch_, " steps of an epoch");
  FitEpoch epoch;
  epoch.epoch = pause.step / per_epoch_;
  epoch.step = pause.step;
  epoch.loss = mean_loss(pause.step);
  epoch.rate_scale = rate_scale(session_);
  if (validates(o_)) {
    if (!evaluation_) evaluation_ = session_.prepare(o_.evaluation.fetches, o_.evaluation.feeds);
    RunOptions run;
    run.timeout = o_.train.patience;
    run.seed = pause.step << 32;  // the same scores if the epoch is repeated
    const NextBatch next = first_pass_ ? std::exchange(first_pass_, nullptr)
                           : held_out_ ? batches_of(session_, o_.evaluation, held_out_, run)
                                       : batches_of(o_.evaluation, o_.validation);
    epoch.scores = measure(*evaluation_, o_.evaluation, next, run);
  }
  if ((o_.keep_best || o_.return_best) && history_.improves(history_.watched(epoch)))
    pause.save(directory() + "/best");
  history_.add(epoch);
  if (is_kept()) history_.save(real_disk(), directory());
  if (const std::optional<double> scale = history_.lower_scale()) set_rate_scale(session_, *scale);
  const bool asked = o_.on_epoch && !o_.on_epoch(epoch);
  const bool stop = asked || history_.wants_stop();
  stopped_ = stop && epoch.epoch < o_.epochs;
  return !stop;
}

FitResult Fit::run() {
  check_validation();
  if (is_kept() && o_.train.resume) history_.load(real_disk(), directory());
  const TrainOptions options = train_options();
  stopped_ = options.steps < o_.epochs * per_epoch_;
  FitResult out;
  out.training = train(session_, towers_, options);
  out.history = history_.epochs();
  out.stopped = stopped_;
  if (!history_.best()) return out;
  out.best_epoch = history_.best()->epoch;
  if (o_.keep_best || o_.return_best) out.best_checkpoint = directory() + "/best";
  if (o_.return_best) load_parameters(session_, out.best_checkpoint, o_.train.patience);
  return out;
}

}  // namespace

Scores evaluate(Session& session, const Evaluation& evaluation, const Dataset& data,
                const RunOptions& run) {
  check(evaluation);
  check_feeds(evaluation);
  if (data.size() == 0) throw refuse("evaluate", "was given no records");
  check("evaluate", data);
  return measure(session.prepare(evaluation.fetches, evaluation.feeds), evaluation,
                 batches_of(evaluation, data), run);
}

Scores evaluate(Session& session, const Evaluation& evaluation, const Source& data,
                const RunOptions& run) {
  check(evaluation);
  const NextBatch next = batches_of(session, evaluation, stages_of(session, data), run);
  return measure(session.prepare(evaluation.fetches, evaluation.feeds), evaluation, next, run);
}

FitResult fit(Session& session, std::vector<Tower> towers, const Dataset& data,
              const FitOptions& options) {
  return Fit(session, std::move(towers), data, options).run();
}

FitResult fit(Session& session, std::vector<Tower> towers, const Source& data,
              const FitOptions& options) {
  return Fit(session, std::move(towers), data, options).run();
}

}  // namespace troupe
