// Begins records, reads the ones that are repeated, and ends them.
#include "training/loop/train_order.hpp"

#include "training/checkpoints/checkpoint_folder.hpp"
#include "training/checkpoints/record.hpp"

namespace troupe {
namespace {

std::string absolute(const std::string& dir) { return CheckpointFolder(dir).path(); }

OrderRecord read_heads(const std::string& dir) {
  return read_record(real_disk(), dir, [](const std::string&) { return false; });
}

RecordTerms record_terms(const TrainOptions& options, const CheckpointRequest& checkpoints) {
  return {.replicas = checkpoints.replicas,
          .data_seed = options.data_seed,
          .checkpoint_every = options.checkpoint_every,
          .pause_every = options.pause_every,
          .compute = checkpoints.compute,
          .gradients = options.compression.gradients,
          .values = options.compression.values,
          .skips_bad = options.bad_gradients == TrainOptions::BadGradients::skip,
          .sources = checkpoints.sources};
}

}  // namespace

void check_order(const TrainOptions& options, bool shared) {
  if (options.record.empty() && options.replay.empty()) return;
  const char* const option =
      options.record.empty() ? "TrainOptions::replay" : "TrainOptions::record";
  if (shared)
    throw Error(Errc::invalid_argument, option, " wants parameters of one program: in a container ",
                "that programs share, the steps of others have an order of their own");
  if (!options.record.empty() && !options.replay.empty())
    throw Error(Errc::invalid_argument, "TrainOptions::record and replay exclude each other: a ",
                "replay has the order of its record");
  if (!options.record.empty() && options.checkpoint_dir.empty())
    throw Error(Errc::invalid_argument, "TrainOptions::record wants a checkpoint_dir: with each ",
                "checkpoint the record is whole up to its step, and the last one ends it");
  if (!options.replay.empty() && options.resume)
    throw Error(Errc::invalid_argument, "TrainOptions::replay repeats a training from its first ",
                "step; leave out resume");
  if (options.steps == 0)
    throw Error(Errc::invalid_argument, option,
                " wants TrainOptions::steps: the end of data falls ",
                "between the steps of replicas");
}

void set_order(const TrainOptions& options, const CheckpointRequest& checkpoints, int64_t at,
               TrainDriver::Terms& terms) {
  const RecordTerms own = record_terms(options, checkpoints);
  if (!options.record.empty()) {
    terms.record = absolute(options.record);
    begin_record(real_disk(), terms.record, own, options.resume, at);
    terms.part = newest_part(real_disk(), terms.record);
  }
  if (options.replay.empty()) return;
  terms.replay = absolute(options.replay);
  const OrderRecord record = read_heads(terms.replay);
  check_replay(record, terms.replay, own, options.steps);
  terms.rules = record.rules;
  if (const Aggregation& first = record.rules.begin()->second; terms.rule.value_or(first) != first)
    throw Error(Errc::bad_configuration, "the record in ", terms.replay, " begins with the rule ",
                to_string(first), ", and TrainOptions::rule is ", to_string(*terms.rule),
                "; run the same program with the same arguments");
}

std::string end_record(const TrainOptions& options, int64_t steps, const std::string& weights) {
  if (options.record.empty()) return {};
  const std::string dir = absolute(options.record);
  std::string why;
  try {
    const OrderRecord record = read_heads(dir);
    if (record.end == steps) {
      write_record_end(real_disk(), dir, steps, weights);
      return {};
    }
    why = detail::concat(dir, ": it ends at step ", record.end, " of ", steps);
  } catch (const Error& e) {
    why = e.what();
  }
  return "the record of this training is not whole, and cannot be repeated: " + why;
}

std::string check_repeated(const TrainOptions& options, const std::string& weights) {
  if (options.replay.empty()) return {};
  const std::string recorded = read_heads(absolute(options.replay)).weights;
  if (recorded.empty())
    return detail::concat("the record in ", options.replay, " has no end with the weights of its ",
                          "training, so those of the replay are not compared");
  if (recorded != weights)
    throw Error(Errc::bad_data, "the record in ", options.replay, " ended with the weights ",
                recorded, ", and its replay with ", weights,
                "; the program, its first values or its data differ, or the processors do");
  return {};
}

}  // namespace troupe
