// A checkpoint of a program that trains in a loop of its own, with Session::run(); train() writes
// its own (troupe/trainer.hpp). Implemented in training/group/parameter_values.cpp.
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

// Writes a checkpoint with the values of all parameters that the session has used and their
// optimizer state into a folder, and keeps the newest `keep` there; returns the path of its
// manifest. Its step is the number of training steps done; load_parameters() continues after it.
// Throws: Error(invalid_argument) while a training step is under way, for replicas that have done
// different numbers of steps, without parameters or for another session's, for keep below 1, and
// for a folder that a training uses; Error(timeout) after 60 s, for example if the last step failed
// before all replicas had pushed (run another step first); Error(io); Error(peer_lost) and
// Error(stale) while a shard is lost.
std::string save_parameters(Session& session, const std::string& checkpoint_dir, int keep = 3);

}  // namespace troupe
