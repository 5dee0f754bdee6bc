// Residuals: the parts of the gradients of a process's replicas that have not been pushed yet, by
// replica and parameter. A gradient with a codec that has a residual is coded together with the
// residual of the step before; the difference to its codes is the next residual.
//
// At the steps that a FlushPlan names, before each checkpoint and pause and at the end, the sum is
// pushed as it is, so a checkpoint needs no residual. A step that is done again begins with the
// residual that it began with before. When the process dies its residuals are lost, and its
// replicas' next pushes are refused until an epoch begins at a step without residuals.
// Owner: ParameterClient. Thread: any.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "training/codecs/codec.hpp"

namespace troupe {

// The steps after which no replica has a residual.
struct FlushPlan {
  int64_t begin = 0;  // the first step of the epoch
  int64_t every = 0;  // steps from checkpoint to checkpoint, and from pause to pause; 0: none
  int64_t pauses = 0;
  int64_t steps = 0;  // of the training

  bool flushes(int64_t step) const {
    return step + 1 == steps || (every > 0 && (step + 1) % every == 0) ||
           (pauses > 0 && (step + 1) % pauses == 0);
  }
};

class Residuals {
 public:
  struct Coded {
    Tensor gradient;
    Codec::Kind kind = Codec::none;  // none: `gradient` is no code
    std::string refused = {};        // why there is none
    bool lost = false;               // refused until all replicas go back
  };
  // Requires: f32, a codec with a residual.
  Coded code(uint64_t epoch, const Codec& codec, const Tensor& gradient, const GradientKey& key,
             const FlushPlan& plan, const MakeTensor& make);
  void clear();

 private:
  struct Residual {
    std::mutex mutex;  // guards the rest
    int64_t step = -1;
    Tensor before, after;  // undefined: zeros
  };
  using Key = std::pair<int64_t, std::string>;  // replica, parameter
  std::shared_ptr<Residual> find(uint64_t epoch, const GradientKey& key);

  std::mutex mutex_;  // guards the rest
  uint64_t epoch_ = 0;
  std::map<Key, std::shared_ptr<Residual>> residuals_;
};

}  // namespace troupe
