// TrainStart: what a training begins with: the claim of its folder, the place of the owner of a
// shared container if that one is away, and a checkpoint, the values that are there, or none.
//
// Owner: Trainer. Thread: the training thread.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>

#include "actors/async/patience.hpp"
#include "training/checkpoints/checkpoint_folder.hpp"
#include "training/group/parameter_group.hpp"
#include "training/loop/program_calls.hpp"

namespace troupe {

class TrainStart {
 public:
  TrainStart(Session& session, const TrainOptions& options, ParameterGroup& group,
             ProgramCalls& program);

  // Work that precedes the first step is tried again until patience ends; `full`: also if a node
  // has no memory for it.
  template <class F>
  void patiently(const F& what, bool full = false) {
    troupe::patiently(
        options_.patience, what,
        [this](const Error& e) {
          program_.tell(TrainEvent::recovering,
                        detail::concat("not begun yet, tried again: ", e.what()));
          program_.rethrow();
          return true;
        },
        full);
  }
  // The checkpoint to begin with, or none to begin with first values. Claims the folder for the
  // owner of the parameters.
  std::optional<Manifest> begin_with(CheckpointRequest& checkpoints);
  // The values that were loaded or trained before, for the training to start from; null: there are
  // none, or they are lost.
  ShardMaker::FirstValues present_values();
  // The newest checkpoint that is whole; damaged ones are reported once.
  CheckpointFolder::Found find_newest();
  // None: no checkpoints.
  const std::optional<CheckpointFolder>& folder() const { return folder_; }

 private:
  void take_over(CheckpointRequest& checkpoints);
  void give_back(CheckpointRequest& checkpoints);  // the claim of the folder

  Session& session_;
  const TrainOptions& options_;
  ParameterGroup& group_;
  ProgramCalls& program_;
  std::optional<CheckpointFolder> folder_;
  std::set<std::string> damaged_;  // the damaged checkpoints that were reported
};

}  // namespace troupe
