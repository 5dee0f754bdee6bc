// Senders: the doors that a shard answers, each under a number that a Shard can keep. It forgets a
// door that is gone and, above kMax doors, the one that was silent for longest: if that one still
// waits for an answer, it asks again, as for any answer that was lost.
//
// The actor monitors each door that number() reports as fresh. LocalShard::ask() uses known() and
// again() alone.
//
// Owner: the shard's actor. Thread: the one that holds the ShardLock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <caf/all.hpp>

#include "training/parameters/local_shard.hpp"

namespace troupe {

class Senders {
 public:
  static constexpr size_t kMax = 4096;  // four sessions of the largest cluster

  struct Number {
    uint64_t number = 0;
    bool fresh = false;
    uint64_t forgotten = 0;  // the door forgotten to make room; 0: none
  };
  // Numbers count from 1 and are never reused.
  Number number(const caf::strong_actor_ptr& who) {
    const Key key{who->node(), who->id()};
    auto [it, fresh] = numbers_.try_emplace(key, next_);
    if (!fresh) {
      doors_.at(it->second).used = ++clock_;
      return {it->second, false, 0};
    }
    doors_[next_] = {key, caf::actor_cast<ParameterDoor>(who), ++clock_};
    return {next_++, true, doors_.size() > kMax ? forget_silent() : 0};
  }
  // Notes that the door was heard of again; false if it was forgotten.
  bool again(uint64_t number) {
    const auto it = doors_.find(number);
    if (it == doors_.end()) return false;
    it->second.used = ++clock_;
    return true;
  }
  // The number of the door, or 0.
  uint64_t known(const caf::strong_actor_ptr& who) const {
    const auto it = numbers_.find({who->node(), who->id()});
    return it == numbers_.end() ? 0 : it->second;
  }
  // Null if the door was forgotten.
  const ParameterDoor* find(uint64_t number) const {
    const auto it = doors_.find(number);
    return it == doors_.end() ? nullptr : &it->second.actor;
  }
  // Removes the door and returns its number, or 0 if it is not one of these.
  uint64_t gone(const caf::actor_addr& who) {
    const auto it = numbers_.find({who.node(), who.id()});
    if (it == numbers_.end()) return 0;
    const uint64_t number = it->second;
    doors_.erase(number);
    numbers_.erase(it);
    return number;
  }
  size_t size() const { return doors_.size(); }

 private:
  // A door's id is unique in its process and the same in all its proxies.
  using Key = std::pair<caf::node_id, caf::actor_id>;
  struct Door {
    Key key;
    ParameterDoor actor;
    uint64_t used = 0;  // clock_ at the last use
  };

  uint64_t forget_silent() {
    const auto silent = std::min_element(
        doors_.begin(), doors_.end(),
        [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
    const uint64_t number = silent->first;
    numbers_.erase(silent->second.key);
    doors_.erase(silent);
    return number;
  }

  std::map<Key, uint64_t> numbers_;
  std::map<uint64_t, Door> doors_;  // by number
  uint64_t next_ = 1, clock_ = 0;
};

}  // namespace troupe
