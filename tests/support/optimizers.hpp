// One optimizer of each kind, and of each set of accumulators, for tests that hold for all of them.
#pragma once

#include <vector>

#include "training/rules/optimizer.hpp"
#include "troupe/optimizer.hpp"

namespace troupe {

// Updates n elements. They are the whole parameter if the optimizer must see it whole.
template <class T>
void update_once(const Optimizer& optimizer, int64_t t, int64_t n,
                 const OptimizerArrays<T>& arrays) {
  if (!wants_whole_parameter(optimizer)) return OptimizerUpdate<T>(optimizer, t)(n, arrays);
  LambUpdate<T> update(optimizer, t);
  update.moments(n, arrays);
  update.step(n, arrays);
}

inline std::vector<Optimizer> every_optimizer(double learning_rate = 0.1) {
  return {sgd(learning_rate),
          momentum(learning_rate),
          nesterov(learning_rate, 0.8),
          adagrad(learning_rate),
          adadelta(learning_rate),
          rmsprop(learning_rate),
          rmsprop(learning_rate, 0.9, 0.5),
          rmsprop(learning_rate, 0.9, 0, 1e-7, true),
          rmsprop(learning_rate, 0.9, 0.5, 1e-7, true),
          adam(learning_rate),
          adamw(learning_rate),
          lamb(learning_rate),
          ftrl(learning_rate, 0.01, 0.1),
          momentum(learning_rate).with(step_decay(2, 0.5)),
          nesterov(learning_rate).with(piecewise_decay({2, 5}, 0.5, 1)),
          adam(learning_rate).with(cosine_decay(3, 0.1, 2)),
          adamw(learning_rate).with(polynomial_decay(4, 0, 2, 1)),
          sgd(learning_rate).with(exponential_decay(3, 0.9, 3))};
}

}  // namespace troupe
