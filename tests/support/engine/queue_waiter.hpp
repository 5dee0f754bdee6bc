// A waiter for a queue or a barrier in a test, in place of an op's firing.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ops/state/queue.hpp"

namespace troupe {

struct Waiter final : QueueWaiter {
  bool waits() const override { return wanted && !answered; }
  bool accept(std::vector<Tensor> given) override {
    if (!waits() || ends_when_told) return false;
    answered = true;
    outputs = std::move(given);
    return true;
  }
  void fail(Errc with, const std::string& why) override {
    if (!waits()) return;
    answered = true;
    code = with;
    text = why;
  }
  int64_t number() const { return outputs.at(0).item<int64_t>(); }

  bool wanted = true, answered = false;
  bool ends_when_told = false;  // its step ends in the moment in which it is given something
  std::vector<Tensor> outputs;
  Errc code = Errc::ok;
  std::string text;
};
using WaiterPtr = std::shared_ptr<Waiter>;

}  // namespace troupe
