// Loss scaling (troupe/optimizer.hpp). It consists of ops and one parameter, so
// shards and trainers need no support for it.
#include <cmath>

#include "gradients/row_gradient.hpp"
#include "nn/loss_scale.hpp"
#include "graph/base/refuse.hpp"
#include "ops/gradients.hpp"
#include "troupe/ops.hpp"
#include "troupe/ops/parameters.hpp"
#include "troupe/optimizer.hpp"

namespace troupe {
namespace {

constexpr double kExponentMax = 24;

// The elements of a gradient that may differ from 0: its rows, if it is one by rows, else all.
struct Elements {
  Output values;
  std::optional<RowSparse> rows = {};
};
Elements elements_of(const ParameterGradient& one, Origin at) {
  if (const auto rows = rows_of(one.gradient, one.parameter, at)) return {rows->values, rows};
  return {one.gradient};
}

Output all_finite(Output x, Origin at) { return reduce_all(is_finite(x, at), {}, at); }

// The state as a parameter [exponent, finite steps], and the push of the next one.
class ScaleState {
 public:
  ScaleState(Graph& graph, const LossScale& scale, Origin at)
      : at_(at), every_(scale.growth_interval) {
    const float begin[] = {static_cast<float>(std::log2(scale.initial)), 0};
    value_ = parameter(kLossScaleParameter,
                       constant(graph, Tensor::of<float>(begin, Shape{2}), "", at), at);
    // The mean of the changes by several replicas need not be whole.
    exponent_ = clip(floor(element(0), at), 0, kExponentMax, at);
  }
  Output scale() const { return exp2(exponent_, at_); }

  // With sgd(1) the new value is the value read minus the value pushed.
  Output push(Output finite) const {
    const Output steps = element(1) + 1, zero = number(0);
    const Output grows =
        logical_and(finite, greater_equal(steps, number(static_cast<double>(every_)), at_), at_);
    const Output up = minimum(exponent_ + 1, number(kExponentMax), at_);
    const Output down = maximum(exponent_ - 1, zero, at_);
    const Output exponent = where(finite, where(grows, up, exponent_, at_), down, at_);
    const Output next = where(logical_and(finite, logical_not(grows, at_), at_), steps, zero, at_);
    return push_gradient(value_, value_ - stack({exponent, next}, 0, at_), sgd(1), {value_.node},
                         at_);
  }

 private:
  Output number(double value) const { return fill(*value_.graph, {}, value, DType::f32, "", at_); }
  Output element(int64_t i) const { return reshape(slice(value_, {i}, {1}, at_), Shape{}, at_); }

  Origin at_;
  int64_t every_;
  Output value_, exponent_;
};

void check(const LossScale& scale, Origin at) {
  const double exponent = std::log2(scale.initial);
  if (!(exponent >= 0 && exponent <= kExponentMax) || exponent != std::floor(exponent))
    throw refuse("scaled_gradients", at,
                 "wants an initial scale that is a power of two in [1, 2^24], got ", scale.initial);
  if (scale.growth_interval < 0)
    throw refuse("scaled_gradients", at, "wants a growth interval of steps, or 0 for none, got ",
                 scale.growth_interval);
}

// scaled_gradients(). `zeroed`: in a skipped step the gradients are zeros, for functions that read
// them before apply_if_finite(), such as clipping.
ScaledGradients scale_gradients(Output loss, const LossScale& scale,
                                const TrainedParameters& parameters, bool zeroed, Origin at) {
  check(scale, at);
  if (!loss.defined())
    throw refuse("scaled_gradients", at,
                 "the loss is an undefined Output; pass the result of an op");
  Graph& graph = *loss.graph;
  const auto f32 = graph.scope({.name = "loss_scale", .compute = DType::f32});
  ScaledGradients out;
  std::optional<ScaleState> state;
  if (scale.growth_interval > 0) state.emplace(graph, scale, at);
  out.scale = state ? state->scale() : fill(graph, {}, scale.initial, DType::f32, "", at);
  const auto as = [at](Output x, DType dtype) {
    return x.dtype() == dtype ? x : cast(x, dtype, at);
  };
  const Output scaled = multiply(loss, as(out.scale, loss.dtype()), at);
  out.gradients = parameter_gradients(scaled, parameters, at);
  std::vector<Elements> parts;
  for (const ParameterGradient& one : out.gradients) {
    Elements& part = parts.emplace_back(elements_of(one, at));
    // The scale is a power of two, so the division is exact.
    part.values = divide(part.values, as(out.scale, part.values.dtype()), at);
    const Output finite = all_finite(part.values, at);
    out.finite = out.finite.defined() ? logical_and(out.finite, finite, at) : finite;
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    ParameterGradient& one = out.gradients[i];
    Output values = parts[i].values;
    if (zeroed) values = where(out.finite, values, fill(graph, {}, 0, values.dtype(), "", at), at);
    one.gradient =
        parts[i].rows ? gather_gradient(values, parts[i].rows->indices, one.parameter, at) : values;
  }
  if (state) out.update = state->push(out.finite);
  return out;
}

}  // namespace

ScaledGradients scaled_gradients(Output loss, const LossScale& scale,
                                 const TrainedParameters& parameters, Origin at) {
  return scale_gradients(loss, scale, parameters, /*zeroed=*/true, at);
}

Output apply_if_finite(const ScaledGradients& scaled, const Optimizer& optimizer, Origin at) {
  if (scaled.gradients.empty() || !scaled.gradients[0].gradient.defined() ||
      !scaled.finite.defined())
    throw refuse("apply_if_finite", at, "got no gradients; pass what scaled_gradients() returned");
  Graph& graph = *scaled.finite.graph;
  const auto scope = graph.scope({.name = "minimize", .compute = DType::f32});
  std::vector<Output> pushes;
  for (const ParameterGradient& one : scaled.gradients) {
    const auto rows = rows_of(one.gradient, one.parameter, at);
    if (!rows) {
      pushes.push_back(push_finite_gradient(one.parameter, one.gradient, scaled.finite, optimizer,
                                            one.reads, at));
      continue;
    }
    // As many elements as rows, whose number only the step knows.
    const Output kept = logical_and(scaled.finite, equal(rows->indices, rows->indices, at), at);
    pushes.push_back(push_row_gradient(
        one.parameter,
        {boolean_mask(rows->indices, kept, at), boolean_mask(rows->values, kept, at)}, optimizer,
        one.reads, at));
  }
  if (scaled.update.defined()) pushes.push_back(scaled.update);
  return group(graph, pushes, "update", at);
}

Output minimize_scaled(Output loss, const Optimizer& optimizer, const LossScale& scale,
                       const TrainedParameters& parameters, Origin at) {
  return apply_if_finite(scale_gradients(loss, scale, parameters, /*zeroed=*/false, at), optimizer,
                         at);
}

}  // namespace troupe
