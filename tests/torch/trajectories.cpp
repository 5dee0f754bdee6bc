// Optimizers and schedules against PyTorch's and Keras's: the same initial values and gradients,
// and the values in a session's shards step by step.
#include <cmath>

#include "tests/torch/cases.hpp"
#include "troupe/ops.hpp"
#include "troupe/session.hpp"
#include "troupe/optimizer.hpp"

namespace troupe {
namespace {

constexpr int kSteps = 25;
constexpr int64_t kSize = 6;

std::vector<double> numbers_of(const Tensor& tensor) {
  const auto values = tensor.values<double>();
  return {values.begin(), values.end()};
}

// Arbitrary numbers of both signs, different in each step.
std::vector<double> gradient_of(int step) {
  std::vector<double> out;
  for (int64_t i = 0; i < kSize; ++i)
    out.push_back(std::sin(1.7 * step + 2.3 * static_cast<double>(i)) +
                  0.3 * std::cos(static_cast<double>(step * i)));
  return out;
}

std::string settings(const Optimizer& o) {
  const auto number = [](const char* name, double value) {
    const std::string text = to_json({value});
    return ", \"" + std::string(name) + "\": " + text.substr(1, text.size() - 2);
  };
  return "{\"kind\": \"" + o.kind + "\"" + number("learning_rate", o.learning_rate) +
         number("momentum", o.momentum) + number("beta1", o.beta1) + number("beta2", o.beta2) +
         number("epsilon", o.epsilon) + number("rho", o.rho) +
         ", \"centered\": " + (o.centered ? "true" : "false") +
         number("weight_decay", o.weight_decay) + number("beta", o.beta) + number("l1", o.l1) +
         number("l2", o.l2) + "}, \"schedule\": {\"kind\": \"" + o.schedule.kind + "\"" +
         number("period", static_cast<double>(o.schedule.period)) +
         number("factor", o.schedule.factor) + number("end", o.schedule.end) +
         number("power", o.schedule.power) + number("rate", o.learning_rate) + "}";
}

// The loss is the sum of the parameter times a feed, so the feed is the gradient.
std::string trajectory(const Optimizer& optimizer, const std::vector<double>& initial) {
  Graph graph;
  const Output w = parameter("w", constant(graph, Tensor::of<double>(initial, {kSize})));
  const Output fed = placeholder(graph, DType::f64, {kSize});
  const Output step = minimize(reduce_sum(w * fed), optimizer);
  Session session = Session::local(graph, {.threads = 1});
  std::string gradients, values;
  for (int t = 0; t < kSteps; ++t) {
    const std::vector<double> gradient = gradient_of(t);
    session.run({step}, {{fed, Tensor::of<double>(gradient, {kSize})}});
    const char* comma = t == 0 ? "" : ", ";
    gradients += detail::concat(comma, to_json(gradient));
    values += detail::concat(comma, to_json(numbers_of(session.run({w})[0])));
  }
  return "{\"name\": \"" + describe(optimizer) + "\", \"optimizer\": " + settings(optimizer) +
         ", \"initial\": " + to_json(initial) + ", \"gradients\": [" + gradients +
         "], \"values\": [" + values + "]}";
}

std::vector<std::string> trajectories(const std::vector<Optimizer>& optimizers) {
  std::vector<std::string> out;
  for (const Optimizer& optimizer : optimizers)
    out.push_back(trajectory(optimizer, optimizer.kind == "ftrl"
                                            ? std::vector<double>(kSize, 0.0)
                                            : std::vector<double>{1, -2, 0.5, 3, -0.25, 0.125}));
  return out;
}

}  // namespace

std::vector<std::string> torch_trajectories() {
  // PyTorch adds epsilon outside the root, so epsilon is almost zero here.
  const double tiny = 1e-60;
  return trajectories({sgd(0.1), momentum(0.05, 0.8), nesterov(0.05, 0.8), adagrad(0.1),
                       adadelta(1, 0.9), rmsprop(0.01, 0.9, 0, tiny), rmsprop(0.01, 0.9, 0.7, tiny),
                       adam(0.02), adam(0.02, 0.8, 0.95, 1e-4), adamw(0.02, 0.1),
                       sgd(0.1).with(step_decay(7, 0.5)), adam(0.1).with(exponential_decay(5, 0.7)),
                       momentum(0.05).with(polynomial_decay(20, 0, 2)),
                       adamw(0.05, 0.1).with(cosine_decay(30, 0.1))});
}

std::vector<std::string> keras_trajectories() {
  // Keras's weight decay in Lamb differs from the paper's, so there is none here.
  return trajectories({ftrl(0.1), ftrl(0.2, 0.3, 0.1), ftrl(0.2, 0.1, 0.05, 0.5), lamb(0.02, 0),
                       rmsprop(0.01, 0.9, 0.5, 1e-3), rmsprop(0.01, 0.9, 0, 1e-3, true)});
}

}  // namespace troupe
