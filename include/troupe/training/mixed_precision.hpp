// Mixed precision: products in bf16 or f16, everything that must be exact in f32. Implemented in
// graph/mixed_precision.cpp and nn/loss_scale.cpp; what an op computes in it says itself, in
// Op::precision; docs/mixed_precision.md has numbers.
//
//   const auto mixed = mixed_precision(graph);          // the switch: bf16 from here on
//   const Output logits = nn::dense(model, relu(nn::dense(model, images, 128)), 10);
//   const Output loss = reduce_mean(softmax_cross_entropy(logits, labels));
//   const Output update = minimize(loss, adam());
//
// Parameters, their gradients, optimizers and checkpoints stay f32, and so do losses, softmax and
// the statistics of norms. Matrix products and convolutions, forward and backward, read and write
// 16-bit numbers and sum in f32. What is between follows what it reads. The casts are nodes of the
// graph, so text, DOT and traces show them. bf16 has the range of f32 and needs no more; f16, whose
// gradients vanish below 6e-8 and overflow past 65504, wants a scaled loss:
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
// within. Inputs of a node that are f32 or of that dtype are cast to what the node computes in; f64
// and integers are left alone. An op that has a kernel for f32 and none for `compute` computes in
// f32. Variables of loops, queues and what is fetched keep their types.
// Gradients of these nodes have their dtypes, wherever they are asked for.
// Throws: Error(invalid_argument) for another dtype.
[[nodiscard]] Graph::Scope mixed_precision(Graph& graph, DType compute = DType::bf16,
                                           Origin at = Origin::here());

// By what a loss is multiplied before it is differentiated, so that small gradients of f16 are not
// lost (Micikevicius et al. 2018, section 3.2). Gradients are divided by it again before anything
// else is done with them. A step with a gradient that is not finite changes no parameter and no
// optimizer replica; it counts as an update of learning-rate schedules. (LAMB gets a gradient of 0,
// and so does the mean over towers from one whose gradients were not finite, if others' were.)
struct LossScale {
  double initial = 65536;  // a power of two in [1, 2^24]
  // After so many finite steps in a row the scale is doubled, up to 2^24; after each other step it
  // is halved, down to 1. 0: it stays as it is.
  int64_t growth_interval = 2000;
};

// Gradients of the loss itself, what has become of them, and the scale's own update.
struct ScaledGradients {
  std::vector<ParameterGradient> gradients;  // zeros in a step where not all of them are finite
  Output finite;                             // bool: all of them are
  Output scale;                              // f32, that of this step
  Output update;  // a push of the next scale; undefined for a scale that stays
};

// parameter_gradients() of the loss, through the scaled one. A scale that moves is a parameter,
// loss_scale: the exponent of two and the number of finite steps since it moved, so it is in
// checkpoints and survives a killed process as parameters do. Several towers share it: under the
// synchronous rule it moves by the mean of what they say, rounded down to a power of two. A step of
// one replica moves it once: of two losses that it differentiates, one wants a scale that stays.
// Throws: Error(invalid_argument) for a scale that is no power of two in [1, 2^24], a negative
// interval, and as parameter_gradients().
ScaledGradients scaled_gradients(Output loss, const LossScale& scale = {},
                                 std::vector<Output> parameters = {}, Origin at = Origin::here());

// apply_gradients() in steps whose gradients are all finite, and the scale's update in each.
// `scaled.gradients` may have been clipped or changed otherwise:
//   ScaledGradients scaled = scaled_gradients(loss);
//   scaled.gradients = clip_by_global_norm(scaled.gradients, 1);
//   const Output update = apply_if_finite(scaled, adam());
// Throws: Error(invalid_argument) for no gradients, and as push_finite_gradient().
Output apply_if_finite(const ScaledGradients& scaled, const Optimizer& optimizer,
                       Origin at = Origin::here());

// Both: minimize() with a scaled loss. Throws: as the two do.
Output minimize_scaled(Output loss, const Optimizer& optimizer, const LossScale& scale = {},
                       std::vector<Output> parameters = {}, Origin at = Origin::here());

// push_gradient() where `finite`, a bool scalar, is true; else what counts as this step's push, and
// changes nothing. Has no output. Throws: Error(invalid_argument) for what is no parameter, a
// gradient that is not f32 or f64 or not of the parameter's type, and a `finite` that is no bool
// scalar.
Output push_finite_gradient(Output parameter, Output gradient, Output finite,
                            const Optimizer& optimizer,
                            const std::vector<int32_t>& control_inputs = {},
                            Origin at = Origin::here());

}  // namespace troupe
