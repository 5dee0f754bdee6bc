// Clipping of gradients, composed of ops: by value, by norm, and by the norm of all of them.
#include <algorithm>
#include <cmath>

#include "graph/refuse.hpp"
#include "troupe/ops.hpp"
#include "troupe/train.hpp"

namespace troupe {
namespace {

void require_floating(const char* caller, Output x, Origin at) {
  if (!x.defined()) throw refuse(caller, at, "got an undefined Output; pass the result of an op");
  if (!is_floating(x.dtype())) throw refuse(caller, at, "wants f32 or f64, got ", x.dtype());
}

void require_norm(const char* caller, double norm, Origin at) {
  if (!(norm > 0 && std::isfinite(norm)))
    throw refuse(caller, at, "wants a positive norm, got ", norm);
}

// norm / max(norm, root of `squares`), and exactly 1 where that is at most `norm`. The root is of
// nothing less than norm^2, so that the gradient is finite where all of x is 0.
Output scale_to(double norm, Output squares, const char* caller, Origin at) {
  Graph& graph = *squares.graph;
  const auto number = [&](double value) { return fill(graph, {}, value, squares.dtype(), "", at); };
  const Output known = check_finite(
      squares,
      detail::concat("the squared norm that ", caller, " at ", at.file, ":", at.line, " clips by"),
      at);
  const Output most = number(norm * norm);
  const Output scale = divide(number(norm), sqrt(maximum(known, most, at), at), at);
  return where(greater(known, most, at), scale, number(1), at);
}

Output sum_of_squares(Output x, Origin at) { return reduce_sum(square(x, at), {}, at); }

// The scope that the nodes for a list of gradients are made in.
Graph::Scope scope_of(const std::vector<ParameterGradient>& gradients, const char* caller,
                      Origin at) {
  if (gradients.empty())
    throw refuse(caller, at, "got no gradients; pass what parameter_gradients() returned");
  for (const ParameterGradient& one : gradients) require_floating(caller, one.gradient, at);
  return gradients[0].gradient.graph->scope({.name = caller});
}

}  // namespace

Output clip_by_norm(Output x, double norm, Origin at) {
  require_floating("clip_by_norm", x, at);
  require_norm("clip_by_norm", norm, at);
  const auto scope = x.graph->scope({.name = "clip_by_norm"});
  return multiply(x, scale_to(norm, sum_of_squares(x, at), "clip_by_norm", at), at);
}

std::vector<ParameterGradient> clip_by_value(std::vector<ParameterGradient> gradients, double low,
                                             double high, Origin at) {
  for (ParameterGradient& one : gradients) {
    require_floating("clip_by_value", one.gradient, at);
    one.gradient = clip(one.gradient, low, high, at);
  }
  return gradients;
}

std::vector<ParameterGradient> clip_by_norm(std::vector<ParameterGradient> gradients, double norm,
                                            Origin at) {
  for (ParameterGradient& one : gradients) one.gradient = clip_by_norm(one.gradient, norm, at);
  return gradients;
}

std::vector<ParameterGradient> clip_by_global_norm(std::vector<ParameterGradient> gradients,
                                                   double norm, Origin at) {
  const char* const caller = "clip_by_global_norm";
  require_norm(caller, norm, at);
  const auto scope = scope_of(gradients, caller, at);
  // The sum is in f64 if one of the gradients is, and taken in the order of the list.
  const auto is_double = [](const ParameterGradient& one) {
    return one.gradient.dtype() == DType::f64;
  };
  const DType wide =
      std::any_of(gradients.begin(), gradients.end(), is_double) ? DType::f64 : DType::f32;
  const auto as = [at](Output x, DType dtype) {
    return x.dtype() == dtype ? x : cast(x, dtype, at);
  };
  Output squares;
  for (const ParameterGradient& one : gradients) {
    const Output more = as(sum_of_squares(one.gradient, at), wide);
    squares = squares.defined() ? add(squares, more, at) : more;
  }
  const Output scale = scale_to(norm, squares, caller, at);
  for (ParameterGradient& one : gradients)
    one.gradient = multiply(one.gradient, as(scale, one.gradient.dtype()), at);
  return gradients;
}

}  // namespace troupe
