// CheckpointSchedule: the steps at which a training takes checkpoints, and how far the newest one
// is: begun, captured by the shards, on disk. At most one is open, from begin() to end(), so the
// shards capture none before the files of the one before are written.
// Owner: TrainLoop. Thread: the owner's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

namespace troupe {

class CheckpointSchedule {
 public:
  // The first multiple of `every` after `step`.
  static int64_t multiple_after(int64_t step, int64_t every) { return (step / every + 1) * every; }

  // `wanted`: false for a training without checkpoints. `every`: in steps; 0: only at the end.
  CheckpointSchedule(bool wanted, int64_t every) : wanted_(wanted), every_(every) {}

  // The replicas are at the step of a checkpoint on disk; 0: at the beginning, without one.
  void go_to(int64_t step) {
    captured_ = written_ = step > 0 ? step : -1;
    refused_.clear();
  }

  // The step at which all replicas stop for the next one, if there is one before `end`; else `end`.
  int64_t next(int64_t end) const {
    if (!wanted_ || every_ == 0) return end;
    return std::min(end, multiple_after(std::max<int64_t>(captured_, 0), every_));
  }
  bool due(int64_t step, int64_t end) const {
    return wanted_ && captured_ < step && (step >= end || next(end) <= step);
  }

  void begin(int64_t step) {
    open_ = true;
    before_ = captured_;
    step_ = step;
  }
  void captured() { captured_ = step_; }
  // False if none was open.
  bool end(bool written) {
    if (!std::exchange(open_, false)) return false;
    if (written) written_ = step_;
    if (written) refused_.clear();
    return true;
  }
  // After its failed end: it is due again, or passed over.
  void repeat() { captured_ = before_; }
  void repeat_last(std::string why) {  // the one of the last step: nothing else is left to do
    repeat();
    refused_ = std::move(why);
  }
  void pass_over() { captured_ = step_; }
  // The shards lost links, and no values. One that was captured and then failed is not due again,
  // as shards may be past its step; the last one is, as no shard goes past the end.
  void keep(int64_t end) {
    refused_.clear();
    captured_ = std::max(captured_, written_);
    if (captured_ >= end) captured_ = written_;
  }

  bool open() const { return open_; }
  int64_t step() const { return step_; }        // of the newest that was begun
  int64_t newest() const { return captured_; }  // captured or passed over; -1: none
  int64_t written() const { return written_; }  // the newest on disk; -1: none
  // Why the one of the last step could not be written so far; empty: nothing refused it.
  const std::string& refused() const { return refused_; }

 private:
  const bool wanted_;
  const int64_t every_;
  bool open_ = false;
  int64_t step_ = -1, captured_ = -1, written_ = -1;
  int64_t before_ = -1;  // captured_ when the newest began
  std::string refused_;
};

}  // namespace troupe
