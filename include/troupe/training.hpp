// Training loops: data-parallel replicas, parameters in shards, checkpoints, recovery. Implemented
// in training/loop/ (trainer.cpp) and training/group/ (parameter_values.cpp, weights.cpp).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "troupe/metrics.hpp"
#include "troupe/session.hpp"
#include "troupe/source.hpp"

namespace troupe {

struct NodeOptions;  // troupe/cluster.hpp

// How pushes become updates. sync: the mean of one push per replica, summed in replica order, is
// the update of a step. sync_backup: the slowest replicas of a step are left out. async: each push
// at once. ssp: the same, with a bound between replicas. local: each replica does a round of steps
// by itself, and then all take the mean of their values. docs/learning_protocols.md compares them.
// Parameters may have rules of their own: sync, async or ssp, beside others under these.
struct Aggregation {
  enum class Kind : uint8_t { sync, sync_backup, async, ssp, local } kind = Kind::sync;
  // sync_backup: replicas left out; ssp: steps that one may be ahead; local: steps of a round
  int64_t bound = 0;
  bool damped = false;  // async, ssp: updates by gradients of old values are smaller
  // local: how far the values move towards the mean at the end of a round, by Nesterov momentum;
  // (1, 0): all the way.
  double outer_rate = 1, outer_momentum = 0;
  // By patterns of names, in which * stands for any text: {"embedding*", async}. A whole name comes
  // before a pattern, and a longer pattern before a shorter one.
  std::vector<std::pair<std::string, Aggregation>> own = {};
  static const Aggregation sync, async;

