// OwedAnswers: answers that a shard's actor gives later. A requester whose answer is still owed
// when the actor ends gets Errc::peer_lost.
// Owner: the shard's actor. Thread: that of its state.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include <caf/all.hpp>

#include "actors/async/messages.hpp"

namespace troupe {

class OwedAnswers {
 public:
  ~OwedAnswers() {
    for (auto& [number, promise] : promises_)
      promise.deliver(to_caf(Errc::peer_lost, "the shard died before it had answered"));
  }
  uint64_t owe(caf::response_promise promise) {
    promises_[next_] = std::move(promise);
    return next_++;
  }
  const caf::response_promise& promise(uint64_t number) const { return promises_.at(number); }
  template <class Answer>
  void pay(uint64_t number, Answer&& answer) {
    promises_.extract(number).mapped().deliver(std::forward<Answer>(answer));
  }

 private:
  std::map<uint64_t, caf::response_promise> promises_;
  uint64_t next_ = 1;
};

}  // namespace troupe
