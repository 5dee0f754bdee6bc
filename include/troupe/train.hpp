// What a graph needs to be trained: optimizers and minimize(). The loop that runs it is in
// troupe/trainer.hpp. Implemented in graph/minimize.cpp and ops/push_gradient.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "troupe/graph.hpp"

namespace troupe {

// How shards turn a gradient g into an update of a parameter w. Slots begin at zero; t counts
// updates from 1.
//   sgd        w -= learning_rate * g
//   momentum   v = momentum * v + g                 (Polyak 1964)
//              w -= learning_rate * v
//   adam       m = beta1 * m + (1 - beta1) * g      (Kingma and Ba 2015)
//              v = beta2 * v + (1 - beta2) * g^2
//              w -= learning_rate * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon)
struct Optimizer {
  std::string kind = "sgd";
  double learning_rate = 0.01;
  double momentum = 0.9;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
};
Optimizer sgd(double learning_rate);
Optimizer momentum(double learning_rate, double momentum = 0.9);
Optimizer adam(double learning_rate = 0.001, double beta1 = 0.9, double beta2 = 0.999,
               double epsilon = 1e-8);

// Adds the gradients of `loss`, a floating scalar, a push of each to its parameter's shards, and a
// node without outputs that has run when all pushes are acknowledged; run that to train one step.
// `parameters` {}: all floating ones that the loss depends on. Nodes that read one parameter for
// one slot on several devices are pushed to as their sum, once; a push waits for these reads, so
// that no step reads its own update. Throws: Error(invalid_argument) for a loss that is no floating
// scalar, naming its node; if no gradient reaches a parameter that was given, naming it; and if
// none reaches any.
Output minimize(Output loss, const Optimizer& optimizer, std::vector<Output> parameters = {},
                Origin at = Origin::here());

// push_gradient() of troupe/ops.hpp with an optimizer. Runs after the nodes `control_inputs`.
Output push_gradient(Output parameter, Output gradient, const Optimizer& optimizer,
                     const std::vector<int32_t>& control_inputs = {}, Origin at = Origin::here());

}  // namespace troupe
