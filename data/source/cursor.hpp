// SourceCursor: the records of a source by step, for one replica of several. A step of an epoch is
// a group of one batch for each replica. Where the last group has fewer batches than there are
// replicas, its largest ones are cut in two until there are enough, each by itself. A rest of fewer
// records than replicas joins the batches before it where these are too small to be cut: a row goes
// into a batch that the same stages made, though perhaps of another bucket.
// Owner: a StepReader. Thread: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "data/source/spec.hpp"

namespace troupe {

// The groups of one epoch.
class StepGroups {
 public:
  StepGroups(const SourceStage& stage, int64_t epoch, int64_t replicas)
      : from_(stage.open(epoch)),
        replicas_(static_cast<size_t>(replicas)),
        batching_(stage.batching()) {}
  // One record for each replica; empty at the end of the epoch. Throws: Error(bad_data) for an
  // epoch that the replicas cannot share.
  std::vector<Lazy> next();

 private:
  std::vector<Lazy> group();
  std::vector<Lazy> cut(std::vector<Lazy> batches, size_t parts) const;
  std::vector<Lazy> joined(std::vector<Lazy> batches, const std::vector<Lazy>& more) const;
  Error cannot_share(const Lazy& first, size_t records) const;

  const std::unique_ptr<RecordStream> from_;
  const size_t replicas_;
  const Batching batching_;
  std::vector<std::vector<Lazy>> held_;  // read ahead: the next groups, the first one last
  bool begun_ = false;
};

class SourceCursor {
 public:
  // `epochs`: after which the data end; -1: none. Requires: 0 <= replica < replicas.
  SourceCursor(Stage stage, int64_t epochs, int64_t replica, int64_t replicas);

  // The record of a step, or null past the end of the data. If it is not the next one, the records
  // before it in its epoch are read, and where epochs differ in length those of all epochs before
  // it. Throws: Error(bad_data), Error(io).
  Lazy at(int64_t step);
  // The number of steps in each epoch. Throws: Error(invalid_argument) if it may differ between
  // epochs.
  int64_t steps_per_epoch();

 private:
  std::optional<int64_t> known_count() const;
  int64_t counted(int64_t epoch) const;
  Lazy found(int64_t step);
  int64_t start_of(int64_t epoch);
  void find_epoch(int64_t step);
  void go_to(int64_t step);
  void end_epoch();

  const Stage stage_;
  const int64_t epochs_;  // -1: no end
  const int64_t replica_, replicas_;
  std::optional<int64_t> count_;       // steps of every epoch, where it is known
  std::vector<int64_t> starts_ = {0};  // first steps of epochs, where their numbers of steps differ
  // Steps from first_ to before known_ are in epoch_, whatever groups_ is.
  int64_t epoch_ = 0, first_ = 0, known_ = 0;
  std::unique_ptr<StepGroups> groups_;  // of epoch_; null: not open, or it has failed
  int64_t next_ = 0;                    // the step that groups_ gives next
};

}  // namespace troupe
