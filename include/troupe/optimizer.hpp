// The parts of a graph that trains: optimizers, learning-rate schedules, minimize(), and functions
// that change gradients before they are pushed. The loop that runs the graph is in
// troupe/training.hpp. Implemented in graph/optimizer.cpp, make_optimizers.cpp and schedule.cpp, in
// nn/minimize.cpp, accumulate.cpp, clip.cpp, penalty.cpp and moving_average.cpp, and in
// ops/state/push_gradient.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "troupe/graph.hpp"

namespace troupe {

// How the learning rate changes: a factor of it, a pure function of the number of updates. With `k`
// updates done since the warm-up, part = k / period and ended = min(part, 1):
//   constant      1
//   step          factor ^ floor(part)
//   piecewise     factor ^ (the number of `boundaries` that are at most k)
//   exponential   factor ^ part
//   polynomial    end + (1 - end) * (1 - ended) ^ power
//   cosine        end + (1 - end) * (1 + cos(pi * ended)) / 2
//                 (Loshchilov and Hutter 2017, 1 cycle)
// In the warm-up the factor grows in even steps from 1 / warm_up to 1 (Goyal et al. 2017).
struct Schedule {
  std::string kind = "constant";
  int64_t warm_up = 0;  // updates; 0: none
  int64_t period = 1;   // updates
  double factor = 1;
  double end = 0;
  double power = 1;
  std::vector<int64_t> boundaries = {};  // updates, ascending
  friend bool operator==(const Schedule&, const Schedule&) = default;
};
Schedule constant_rate(int64_t warm_up = 0);
Schedule step_decay(int64_t period, double factor = 0.1, int64_t warm_up = 0);
// piecewise_decay({32'000, 48'000}): a tenth of the rate after 32,000 updates, and a hundredth
// after 48,000 (He et al. 2016, 4.2).
Schedule piecewise_decay(std::vector<int64_t> boundaries, double factor = 0.1, int64_t warm_up = 0);
Schedule exponential_decay(int64_t period, double factor, int64_t warm_up = 0);
Schedule polynomial_decay(int64_t period, double end = 0, double power = 1, int64_t warm_up = 0);
Schedule cosine_decay(int64_t period, double end = 0, int64_t warm_up = 0);

// How shards turn a gradient g into an update of a parameter w. Accumulators begin at zero; t
// counts updates from 1; rate is learning_rate times the schedule's factor for t, times the rate
// scale (troupe/training.hpp).
//   sgd        w -= rate * g
//   momentum   v = momentum * v + g                 (Polyak 1964)
//              w -= rate * v
//   nesterov   v = momentum * v + g                 (Nesterov 1983, as in Sutskever et al. 2013)
//              w -= rate * (g + momentum * v)
//   adagrad    a += g^2                             (Duchi et al. 2011)
//              w -= rate * g / (sqrt(a) + epsilon)
//   adadelta   a = rho * a + (1 - rho) * g^2        (Zeiler 2012)
//              d = g * sqrt(b + epsilon) / sqrt(a + epsilon)
//              b = rho * b + (1 - rho) * d^2
//              w -= rate * d
//   rmsprop    a = rho * a + (1 - rho) * g^2        (Tieleman and Hinton 2012)
//              m = rho * m + (1 - rho) * g          (Graves 2013; m is 0 unless `centered`)
//              v = momentum * v + rate * g / sqrt(max(a - m^2, 0) + epsilon)
//              w -= v
//   adam       m = beta1 * m + (1 - beta1) * g      (Kingma and Ba 2015)
//              v = beta2 * v + (1 - beta2) * g^2
//              w -= rate * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon)
//   adamw      as adam, and in the same update      (Loshchilov and Hutter 2019)
//              w -= rate * weight_decay * w
//   lamb       m and v as adam; u = (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon)
//                                       + weight_decay * w            (You et al. 2020)
//              w -= rate * (|w| / |u|) * u, with Euclidean norms over the whole parameter; the
//              quotient is 1 where one of them is 0. So a parameter is one slice, on one shard.
//   ftrl       s = (sqrt(n + g^2) - sqrt(n)) / rate (McMahan et al. 2013, FTRL-Proximal)
//              z += g - s * w
//              n += g^2
//              w = 0 where |z| <= l1, else
//                  (sign(z) * l1 - z) / ((beta + sqrt(n)) / rate + l2)
//              Weights that begin at 0 stay 0 where all gradients were 0. Takes no schedule and
//              no rate scale: s holds for one rate.
// If a parameter is read only by gathers, only the gathered rows are updated, with their
// accumulators (troupe/ops/parameters.hpp).
struct Optimizer {
  std::string kind = "sgd";
  double learning_rate = 0.01;
  double momentum = 0.9;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double rho = 0.9;
  bool centered = false;
  double weight_decay = 0.01;
  double beta = 1;
  double l1 = 0;
  double l2 = 0;
  Schedule schedule = {};
  friend bool operator==(const Optimizer&, const Optimizer&) = default;

