// TrainDriver: drives a training: a TrainLoop decides, and the actions on parameters are carried
// out with a ParameterGroup. The others are the program's: TrainProgram is train() with threads and
// files, or the simulator in virtual time.
//
// Which task computes a replica is decided between the loop and the program: a step of a replica
// that is about to move starts when it has moved.
//
// Each answer of another thread becomes an event. The training thread calls events one after the
// other and carries out their actions.
// Owner: the program. Thread: the training thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "training/group/parameter_group.hpp"
#include "training/loop/replica_places.hpp"
#include "training/loop/train_loop.hpp"
#include "troupe/session.hpp"

namespace troupe {

// The part of a training that is not about parameters. TrainAction defines the actions.
class TrainProgram {
 public:
  virtual ~TrainProgram() = default;
  virtual void start_step(int64_t replica, int64_t step) = 0;  // answer: TrainDriver::step_ended()
  virtual void pause(int64_t step) = 0;
  virtual void ended(Errc code, const std::string& text) = 0;  // finish: ok; fail: the reason
  virtual void tell(Errc about, const std::string& text) = 0;
  virtual void moved(const std::string& text) { tell(Errc::ok, text); }  // replicas have moved
  // The checkpoint to restore; none: there never was one. Throws: Error(bad_data) if there are some
  // and none is whole, Error(io) if they cannot be read.
  virtual std::optional<Manifest> newest() = 0;
  virtual TrainLoop::Millis now() const = 0;
  // For people: the tasks on which the program has placed replicas, and the speed so far.
  virtual std::map<int32_t, std::string> places() const { return {}; }
  virtual void add_speed(TrainingTold&) const {}
};

class TrainDriver {
 public:
  using Event = std::function<TrainActions()>;
  // Keeps an event for the training thread; any thread. Events from before begin() wait for it. It
  // may be called when the driver is gone: its events are then dropped.
  using Post = std::function<void(Event)>;

  struct Terms {
    std::optional<Aggregation> rule;  // to begin with; none: that of the checkpoint, or sync
    bool skips_bad = false;           // gradients that are not finite, and losses that are not
    Compression compression = {};
    int64_t steps = 0;  // at which the training ends; 0: where the data end
    // The folder of a record of the order of updates, and the number of its newest part; the folder
    // of one that is repeated, and the rules of it by their first step.
    std::string record = {}, replay = {};
    int64_t part = 0;
    std::map<int64_t, Aggregation> rules = {};
  };
  // `checkpoints`: each one's request, but for its step; without a directory there are none.
  // `values`: the first values where there is no checkpoint; null: those that the parameters began
  // with. Losses from here on become events.
  TrainDriver(TrainProgram& program, ParameterGroup& group, Post post,
              CheckpointRequest checkpoints, ShardMaker::FirstValues values, Terms terms);
  ~TrainDriver();
  TrainDriver(const TrainDriver&) = delete;

  // Before begin(): the places of replicas, some of which may have moved. Without it none moves.
  void set_places(ReplicaPlaces places);
  // Begins an epoch of the group with this checkpoint, or with the first values.
  void establish(const std::optional<Manifest>& manifest, ParameterGroup::Done done);
  // The step at which the slowest of the replicas continues after it.
  int64_t step_of(const std::optional<Manifest>& manifest) const;
  // Carries out the first actions, after establish(). Replicas and shards need not be in `plan`.
  void begin(TrainLoop::Plan plan, const std::optional<Manifest>& manifest);
  void carry_out(const TrainActions& actions);
  void tick_places();   // with TrainLoop::tick()
  void end_requests();  // when no event is going to be called any more; of other threads
  // Ends the pause of `step`, in which the program has called RateScale::begin_pause(): gives the
  // shards the rate scale that it has asked for, then answers TrainAction::pause.
  void end_pause(int64_t step, bool more);
  // The event of a step that has ended; its first value is the loss.
  TrainActions step_ended(int64_t replica, int64_t step, const RunResult& result);

  bool begun() const { return loop_ != nullptr; }
  TrainLoop& loop() { return *loop_; }  // after begin()
  const CheckpointRequest& checkpoints() const { return checkpoints_; }
  const std::string& newest() const { return newest_; }  // path of its manifest; empty: none
  // Ends the steps that are running now.
  const std::shared_ptr<Cancellation>& cancellation() const { return cancel_; }

 private:
  void carry_out(const ReplicaActions& actions);
  void look_at_members();
  void cancel();
  Aggregation rule_of(const std::optional<Manifest>& manifest) const;
  void check(const Aggregation& rule) const;  // Throws: Error(invalid_argument).
  void change_terms(int64_t step);
  void pause(int64_t step);
  void take_requests();
  TrainActions take(TermChange change, const TrainingRequests::Taken& taken);
  TrainingTold state(const std::string& phase) const;
  TrainingTold progress() const;
  bool goes_on() const;  // from the values that the owner before has left
  void warn_of(int64_t replica, int64_t step, double loss);
  void take_checkpoint(int64_t step);
  void restore();
  void begin_epoch();
  void ask_epoch();
  void ask_source();
  std::optional<Manifest> find_checkpoint();
  std::map<int64_t, int64_t> next_steps(const std::optional<Manifest>& manifest) const;

  TrainProgram& program_;
  ParameterGroup& group_;
  const Post post_;
  const CheckpointRequest checkpoints_;
  const ShardMaker::FirstValues values_;
  Terms terms_;
  int64_t bad_losses_ = 0;
  std::string phase_ = "begins";  // for people
  std::unique_ptr<TrainLoop> loop_;
  ReplicaPlaces places_;
  std::shared_ptr<Cancellation> cancel_ = std::make_shared<Cancellation>();
  std::string newest_;
  std::string unread_;  // the last reason in the log why checkpoints cannot be read
};

}  // namespace troupe
