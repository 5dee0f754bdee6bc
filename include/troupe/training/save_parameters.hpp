// A checkpoint of a program that trains in a loop of its own, with Session::run(). Those of train()
// are its own (troupe/trainer.hpp). Implemented in training/group/parameter_values.cpp.
//
//   for (int64_t step = 0; step < steps; ++step) {
//     session.run({loss, update}, batch(step), {.step = step});
//     if ((step + 1) % 1000 == 0) save_parameters(session, "checkpoints");
//   }
//
// Later, in a new process: load_parameters(session, "checkpoints") of troupe/trainer.hpp, and the
// loop goes on; or train() with TrainOptions::resume.
#pragma once

#include <string>

#include "troupe/trainer.hpp"

namespace troupe {

// Writes the values of all parameters that the session has used, with the optimizer's state beside
// them, as a checkpoint into a folder, of which the newest `keep` stay; returns the path of its
// manifest. Its step is the number of training steps that were done; load_parameters() goes on
// behind it. Throws: Error(invalid_argument) while a training step is under way, for replicas that
// have done different numbers of steps, for no parameters or another session's, keep below 1, and a
// folder that a training uses; Error(timeout) after 60 s, as when the last step has failed before
// all had pushed: run another one first; Error(io); Error(peer_lost) and Error(stale) while a shard
// is lost.
std::string save_parameters(Session& session, const std::string& checkpoint_dir, int keep = 3);

}  // namespace troupe
