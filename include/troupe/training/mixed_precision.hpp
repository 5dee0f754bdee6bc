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
#pragma once

#include <cstdint>
#include <vector>

#include "troupe/graph.hpp"
#include "troupe/train.hpp"

namespace troupe {

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
                                 std::vector<Output> parameters = {}, Origin at = Origin::here());

// apply_gradients() in steps whose gradients are all finite, and the scale's update in every step.
// `scaled.gradients` may be clipped or changed otherwise before:
//   ScaledGradients scaled = scaled_gradients(loss);
//   scaled.gradients = clip_by_global_norm(scaled.gradients, 1);
//   const Output update = apply_if_finite(scaled, adam());
// Throws: Error(invalid_argument) for no gradients, and as push_finite_gradient().
Output apply_if_finite(const ScaledGradients& scaled, const Optimizer& optimizer,
                       Origin at = Origin::here());

// scaled_gradients() and apply_if_finite(): minimize() with a scaled loss. Throws: as the two do.
Output minimize_scaled(Output loss, const Optimizer& optimizer, const LossScale& scale = {},
                       std::vector<Output> parameters = {}, Origin at = Origin::here());

// push_gradient() if `finite`, a bool scalar, is true; otherwise a push that counts as this step's
// and changes nothing. Has no output. Throws: Error(invalid_argument) for an argument that is no
// parameter, a gradient that is not f32 or f64 or not of the parameter's type, and a `finite` that
// is no bool scalar.
Output push_finite_gradient(Output parameter, Output gradient, Output finite,
                            const Optimizer& optimizer,
                            const std::vector<int32_t>& control_inputs = {},
                            Origin at = Origin::here());

}  // namespace troupe