  Aggregation of(const std::string& parameter) const;  // its rule, without those of others
  bool local() const { return kind == Kind::local; }
  bool by_steps() const;  // and all parameters' own, too
  // Steps that are done again make the same updates, to the bit.
  bool repeats() const;
  friend bool operator==(const Aggregation&, const Aggregation&) = default;
};
inline constexpr Aggregation Aggregation::sync{}, Aggregation::async{Aggregation::Kind::async};
// "sync", "sync-backup:1", "async", "async-damped", "ssp:3", "ssp-damped:3", "local:16",
// "diloco:100" or "diloco:100:0.7:0.9", local with an outer rate and an outer momentum; and with
// rules of parameters "sync+embedding*=async+bias=ssp:2".
std::string to_string(const Aggregation& rule);
Aggregation aggregation_from_string(const std::string& text);  // Throws: Error(invalid_argument).

// One replica of the program. `replica` is the number its nodes were built under (Graph::scope).
struct Tower {
  int64_t replica = 0;
  Output loss;    // scalar
  Output update;  // the result of minimize()
  std::vector<Output> feeds = {};
  // The values of `feeds` for a step; a pure function of it, so that a lost step can be repeated.
  // Called from the training thread, while steps of other replicas run. If making a batch takes
  // long, let a Prefetch of troupe/data.hpp make it ahead, on a thread of its own.
  std::function<std::vector<Tensor>(int64_t step)> batch = {};
};

struct TrainProgress {
  int64_t step = 0;   // steps done by the slowest replica
  int64_t steps = 0;  // 0: until the data end
  double loss = 0;    // mean over the replicas' newest steps
  double examples_per_second = 0;
  std::chrono::duration<double> remaining{0};  // estimate
};

// An event that a person should know of: which process died, which process noticed, what is done.
struct TrainEvent {
  enum Kind : uint8_t {
    lost,        // a process or a shard is gone, or updates with it
    recovering,  // a step or a checkpoint failed and is tried again
    resumed,     // training goes on, from this step
    warning,     // training goes on, degraded: a checkpoint that cannot be written or read, or none
    moved,       // replicas are computed by another process from their next step on
  } kind;
  std::string text;
};

// All replicas stand still between two steps: the parameters have all updates of the steps before.
struct TrainPause {
  int64_t step = 0;
  double loss = 0;  // mean over the replicas' newest steps
  // Writes a checkpoint of this step into a folder of its own and removes older ones there; returns
  // the path of its manifest. Throws: Error(invalid_argument) for checkpoint_dir itself, a folder
  // that another training uses, or parameters that another session owns; Error(io);
  // Error(peer_lost) and Error(stale) while a shard is lost, which on_pause need not catch.
  std::function<std::string(const std::string& folder)> save;
};

struct TrainOptions {
  // To begin with (set_rule() changes it); none: that of the checkpoint to resume from, or sync.
  std::optional<Aggregation> rule = {};
  // A slice's gradient with an element that is NaN or infinite. fail: training ends with the error.
  // skip: the update is made of the other replicas' gradients, or changes nothing; a loss that is
  // not finite is a warning. roll_back: training goes back to its newest checkpoint, so often in
  // all, and then fails, also if the same step fails again. In a container its owner chooses.
  enum class BadGradients : uint8_t { fail, skip, roll_back } bad_gradients = BadGradients::fail;
  int64_t roll_backs_max = 3;
  // Fewer bytes for gradients, and for values that training steps pull: a codec for all trained
  // parameters, or by pattern of names, "fc1/w=int8,conv*=bf16,none". bf16, f16; for
  // gradients alone int8, topk:F, sign. Rows, and values for other runs, travel as they are. The
  // same wherever shards stand, so synchronous training has the same bits (docs/compression.md).
  // train() throws Error(invalid_argument) for names and codecs that do not fit.
  struct Compression {
    std::string gradients = {}, values = {};
  } compression = {};
  // Per replica. 0: until the data of a source with repeat() end (troupe/source.hpp). These, and a
  // closed queue, also end a training of more steps, with a warning.
  int64_t steps = 0;
  int64_t examples_per_step = 0;  // per replica, for the rate; 0: not known
  // Empty: none. Used by one training at a time; a folder with checkpoints requires `resume`.
  std::string checkpoint_dir;
  // In steps; 0: only at the end. Replicas stop until the shards have copied their state, not until
  // it is written. A checkpoint that cannot be written is a warning; earlier ones are kept. The one
  // of the last step is tried again for as long as `patience` lasts, then TrainResult::unsaved.
  int64_t checkpoint_every = 0;
  int checkpoint_keep = 3;  // the newest ones; at least 1
  bool resume = false;      // from the newest valid checkpoint in checkpoint_dir
  // The folder of a record of which gradients counted and in which order, on the disk of all
  // processes with shards; it wants a checkpoint_dir, and `resume` continues it. `replay`: that of
  // a record, whose order decides again: the same program ends with the same bits, in any processes
  // that hold the same slices. A step that is not in the record, and a record that is damaged or
  // not whole, end the training with an error (docs/learning_protocols.md).
  std::string record = {}, replay = {};
  // Begin with the initial values of the parameters, whatever values they have now. Otherwise
  // training begins with the present values, as load_parameters(), updates or another training of
  // this session left them; steps count from 0 and optimizers begin anew. A shared container that
  // is taken over keeps its values, steps and optimizers, unless this is set.
  bool anew = false;
  uint64_t data_seed = 0;  // stored in the checkpoint; a resumed run must have the same
  // In steps; 0: never. After each multiple (counted from step 0), and before a checkpoint of that
  // step, replicas stop and on_pause is called from the thread that called train(): it may run the
  // session, to evaluate, say. If it returns false, training ends as if `steps` were this step. An
  // exception ends training, too, except for Error(peer_lost), (stale), (timeout) and (cancelled):
  // then on_pause is called again when the lost process is back, and for each step that is repeated
  // until then.
  int64_t pause_every = 0;
  std::function<bool(const TrainPause&)> on_pause = {};
  // A step that fails because a process is gone is tried again, and one that cannot read a file
  // after its replica has done others; training ends with the error after this long without
  // progress. A source that reads on is progress, however long a step waits for it.
  std::chrono::milliseconds patience{120'000};
  // The replicas of a task that has been away for so long, or half of `patience`, move to the task
  // of its job that has the fewest, those of one that was never there at once, and to one that
  // comes between two steps. Synchronous bits do not change. 0, in a shared container, and with a
  // codec that has a residual: they wait for their own task.
  std::chrono::milliseconds move_after{10'000};
  // Called from the thread that called train(): on_progress once at the start, then once for each
  // step of the slowest replica.
  std::function<void(const TrainProgress&)> on_progress = {};
  std::function<void(const TrainEvent&)> on_event = {};
};

struct TrainResult {
  int64_t steps = 0;  // per replica, those of earlier runs included
  int64_t resumed_at = 0;
  double loss = 0;
  double seconds = 0;
  std::string weights_sha256;  // of all parameters but tables, in name order: dtype, shape, bytes
  int64_t recoveries = 0;
  // By rules whose steps do not repeat their bits: acknowledged steps that were lost with a shard.
  int64_t lost_updates = 0;
  std::string checkpoint;  // path of the newest manifest, or of the one resumed from; empty: none
  std::string unsaved;     // why the last step has no checkpoint; empty: it has, or none was wanted
};

// Trains until every replica has done `options.steps`, starting from the present values of the
// parameters, their initial values (TrainOptions::anew) or a checkpoint. Throws, before any step:
// Error(invalid_argument) for replicas and options that do not fit together, a checkpoint_dir with
// checkpoints and no `resume`, a checkpoint_dir that another training uses, a checkpoint of a later
// step than `steps` or of other optimizers; Error(bad_configuration) for a checkpoint of other
// parameters or another data seed; Error(bad_data) if all are damaged. Throws, after all replicas
// have stopped: any exception of `batch`, `on_progress`, `on_pause` or `on_event`, of any type;
// Error(bad_data) for a loss or gradient that is not finite (naming parameter, replica and step),
// unless it is skipped or rolled back;
// Error(peer_lost) when patience ends (naming the missing process); Error(cancelled) when another
// thread closes the session, after the newest checkpoint has been written; Error(io) or
// Error(bad_data) when shards were lost and no checkpoint could be read until patience ended
// (naming the task, whose log names the file; no checkpoint was removed); Error(out_of_memory) when
// a process had no room for its shards for as long; Error(invalid_argument) when another session
// owns the container; and the error of a failed step. The session remains usable.
TrainResult train(Session& session, const std::vector<Tower>& towers, const TrainOptions& options);

// Gives the parameters of the session's graph the values of the newest whole checkpoint that a
// training left in `checkpoint_dir`, to compute with them, or to train from them. Waits up to
// `patience` for lost processes, so that a program can go on that has lost parameters after its
// training. Throws: Error(peer_lost) when patience ends; Error(invalid_argument) if there is no
// checkpoint, within train(), or if the parameters are another session's; and as train() for a
// checkpoint that does not fit or is damaged.
void load_parameters(Session& session, const std::string& checkpoint_dir,
                     std::chrono::milliseconds patience = std::chrono::milliseconds(0));

// The present values of all parameters of the session's graph, by name. Throws: Error(peer_lost) or
// Error(stale) while shards are lost, Error(timeout) after 60 s for a parameter, Error(cancelled)
// when the session is closed; Error(invalid_argument) if there is a table_parameter(), which has no
// values as a whole.
std::map<std::string, Tensor> parameter_values(Session& session);

// The present value of one of them. Throws, too: Error(invalid_argument) for a name that the graph
// does not have, with the nearest one that it has.
Tensor parameter_value(Session& session, const std::string& name);

// Another rule for the training that goes on, from `step` on, or from the first step that no
// replica has begun. All replicas stop there until the shards have it; each gradient counts once.
// Any thread and any function of the training may call it; the latest call counts from its step on.
// A step that is done again after a loss has the rule of the first time. on_event tells the change.
// Throws: Error(invalid_argument) without a training, for a shared container, for a rule that so
// many replicas or an optimizer cannot follow, and for a negative step.
void set_rule(Session& session, const Aggregation& rule, int64_t step = 0);

// The rate scale multiplies the learning rates of all optimizers of a session, beside their
// schedules. It is 1 at first, and wherever optimizers begin anew. Checkpoints hold it: a training
// that resumes, load_parameters() and a restore after a loss go back to theirs.
//
// A new scale holds for every update from the next step on. In train() and fit() it is set from
// on_pause and on_epoch alone, and shards get it before any step; if one cannot be told, the pause
// comes again and finds the scale of before. Repeated steps repeat their pauses, so synchronous
// training ends with the same bits if the scale depends on what the pause sees alone. Outside of a
// training, set_rate_scale() returns when all shards have the scale. Throws:
// Error(invalid_argument) for a scale that is no positive number, or makes a learning rate
// infinite; for a parameter that ftrl trains; for another session's parameters; while steps run,
// for replicas that have done different numbers of steps, and elsewhere in train();
// Error(peer_lost), (stale) or (timeout) when shards could not be told: call it again before the
// next step.
double rate_scale(Session& session);
void set_rate_scale(Session& session, double scale);
// The same for the training that goes on, as set_rule(), which says from which step on, and on
// which threads. It counts in place of what a pause of that step sets, until a later pause or call.
void set_rate_scale(Session& session, double scale, int64_t step);

// Gives parameters of the session's graph these values, by name; the others keep theirs. All
// optimizers begin anew, without accumulators, at the begin of their schedules and at a rate
// scale of 1, as in a training that begins with present values; the count of training steps goes
// on. Where one parameter is written often, while others train, use the ops of
// troupe/ops/parameters.hpp. Waits up to `patience` for lost processes. Throws, before any value
// is set: Error(invalid_argument) for names that the graph does not have, with the nearest one,
// and for other dtypes and shapes than the graph's; while a training step is under way, for
// replicas that have done different numbers of steps, within train(), for another session's
// parameters, and if there is a table_parameter(). Throws Error(peer_lost) or Error(stale) when
// patience ends: then parameters may have no values until all are set or loaded.
void set_parameters(Session& session, const std::map<std::string, Tensor>& values,
                    std::chrono::milliseconds patience = std::chrono::milliseconds(0));

// Files of values alone, without optimizers and steps: .safetensors or .npz, by the end of the path
// (troupe/files.hpp); Python's libraries read and write them. Each parameter is a tensor of its
// name, "dense/w". save_weights() replaces a file as a whole; call it while no training step is
// under way, or in a pause. Throws: as parameter_values() and write_tensors().
void save_weights(Session& session, const std::string& path);

struct LoadOptions {
  // Every parameter of the graph takes a tensor of the file, and every tensor is taken. false: the
  // graph takes what both have, and its other parameters keep their values.
  bool strict = true;
  // Only parameters in these scopes, "body" for "body/dense/w"; {}: all. Tensors that none of them
  // takes are no error.
  std::vector<std::string> scopes = {};
  // The name in the file for the name of a parameter in the graph. A key that is empty or ends in
  // "/" or "." stands for the begin of names: {{"encoder/", "bert.encoder."}}. A whole name comes
  // before a begin, and a longer begin before a shorter one.
  std::map<std::string, std::string> rename = {};
  bool cast = false;  // floating tensors of another floating dtype are converted
  std::chrono::milliseconds patience{0};
};

// The names, in alphabetic order.
struct LoadReport {
  std::vector<std::string> loaded;   // parameters that have a value of the file
  std::vector<std::string> missing;  // parameters that the file does not have
  // "head/w is f32[8, 2] in the graph, f32[8, 5] in the file"
  std::vector<std::string> mismatched;
  std::vector<std::string> unused;  // tensors that no parameter takes
};

// Sets the parameters from a file as set_parameters() does. Throws as it and read_tensors() do, and
// before any value is set: Error(bad_configuration) naming both sides for a file that differs from
// the graph, if the options are strict, or that has nothing for it; Error(invalid_argument) for
// scopes and names in the options that the graph does not have.
LoadReport load_weights(Session& session, const std::string& path, const LoadOptions& options = {});
// The same from the newest whole checkpoint of a folder, or from a file. With strict options that
// rename, choose and cast nothing, a folder is loaded as by load_parameters() above, with the state
// of its optimizers and its step.
LoadReport load_parameters(Session& session, const std::string& path, const LoadOptions& options);

// The home of each slice of each parameter, and the bytes moved since its shard was made: values to
// processes that did not have that version, and gradients from all processes, resent ones included.
// Slices of shards that do not answer are left out.
struct ParameterSlice {
  std::string parameter, task;
  int64_t offset = 0, size = 0, bytes = 0, version = 0;  // offset and size in elements
  int64_t pulled_bytes = 0, pushed_bytes = 0;
  double staleness = 0;  // mean number of other updates between a replica's pull and its update
  int64_t staleness_max = 0;
  // The rows that a table_parameter() has, whose offset and size are in groups of rows, and those
  // made and forgotten since its shard was made.
  int64_t rows = 0, rows_made = 0, rows_forgotten = 0;
};
std::vector<ParameterSlice> parameter_slices(Session& session);

// The gradients and writes that one replica has pushed to one slice since its shard was made, by
// their end: `received` is the sum of the counts below it. Replica -1: of replicas that the
// training does not have, or has no more. Without a parameter: for slices that are not there.
struct PushCount {
  std::string parameter, task;
  int64_t offset = 0, replica = 0;
  int64_t received = 0;
  int64_t applied = 0, merged = 0, late = 0, duplicate = 0, held = 0;  // held: not ended
  std::map<std::string, int64_t> refused = {};                         // by reason, "not finite"
};
std::vector<PushCount> push_ledger(Session& session);  // as parameter_slices()

// ----------------------------------------------------------------------------------------------
// Training over epochs of a data set, by train(): evaluation with metrics, callbacks, early
// stopping, and keeping the best model. Implemented in training/loop/fit.cpp and fit_history.cpp.
//
//   FitOptions options{.epochs = 20, .validation = held_out, .stop_after = 3};
//   options.evaluation = {.feeds = {images, labels}, .fetches = {argmax(logits), loss},
//                         .metrics = {accuracy(0), mean_loss(1)}};
//   FitResult result = fit(session, towers, data, options);

// The feeds for records that the model does not train on, and the metrics of its answers.
struct Evaluation {
  // For a Dataset: features, and labels if there is a second one. For a Source: all its fields, in
  // their order.
  std::vector<Output> feeds;
  std::vector<Output> fetches;
  std::vector<Metric> metrics;  // of the fetched values; names differ
  int64_t batch_size = 256;     // records at a time, which bounds memory; a Source has its own
};
using Scores = std::map<std::string, double>;  // by the metric's name

// Covers all records once, in their order. With RunOptions::seed batch b draws by the seed plus b;
// fit() gives each epoch a seed of its own. Throws: Error(invalid_argument) for an evaluation whose
// fields do not fit, and the errors of a run of the session and of a metric.
Scores evaluate(Session& session, const Evaluation& evaluation, const Dataset& data,
                const RunOptions& run = {});
// The same for one epoch of a source of batches, without repeat(), which this process reads.
// Metrics get its first field as features, and as labels its field "label", or else its second
// one, if it has one. Throws: as read_source(), too; Error(cancelled) when the session is closed
// meanwhile.
Scores evaluate(Session& session, const Evaluation& evaluation, const Source& data,
                const RunOptions& run = {});

// The state at the end of a data epoch.
struct FitEpoch {
  int64_t epoch = 0;      // epochs done, this one included
  int64_t step = 0;       // of each replica, the same
  double loss = 0;        // mean over the epoch's steps, as far as this program has run them
  Scores scores = {};     // of the validation data
  bool is_best = false;   // best so far, by FitOptions::watch
  double rate_scale = 1;  // of the epoch's steps
};

// Lowers the rate scale where the watched metric improves no more (ReduceLROnPlateau of Keras).
struct Plateau {
  int64_t epochs = 0;  // in a row at one scale without improvement; 0: never
  double factor = 0.1;
  double least = 0;  // the scale does not fall below this
};

struct FitOptions {
  int64_t epochs = 1;
  int64_t batch_size = 32;  // records of a replica in a step
  bool shuffle = true;
  uint64_t seed = 0;  // for the order of records
  // Steps of an epoch. 0: the number of batches in the data, a partial one included; all batches
  // are full, as Batches::at() makes them. Set it if replicas have batches of their own.
  int64_t steps_per_epoch = 0;

  // Evaluated when an epoch ends, if there is any: a data set, or a source, which is built once.
  Dataset validation = {};
  std::optional<Source> validation_source = {};
  Evaluation evaluation = {};
  std::string watch = {};      // the metric that decides which epoch is best; empty: the first one
  double min_improvement = 0;  // a smaller change of that metric is no improvement
  int64_t stop_after = 0;  // epochs in a row without improvement that end the training; 0: never
  Plateau plateau = {};    // {.epochs = 3}: a tenth of the rates after 3 epochs without improvement
  // keep_best: a whole checkpoint of the best epoch in the folder best in checkpoint_dir, for
  // load_parameters(). return_best: in the end the session's parameters are those of that epoch.
  bool keep_best = false, return_best = false;

  // Called from the thread that called fit(). After a loss of parameters steps and epochs are
  // repeated, and so are these calls. on_epoch may run the session, and set_rate_scale(), which
  // counts in place of what `plateau` does at this epoch; returning false ends training.
  std::function<void(const TrainProgress&)> on_step = {};
  std::function<bool(const FitEpoch&)> on_epoch = {};

  // The other options: rule, checkpoints (if checkpoint_every is 0, one for each epoch), resume,
  // patience, on_event. fit() sets the others itself.
  TrainOptions train = {};
};

struct FitResult {
  TrainResult training;
  // All epochs, those before a resume included, which are in the file epochs.txt in checkpoint_dir.
  std::vector<FitEpoch> history;
  // 0: there is none. Epochs that are repeated after a loss of parameters are the same again under
  // the synchronous rule only. Under the asynchronous rule the best score that any epoch ever had
  // decides, and the values of that epoch are kept, even if the repeated epoch has another score.
  int64_t best_epoch = 0;
  std::string best_checkpoint;  // folder; empty: not kept
  bool stopped = false;         // before all epochs were done, by stop_after or on_epoch
};

// Trains `towers` for options.epochs epochs of `data`. Their replicas are 0, 1, ... in order. If
// Tower::batch is empty, `feeds` are features, and labels if there is a second one, of this
// replica's part of each batch of the data. Replicas stand still when an epoch ends, so under both
// rules scores are those of the epoch's parameters; synchronous training with killed processes ends
// with the same bits, scores and epochs as without. Throws: Error(invalid_argument) for options
// that do not fit together; Error(bad_data) for an epochs.txt that is damaged; and as train().
FitResult fit(Session& session, std::vector<Tower> towers, const Dataset& data,
              const FitOptions& options);
// The same for towers that read `data` themselves (read_source() with ReadOptions::replicas, the
// number of towers), without repeat(): no batch passes through the program. The source tells the
// order of records, the batch size and the steps of an epoch: each record once. Another
// `batch_size` and `shuffle = false` are refused; where batches differ in size, batch_size is for
// the rate alone; `seed` is only stored as data_seed. A source whose epochs differ in length wants
// FitOptions::steps_per_epoch.
FitResult fit(Session& session, std::vector<Tower> towers, const Source& data,
              const FitOptions& options);

// ----------------------------------------------------------------------------------------------
// A checkpoint of a program that trains in a loop of its own, with Session::run().
//   for (int64_t step = 0; step < steps; ++step) {
//     session.run({loss, update}, batch(step), {.step = step});
//     if ((step + 1) % 1000 == 0) save_parameters(session, "checkpoints");
//   }
// Later, in a new process, load_parameters() or train() with TrainOptions::resume goes on.

// Writes a checkpoint with the values of all parameters that the session has used and their
// optimizer state into a folder, and keeps the newest `keep` there; returns the path of its
// manifest. Its step is the number of training steps done; load_parameters() continues after it.
// Throws: Error(invalid_argument) while a training step is under way, for replicas that have done
// different numbers of steps, without parameters or for another session's, for keep below 1, and
// for a folder that a training uses, or whose newest checkpoint is of another run, which this
// session has neither written nor loaded; Error(timeout) after 60 s, for example if the last step
// failed before all replicas had pushed (run another step first); Error(io); Error(peer_lost) and
// Error(stale) while a shard is lost.
std::string save_parameters(Session& session, const std::string& checkpoint_dir, int keep = 3);

// ----------------------------------------------------------------------------------------------
// The programs of a cluster, asked and steered from outside, as by `troupe jobs`. Implemented in
// training/group/visitor.cpp.
struct RunningProgram {
  std::string task, name;  // "/job:client/task:17"; its executable
  std::string silent;      // why the rest is not known; empty: it is
  std::string phase;       // "trains"; empty: it trains nothing just now
  TrainProgress progress = {};
  Aggregation rule = {};
  double rate_scale = 1;
  int64_t recoveries = 0;
  std::map<int64_t, std::string> replicas = {};  // the task that computes each
};
// A member of a cluster that computes nothing and holds nothing. It joins by the seeds of `node`,
// as a client. Throws: as run_node(), and Error(timeout) or Error(peer_lost) naming the process
// that does not answer within `patience`; then a change that was asked for may still come.
class Visitor {
 public:
  Visitor(const NodeOptions& node, std::chrono::milliseconds patience);
  ~Visitor();
  std::vector<RunningProgram> programs();
  // push_ledger() of a program, of the parameters that match; `left_out`: what is missing, and why.
  std::vector<PushCount> ledger(const std::string& task, const std::string& parameters,
                                std::string& left_out);
  // As the functions above, in that program. Return when all shards have the change: the step from
  // which it holds. Throw, too: their errors; Error(stale) if a later change has taken its place,
  // or the training ends before it.
  int64_t set_rule(const std::string& task, const Aggregation& rule, int64_t step = 0);
  int64_t set_rate_scale(const std::string& task, double scale, int64_t step = 0);

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace troupe
