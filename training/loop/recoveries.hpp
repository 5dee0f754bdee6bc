// Recoveries: the losses of a training's shards, and what came of each: shards restored from a
// checkpoint, or found as they were, which is no recovery. Losses without a new step in between are
// counted: after kLossesMax of them the program itself is taken for their cause. A step with bad
// data may be left for a checkpoint, too, though no shard is lost.
// Owner: TrainLoop. Thread: the owner's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

namespace troupe {

class Recoveries {
 public:
  static constexpr int kLossesMax = 20;

  void lost() { ++count_, ++open_; }
  // Leaves a step with bad data: at most `max` times in all, and not the same step twice in a row,
  // or returns false.
  bool roll_back(int64_t step, int64_t max) {
    if (rolled_back_ >= max || left_ == step) return false;
    ++rolled_back_;
    left_ = step;
    goes_back_ = true;
    lost();
    return true;
  }
  int64_t rolled_back() const { return rolled_back_; }
  void go_back() { goes_back_ = true; }
  // The restore that follows gives all shards the values of a checkpoint.
  bool goes_back() const { return goes_back_; }
  // Restoring begins because of a loss. Returns the losses in a row.
  int begin() { return ++in_a_row_; }
  // Shards were restored, and a replica went back by so many steps.
  void went_back(int64_t steps) {
    back_ = std::max(back_.value_or(0), steps);
    goes_back_ = false;
  }
  void lose_updates(int64_t count) { lost_updates_ += count; }
  // All shards are there. Returns how far a replica went back since they were there before; none:
  // they are as they were.
  std::optional<int64_t> end() {
    if (!back_) count_ -= open_;
    open_ = 0;
    return std::exchange(back_, std::nullopt);
  }
  // A step that had not been done before is done.
  void reached(int64_t done_steps) {
    if (done_steps <= farthest_) return;
    farthest_ = done_steps;
    in_a_row_ = 0;
  }

  int64_t count() const { return count_; }
  int64_t lost_updates() const { return lost_updates_; }
  int64_t farthest() const { return farthest_; }  // the most steps that were ever done

 private:
  int64_t count_ = 0;
  int64_t open_ = 0;             // of these, since the shards were there
  std::optional<int64_t> back_;  // since then; none: not restored
  int in_a_row_ = 0;             // restores since farthest_ was reached
  int64_t farthest_ = 0;
  int64_t lost_updates_ = 0;
  int64_t rolled_back_ = 0, left_ = -1;  // left_: the step of the newest
  bool goes_back_ = false;
};

}  // namespace troupe
