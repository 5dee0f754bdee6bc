// AsyncInputs: lets an asynchronous kernel pass an input on to a receiver that may write it in
// place, once no other handle holds it.
// Owner: the engine, whose AsyncContext implements it. Thread: the one that runs `start`.
#pragma once

#include "troupe/op.hpp"

namespace troupe {

// A second interface of the engine's AsyncContext.
class AsyncInputs {
 public:
  // Moves input i out, so that input() no longer has it. If the node is its last reader, the step
  // drops its handle, too. Requires: `start` has not returned.
  virtual Tensor take_input(int i) = 0;

 protected:
  ~AsyncInputs() = default;
};

inline Tensor take_input(AsyncContext& ctx, int i) {
  auto* const inputs = dynamic_cast<AsyncInputs*>(&ctx);
  return inputs ? inputs->take_input(i) : ctx.input(i);
}

}  // namespace troupe