  // adam(0.01).with(cosine_decay(10'000))
  Optimizer with(Schedule changed) const;
};
Optimizer sgd(double learning_rate);
Optimizer momentum(double learning_rate, double momentum = 0.9);
Optimizer nesterov(double learning_rate, double momentum = 0.9);
Optimizer adagrad(double learning_rate = 0.01, double epsilon = 1e-10);
Optimizer adadelta(double learning_rate = 1, double rho = 0.95, double epsilon = 1e-6);
Optimizer rmsprop(double learning_rate = 0.001, double rho = 0.9, double momentum = 0,
                  double epsilon = 1e-7, bool centered = false);
Optimizer adam(double learning_rate = 0.001, double beta1 = 0.9, double beta2 = 0.999,
               double epsilon = 1e-8);
Optimizer adamw(double learning_rate = 0.001, double weight_decay = 0.01, double beta1 = 0.9,
                double beta2 = 0.999, double epsilon = 1e-8);
Optimizer lamb(double learning_rate = 0.001, double weight_decay = 0.01, double beta1 = 0.9,
               double beta2 = 0.999, double epsilon = 1e-6);
Optimizer ftrl(double learning_rate = 0.1, double l1 = 0, double l2 = 0, double beta = 1);

// The rate of update number `t`, counted from 1, at a rate scale of 1. Shards call this, so a
// resumed training goes on with the rate it would have had.
double learning_rate_at(const Optimizer& optimizer, int64_t t);

// "sgd(learning rate 0.1, schedule step, period 100, factor 0.5, warm-up 10)": the settings that
// matter for its kind. Graphs, messages and checkpoints hold this text; it reads back with the same
// bits.
std::string describe(const Optimizer& optimizer);

// The parameters that an update trains: the floating ones that the loss depends on, or a list of
// what parameter() returned. An empty list is refused, as a choice by name that matches none.
class TrainedParameters {
 public:
  static TrainedParameters all() { return TrainedParameters(All{}); }
  TrainedParameters(std::vector<Output> list) : list_(std::move(list)) {}  // NOLINT: converts
  TrainedParameters(std::initializer_list<Output> list) : list_(std::in_place, list) {}  // NOLINT
  const std::optional<std::vector<Output>>& list() const { return list_; }  // none: all

