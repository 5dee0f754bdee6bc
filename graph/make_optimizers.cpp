// Makes the optimizers of troupe/optimizer.hpp.
#include <utility>

#include "troupe/optimizer.hpp"

namespace troupe {

Optimizer sgd(double learning_rate) { return {.kind = "sgd", .learning_rate = learning_rate}; }

Optimizer momentum(double learning_rate, double momentum) {
  return {.kind = "momentum", .learning_rate = learning_rate, .momentum = momentum};
}

Optimizer nesterov(double learning_rate, double momentum) {
  return {.kind = "nesterov", .learning_rate = learning_rate, .momentum = momentum};
}

Optimizer adagrad(double learning_rate, double epsilon) {
  return {.kind = "adagrad", .learning_rate = learning_rate, .epsilon = epsilon};
}

Optimizer adadelta(double learning_rate, double rho, double epsilon) {
  return {.kind = "adadelta", .learning_rate = learning_rate, .epsilon = epsilon, .rho = rho};
}

Optimizer rmsprop(double learning_rate, double rho, double momentum, double epsilon,
                  bool centered) {
  return {.kind = "rmsprop",
          .learning_rate = learning_rate,
          .momentum = momentum,
          .epsilon = epsilon,
          .rho = rho,
          .centered = centered};
}

Optimizer adam(double learning_rate, double beta1, double beta2, double epsilon) {
  return {.kind = "adam",
          .learning_rate = learning_rate,
          .beta1 = beta1,
          .beta2 = beta2,
          .epsilon = epsilon};
}

Optimizer adamw(double learning_rate, double weight_decay, double beta1, double beta2,
                double epsilon) {
  return {.kind = "adamw",
          .learning_rate = learning_rate,
          .beta1 = beta1,
          .beta2 = beta2,
          .epsilon = epsilon,
          .weight_decay = weight_decay};
}

Optimizer lamb(double learning_rate, double weight_decay, double beta1, double beta2,
               double epsilon) {
  Optimizer out = adamw(learning_rate, weight_decay, beta1, beta2, epsilon);
  out.kind = "lamb";
  return out;
}

Optimizer ftrl(double learning_rate, double l1, double l2, double beta) {
  return {.kind = "ftrl", .learning_rate = learning_rate, .beta = beta, .l1 = l1, .l2 = l2};
}

Optimizer Optimizer::with(Schedule changed) const {
  Optimizer out = *this;
  out.schedule = std::move(changed);
  return out;
}

}  // namespace troupe
