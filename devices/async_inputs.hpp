// Inputs that an async kernel hands on: to somebody who may write where they are, once nobody else
// holds them.
#pragma once

#include "troupe/op.hpp"

namespace troupe {

// What the engine's AsyncContext is as well.
class AsyncInputs {
 public:
  // Input i, which input() does not have any more. If the node is its last reader, the step holds
  // it no more, either. Requires: `start` has not returned.
  virtual Tensor take_input(int i) = 0;

 protected:
  ~AsyncInputs() = default;
};

inline Tensor take_input(AsyncContext& ctx, int i) {
  auto* const inputs = dynamic_cast<AsyncInputs*>(&ctx);
  return inputs ? inputs->take_input(i) : ctx.input(i);
}

}  // namespace troupe
