// MessageBag: the messages under way in a ShardWorld. The seed selects the next event, so messages
// are late and overtake each other; lossy ones may be dropped and doubled until the faults end.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/simulation/shard_world_options.hpp"

namespace troupe::sim {

class MessageBag {
 public:
  MessageBag(const ShardWorldOptions& options, Draw& draw, History& history)
      : o_(options), draw_(draw), history_(history) {}

  void reliable(std::string label, std::function<void()> go) {
    events_.push_back({std::move(label), std::move(go)});
  }
  void lossy(const std::string& label, const std::function<void()>& go) {
    if (!healed_ && draw_.chance(o_.drop)) return history_.note("drop " + label);
    events_.push_back({label, go});
    if (!healed_ && draw_.chance(o_.duplicate)) events_.push_back({"again " + label, go});
  }
  void heal() { healed_ = true; }  // nothing is lost or doubled any more

  bool empty() const { return events_.empty(); }
  size_t size() const { return events_.size(); }
  void deliver_one() {  // Requires: not empty
    const size_t i = draw_.below(events_.size());
    Event event = std::move(events_[i]);
    events_[i] = std::move(events_.back());
    events_.pop_back();
    if (o_.planted == Planted::outside_random) {
      static int64_t count = 0;
      event.label += detail::concat(" #", ++count);
    }
    history_.note(std::move(event.label));
    event.go();
  }

 private:
  struct Event {
    std::string label;
    std::function<void()> go;
  };
  const ShardWorldOptions& o_;
  Draw& draw_;
  History& history_;
  bool healed_ = false;
  std::vector<Event> events_;
};

}  // namespace troupe::sim
