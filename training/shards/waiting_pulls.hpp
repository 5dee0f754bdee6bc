// WaitingPulls: the pulls of a slice that wait for an update, each once, in the order of arrival.
// Owner: HeldSlice. Thread: that of Shard's caller.
#pragma once

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "training/parameters/messages.hpp"

namespace troupe {

class WaitingPulls {
 public:
  struct Waiting {
    Pull pull;
    uint64_t to = 0;
  };

  bool empty() const { return all_.empty(); }
  bool has(uint64_t to, const Pull& pull) const { return known_.count({to, pull.ticket}) > 0; }
  void add(const Pull& pull, uint64_t to) {
    known_.emplace(to, pull.ticket);
    all_.push_back({pull, to});
  }
  std::vector<Waiting> take() {  // all of them
    known_.clear();
    return std::exchange(all_, {});
  }
  int64_t forget(uint64_t to) {  // returns the number of pulls of the sender
    std::erase_if(known_, [&](const auto& key) { return key.first == to; });
    return static_cast<int64_t>(std::erase_if(all_, [&](const Waiting& w) { return w.to == to; }));
  }

 private:
  std::vector<Waiting> all_;
  std::set<std::pair<uint64_t, uint64_t>> known_;  // by sender and ticket
};

}  // namespace troupe
