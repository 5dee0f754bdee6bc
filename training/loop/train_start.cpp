// Claims, take-overs and checkpoints before the first step.
#include "training/loop/train_start.hpp"

#include <algorithm>

#include "training/group/session_parameters.hpp"
#include "training/loop/sources.hpp"
#include "training/loop/train_loop.hpp"

namespace troupe {

TrainStart::TrainStart(Session& session, const TrainOptions& options, ParameterGroup& group,
                       ProgramCalls& program)
    : session_(session), options_(options), group_(group), program_(program) {
  if (!options.checkpoint_dir.empty()) folder_.emplace(options.checkpoint_dir);
}

CheckpointFolder::Found TrainStart::find_newest() {
  if (!folder_) return {};
  CheckpointFolder::Found found = folder_->newest(group_.in_graph().made(), options_.data_seed);
  for (const std::string& line : found.damaged)
    if (damaged_.insert(line).second) program_.tell(TrainEvent::warning, line);
  if (!found.manifest && !found.damaged.empty() && !program_.threw())  // it does not begin anew
    refuse_damaged(*folder_, found.damaged.size());
  return found;
}

// Becomes the owner of a container whose owner is away, unless its folder of checkpoints cannot be
// claimed: an owner that is frozen holds it, and both trainings would end.
void TrainStart::take_over(CheckpointRequest& checkpoints) {
  const auto owner = std::make_shared<ShardMaker::OwnerSeen>();
  patiently([&] {
    group_.wait([&](ParameterGroup::Done done) { group_.ask_owner(owner, std::move(done)); });
  });
  if (!owner->away) return;  // the claim of an owner that is about to begin must not fail
  if (folder_) try {
      checkpoints.lock = folder_->claim();
      if (!options_.resume) folder_->want_unused();
    } catch (const Error& e) {
      program_.tell(TrainEvent::warning,
                    detail::concat("the owner of the parameters is away, and this "
                                   "program does not take its place: ",
                                   e.what()));
      return give_back(checkpoints);
    }
  patiently(
      [&] { group_.wait([&](ParameterGroup::Done done) { group_.take_over(std::move(done)); }); });
  if (!group_.owner()) give_back(checkpoints);
  if (options_.anew) group_.went_on();
}

void TrainStart::give_back(CheckpointRequest& checkpoints) {
  checkpoints.lock = nullptr;
  if (folder_) folder_.emplace(options_.checkpoint_dir);
}

std::optional<Manifest> TrainStart::begin_with(CheckpointRequest& checkpoints) {
  if (group_.shared()) {  // the owner is known only once the parameters exist
    patiently([&] {
      group_.wait([&](ParameterGroup::Done done) { group_.ensure({}, std::move(done)); });
    });
    group_.train(checkpoints.replicas);
    if (!group_.owner()) take_over(checkpoints);
  }
  if (!folder_) return std::nullopt;
  if (!group_.owner()) return std::nullopt;  // its owner takes and restores checkpoints
  if (!checkpoints.lock) checkpoints.lock = folder_->claim();
  if (!options_.resume) {
    folder_->want_unused();
    return std::nullopt;
  }
  const auto [manifest, damaged, changed] = find_newest();
  program_.rethrow();
  if (!manifest)
    program_.tell(
        TrainEvent::warning,
        "no checkpoint in " + options_.checkpoint_dir +
            "; training from the start. Stop it and name the folder, if there is one elsewhere");
  for (const std::string& line : changed) program_.tell(TrainEvent::warning, line);
  if (manifest && options_.rule && manifest->rule != *options_.rule)
    program_.tell(
        TrainEvent::warning,
        detail::concat("the checkpoint was trained with the rule ", to_string(manifest->rule),
                       "; training goes on with ", to_string(*options_.rule)));
  if (manifest && !manifest->compute.empty() && manifest->compute != checkpoints.compute)
    program_.tell(TrainEvent::warning,
                  detail::concat("training continues in ", checkpoints.compute,
                                 "; the checkpoint was written in ", manifest->compute));
  if (const std::string change =
          manifest ? source_change(manifest->sources, checkpoints.sources) : "";
      !change.empty())
    program_.tell(TrainEvent::warning, change);
  if (manifest && options_.steps > 0 && manifest->step > options_.steps)
    throw Error(
        Errc::invalid_argument, "the checkpoint in ", folder_->path(), " is of step ",
        manifest->step, ", TrainOptions::steps is ", options_.steps,
        "; ask for at least as many (fit(): epochs times batches), or begin anew in another "
        "folder");
  return manifest;
}

ShardMaker::FirstValues TrainStart::present_values() {
  if (!group_.owner() || group_.took_over()) return nullptr;  // its epoch keeps the values
  try {
    const std::vector<ParameterSlice> slices = parameter_slices(session_);
    if (group_.was_established() ||
        std::any_of(slices.begin(), slices.end(), [](const auto& s) { return s.version > 0; })) {
      want_no_tables(group_.in_graph().made(), "train()",
                     "and has been trained before; go on from a checkpoint by "
                     "TrainOptions::checkpoint_dir and resume, or begin with a new session");
      return std::make_shared<const std::map<std::string, Tensor>>(parameter_values(session_));
    }
  } catch (const Error& e) {
    if (!TrainLoop::passes(e.code())) throw;
    program_.tell(
        TrainEvent::warning,
        detail::concat("the values that the parameters had are gone, and training begins with "
                       "their first ones: ",
                       e.what()));
  }
  return nullptr;
}

}  // namespace troupe