 private:
  struct All {};
  explicit TrainedParameters(All) {}
  std::optional<std::vector<Output>> list_;
};
// The parameters that `loss` depends on whose names match one of the patterns, in which * stands
// for any text; and those that match none. To train a head on a frozen body:
//   minimize(loss, adam(), parameters_named(loss, {"head/*"}))
// Throws: Error(invalid_argument) for a pattern that matches no parameter, naming the nearest, and
// if no parameter is left.
std::vector<Output> parameters_named(Output loss, const std::vector<std::string>& patterns,
                                     Origin at = Origin::here());
std::vector<Output> parameters_except(Output loss, const std::vector<std::string>& patterns,
                                      Origin at = Origin::here());

// Adds the gradients of `loss`, a floating scalar; a push of each to its parameter's shards; and a
// node without outputs that has run when all pushes are acknowledged: run that node to train one
// step. If several nodes read one parameter for one replica on several devices, the sum of their
// gradients is pushed once; the push waits for these reads, so that no step reads its own update.
// Throws: Error(invalid_argument) for a loss that is no floating scalar, naming its node; for an
// empty list of parameters; if no gradient reaches a parameter that was given, naming it; and if
// none reaches any.
Output minimize(Output loss, const Optimizer& optimizer,
                const TrainedParameters& parameters = TrainedParameters::all(),
                Origin at = Origin::here());

// The two halves of minimize(), so that gradients can be changed in between:
//   apply_gradients(clip_by_global_norm(parameter_gradients(loss), 1), sgd(0.1))
struct ParameterGradient {
  Output parameter;
  Output gradient;                  // the sum over the parameter's reads for this replica
  std::vector<int32_t> reads = {};  // nodes that the push waits for
};
std::vector<ParameterGradient> parameter_gradients(
    Output loss, const TrainedParameters& parameters = TrainedParameters::all(),
    Origin at = Origin::here());
Output apply_gradients(const std::vector<ParameterGradient>& gradients, const Optimizer& optimizer,
                       Origin at = Origin::here());

// Gradients of a batch that is processed in parts, one after the other, so that only the values of
// one part are in memory. Each of `inputs` is cut into `parts` equal parts along its first
// dimension, `loss_of` is called once for each part with that part of every input, and its result
// is differentiated. Loss and gradients are the means over the parts: if loss_of is a mean over its
// records, they are those of the whole batch, except for rounding. There is one push for each step,
// whatever the number of parts, so aggregation, recovery and learning-rate schedules are
// unaffected, under the synchronous as under the asynchronous rule. Throws: Error(invalid_argument)
// for less than one part, no inputs or inputs without a first dimension, and as
// parameter_gradients(). A step fails if its batch cannot be cut into that many equal parts.
//
//   AccumulatedGradients sum = accumulate_gradients({images, labels}, 4,
//       [&](const std::vector<Output>& part) { return loss_of(part[0], part[1]); });
//   Tower tower{0, sum.loss, apply_gradients(sum.gradients, adam()), {images, labels}, batch};
struct AccumulatedGradients {
  Output loss;
  std::vector<ParameterGradient> gradients;
};
AccumulatedGradients accumulate_gradients(
    const std::vector<Output>& inputs, int64_t parts,
    const std::function<Output(const std::vector<Output>& part)>& loss_of,
    const TrainedParameters& parameters = TrainedParameters::all(), Origin at = Origin::here());

// ---- between gradients and their pushes ----
// They change each replica's gradients, before shards take the mean over replicas. Nodes are made
// in the open scope, and so on its device.

// x * norm / max(norm, the Euclidean norm of x): the same bits as x if that is at most `norm`. A
// norm that is not finite fails the step with Errc::bad_data. Requires: norm > 0.
Output clip_by_norm(Output x, double norm, Origin at = Origin::here());
// clip() and clip_by_norm() for each gradient by itself, and clipping by one norm of all gradients
// (Pascanu et al. 2013).
std::vector<ParameterGradient> clip_by_value(std::vector<ParameterGradient> gradients, double low,
                                             double high, Origin at = Origin::here());
std::vector<ParameterGradient> clip_by_norm(std::vector<ParameterGradient> gradients, double norm,
                                            Origin at = Origin::here());
std::vector<ParameterGradient> clip_by_global_norm(std::vector<ParameterGradient> gradients,
                                                   double norm, Origin at = Origin::here());
// gradient + decay * parameter; for a gradient by rows (troupe/ops/parameters.hpp), only those
// rows. AdamW decays differently, apart from its moments.
std::vector<ParameterGradient> add_weight_decay(std::vector<ParameterGradient> gradients,
                                                double decay, Origin at = Origin::here());

// ---- besides the loss and the update ----

// Add to a loss: scale times the sum of |w|, and scale / 2 times the sum of w^2, over all elements
// of all `parameters`, which have one dtype. The gradient of |w| at 0 is 0.
Output l1_penalty(const std::vector<Output>& parameters, double scale, Origin at = Origin::here());
Output l2_penalty(const std::vector<Output>& parameters, double scale, Origin at = Origin::here());

// The exponential moving average of a parameter, a = decay * a + (1 - decay) * w, as a parameter of
// its own, NAME/average, that begins as w. A step that runs `update`, besides minimize()'s, adds w
// as it has read it. A second call returns the same average. Throws if it has another decay, or for
// a decay outside [0, 1).
struct MovingAverage {
  Output value;
  Output update;
};
MovingAverage moving_average(Output parameter, double decay, Origin at = Origin::here());

// push_gradient() of troupe/ops.hpp with an optimizer. Runs after the nodes `control_inputs`.
Output push_gradient(Output parameter, Output gradient, const Optimizer& optimizer,
                     const std::vector<int32_t>& control_inputs = {}, Origin at = Origin::here());

// ----------------------------------------------------------------------------------------------
// Mixed precision: products in bf16 or f16, everything that must be exact in f32. Implemented in
// graph/mixed_precision.cpp and nn/loss_scale.cpp. Op::precision says how each op computes;
// docs/mixed_precision.md has numbers.
//
//   const auto mixed = mixed_precision(graph);          // the switch: bf16 from here on
//   const Output logits = nn::dense(model, relu(nn::dense(model, images, 128)), 10);
//   const Output loss = reduce_mean(softmax_cross_entropy(logits, labels));
//   const Output update = minimize(loss, adam());
//
// Parameters, their gradients, optimizers and checkpoints stay f32, and so do losses, softmax and
// the statistics of norms. Matrix products and convolutions, forward and backward, read and write
// 16-bit numbers and sum in f32. The ops in between use the dtype of their inputs. The casts are
// nodes of the graph, so text, DOT and traces show them. bf16 has the range of f32 and needs no
// more; f16, whose gradients vanish below 6e-8 and overflow past 65504, needs a scaled loss:
//
//   const auto mixed = mixed_precision(graph, DType::f16);
//   ...
//   const Output update = minimize_scaled(loss, adam());

// Nodes added while it is open compute as said above, in `compute`: bf16 or f16; f32 turns it off
// within. Inputs of a node that are f32 or of that dtype are cast to the node's dtype of
// computation; f64 and integers are left alone. An op that has a kernel for f32 and none for
// `compute` computes in f32. Variables of loops, queues and fetched values keep their types.
// Gradients of these nodes have their dtypes, wherever they are requested. Throws:
// Error(invalid_argument) for another dtype.
[[nodiscard]] Graph::Scope mixed_precision(Graph& graph, DType compute = DType::bf16,
                                           Origin at = Origin::here());

// The factor of a loss before it is differentiated, so that small gradients of f16 are not lost
// (Micikevicius et al. 2018, section 3.2). Gradients are divided by it again before any other use.
// A step with a gradient that is not finite changes no parameter and no accumulator of an
// optimizer; it counts as an update of learning-rate schedules. (LAMB gets a gradient of 0, and so
// does the mean over replicas from a replica whose gradients were not finite, if others' were.)
struct LossScale {
  double initial = 65536;  // a power of two in [1, 2^24]
  // After this many finite steps in a row the scale is doubled, up to 2^24; after each step that is
  // not finite it is halved, down to 1. 0: it is constant.
  int64_t growth_interval = 2000;
};

// Gradients of the loss itself, whether they are finite, and the scale's own update.
struct ScaledGradients {
  std::vector<ParameterGradient> gradients;  // zeros in a step where not all of them are finite
  Output finite;                             // bool: true if all of them are finite
  Output scale;                              // f32, the scale of this step
  Output update;  // a push of the next scale; undefined for a constant scale
};

// parameter_gradients() of the loss, computed through the scaled loss. A scale that changes is a
// parameter, loss_scale: the exponent of two and the number of finite steps since it changed, so it
// is in checkpoints and survives a killed process as parameters do. Replicas share it: under the
// synchronous rule its exponent moves by the mean of their changes and is rounded down. A replica
// changes it once a step: if a step differentiates two losses, one of them needs a constant scale.
// Throws: Error(invalid_argument) for a scale that is no power of two in [1, 2^24], a negative
// interval, and as parameter_gradients().
ScaledGradients scaled_gradients(Output loss, const LossScale& scale = {},
                                 const TrainedParameters& parameters = TrainedParameters::all(),
                                 Origin at = Origin::here());

// apply_gradients() in steps whose gradients are all finite, and the scale's update in every step.
// `scaled.gradients` may be clipped or changed otherwise before:
//   ScaledGradients scaled = scaled_gradients(loss);
//   scaled.gradients = clip_by_global_norm(scaled.gradients, 1);
//   const Output update = apply_if_finite(scaled, adam());
// Throws: Error(invalid_argument) for no gradients, and for a gradient or `finite` of another type.
Output apply_if_finite(const ScaledGradients& scaled, const Optimizer& optimizer,
                       Origin at = Origin::here());

// scaled_gradients() and apply_if_finite(): minimize() with a scaled loss. Throws: as the two do.
Output minimize_scaled(Output loss, const Optimizer& optimizer, const LossScale& scale = {},
                       const TrainedParameters& parameters = TrainedParameters::all(),
                       Origin at = Origin::here());

}  // namespace troupe
