// Clipping of gradients, composed of ops: by value, by norm, and by the norm over all of them.
#include <algorithm>
#include <cmath>
#include <optional>

#include "gradients/row_gradient.hpp"
#include "graph/base/refuse.hpp"
#include "ops/gradients.hpp"
#include "troupe/ops.hpp"
#include "troupe/ops/parameters.hpp"
#include "troupe/optimizer.hpp"

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

// norm / max(norm, sqrt(`squares`)), and exactly 1 if the root is at most `norm`. The root is never
// taken of less than norm^2, so that the gradient is finite if all of x is 0.
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

// The elements of a gradient that may differ from 0, once each: its rows, if it is one by rows,
// else all. with_elements() makes a gradient of the same form from other elements of the same
// shape.
struct Elements {
  Output values;
  std::optional<RowSparse> rows = {};
};
Elements elements_of(const ParameterGradient& one, Origin at) {
  if (one.parameter.defined())
    if (const auto rows = rows_of(one.gradient, one.parameter, at)) return {rows->values, rows};
  return {one.gradient};
}
Output with_elements(const ParameterGradient& one, const Elements& like, Output values, Origin at) {
  return like.rows ? gather_gradient(values, like.rows->indices, one.parameter, at) : values;
}

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
    const bool keeps_zero = low <= 0 && high >= 0;
    const Elements elements = keeps_zero ? elements_of(one, at) : Elements{one.gradient};
    one.gradient = with_elements(one, elements, clip(elements.values, low, high, at), at);
  }
  return gradients;
}

std::vector<ParameterGradient> clip_by_norm(std::vector<ParameterGradient> gradients, double norm,
                                            Origin at) {
  for (ParameterGradient& one : gradients) {
    const Elements elements = elements_of(one, at);
    one.gradient = with_elements(one, elements, clip_by_norm(elements.values, norm, at), at);
  }
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
  std::vector<Elements> elements;
  for (const ParameterGradient& one : gradients) {
    elements.push_back(elements_of(one, at));
    const Output more = as(sum_of_squares(elements.back().values, at), wide);
    squares = squares.defined() ? add(squares, more, at) : more;
  }
  const Output scale = scale_to(norm, squares, caller, at);
  for (size_t i = 0; i < gradients.size(); ++i) {
    ParameterGradient& one = gradients[i];
    const Output values = multiply(elements[i].values, as(scale, one.gradient.dtype()), at);
    one.gradient = with_elements(one, elements[i], values, at);
  }
  return gradients;
}

}  // namespace troupe
