// TrainLead: what is the same in the trainer and in the simulator of how a training is led: a
// TrainLoop decides, and what is about parameters is carried out with a ParameterGroup. How a step
// runs, where events wait and what a person hears is said by who derives from it.
//
// What others have to say becomes an event. One thread, which leads, calls events one after the
// other and carries out their orders; nothing here is touched by another one.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "training/group/parameter_group.hpp"
#include "training/loop/train_hands.hpp"
#include "troupe/session.hpp"

namespace troupe {

class TrainLead : public TrainHands {
 public:
  using Event = std::function<TrainOrders()>;
  // Keeps an event for the leading thread; any thread. Those that come before begin() wait for it.
  // It may be called when this object is gone: its events are then called by nobody.
  using Post = std::function<void(Event)>;

 protected:
  explicit TrainLead(Post post) : post_(std::move(post)) {}

  virtual ParameterGroup& group() = 0;
  virtual TrainLoop::Millis now() const = 0;
  // The checkpoint to restore; nothing: there never was one. Throws: Error(bad_data) if there are
  // some and none is whole, Error(io) if they cannot be read.
  virtual std::optional<Manifest> newest() = 0;

  // What is lost from here on becomes an event.
  void listen();
  // How the group's establish() begins with this checkpoint, and where replicas go on afterwards.
  ParameterGroup::Start start_from(const std::optional<Manifest>& manifest);
  int64_t step_of(const std::optional<Manifest>& manifest);
  // The first orders. Which replicas and shards are led, `plan` need not say.
  TrainOrders begin(TrainLoop::Plan plan, int64_t first);
  // A step's run has ended; its first value is the loss.
  TrainOrders step_ended(int64_t replica, int64_t step, const RunResult& result);

  void take_snapshot(int64_t step) override;
  void restore() override;
  void ask_epoch() override;

  const Post post_;
  // What each one is of, but for its step; without a directory there are none. Set first.
  ParameterGroup::Snapshot checkpoints_;
  std::unique_ptr<TrainLoop> loop_;  // from begin() on
  std::string checkpoint_;           // path of the newest one's manifest
  // What to begin with where there is no checkpoint; null: what the parameters began with.
  ShardMaker::FirstValues values_;

 private:
  void begin_epoch();
  std::optional<Manifest> find_checkpoint();
  std::map<int64_t, int64_t> all_at(int64_t step) const;

  std::string unread_;  // the last word of it in the log
};

}  // namespace troupe
