// The order of updates of a training of train(): its record, or the one that it repeats.
// Owner: none, plain functions. Thread: the training thread; they block on the disk.
#pragma once

#include <cstdint>
#include <string>

#include "training/loop/train_driver.hpp"
#include "troupe/training.hpp"

namespace troupe {

// Throws: Error(invalid_argument) for options that do not go with a record or a replay.
void check_order(const TrainOptions& options, bool shared);

// Begins the record of a training that begins at step `at`, or reads the one that it repeats.
// Throws: as begin_record(), read_record() and check_replay().
void set_order(const TrainOptions& options, const CheckpointRequest& checkpoints, int64_t at,
               TrainDriver::Terms& terms);

// Ends the record of a training that has ended with these weights after so many steps. Returns why
// it cannot be repeated; empty: it can, or none was wanted.
std::string end_record(const TrainOptions& options, int64_t steps, const std::string& weights);

// Returns why the weights of a training that has repeated a record are not compared; empty: they
// are equal, or nothing was repeated. Throws: Error(bad_data) if the record ended with others.
std::string check_repeated(const TrainOptions& options, const std::string& weights);

}  // namespace troupe
