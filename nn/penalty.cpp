// Regularisers, composed of ops: penalties that are added to a loss, and weight decay, which is
// added to gradients.
#include <cmath>

#include "gradients/row_gradient.hpp"
#include "graph/base/refuse.hpp"
#include "ops/gradients.hpp"
#include "troupe/ops.hpp"
#include "troupe/ops/parameters.hpp"
#include "troupe/optimizer.hpp"

namespace troupe {
namespace {

void require_scale(const char* caller, double scale, Origin at) {
  if (!(scale >= 0 && std::isfinite(scale)))
    throw refuse(caller, at, "wants a finite number from 0, got ", scale);
}

// scale * sum of f(w) over all elements of all parameters, in the order of the list.
template <class Function>
Output penalty(const char* caller, const std::vector<Output>& parameters, double scale, Origin at,
               Function f) {
  require_scale(caller, scale, at);
  if (parameters.empty()) throw refuse(caller, at, "got no parameters");
  for (const Output& w : parameters)
    if (!w.defined() || !is_floating(w.dtype()) || w.dtype() != parameters[0].dtype())
      throw refuse(caller, at, "wants parameters of one floating dtype, got ",
                   w.defined() ? to_string(w.dtype()) : "an undefined Output");
  Graph& graph = *parameters[0].graph;
  const auto scope = graph.scope({.name = caller});
  Output total;
  for (const Output& w : parameters) {
    const Output more = reduce_sum(f(w), {}, at);
    total = total.defined() ? add(total, more, at) : more;
  }
  return multiply(fill(graph, {}, scale, total.dtype(), "", at), total, at);
}

}  // namespace

Output l1_penalty(const std::vector<Output>& parameters, double scale, Origin at) {
  return penalty("l1_penalty", parameters, scale, at, [at](Output w) { return abs(w, at); });
}

Output l2_penalty(const std::vector<Output>& parameters, double scale, Origin at) {
  require_scale("l2_penalty", scale, at);
  return penalty("l2_penalty", parameters, scale / 2, at, [at](Output w) { return square(w, at); });
}

std::vector<ParameterGradient> add_weight_decay(std::vector<ParameterGradient> gradients,
                                                double decay, Origin at) {
  require_scale("add_weight_decay", decay, at);
  for (ParameterGradient& one : gradients) {
    if (!one.parameter.defined() || !one.gradient.defined())
      throw refuse("add_weight_decay", at, "got a gradient that is undefined; ",
                   "pass what parameter_gradients() returned");
    Graph& graph = *one.gradient.graph;
    const auto scope = graph.scope({.name = "add_weight_decay"});
    const Output factor = fill(graph, {}, decay, one.gradient.dtype(), "", at);
    if (const auto rows = rows_of(one.gradient, one.parameter, at)) {  // no other row is touched
      const Output weights = gather(one.parameter, rows->indices, at);
      one.gradient = gather_gradient(add(rows->values, multiply(factor, weights, at), at),
                                     rows->indices, one.parameter, at);
      continue;
    }
    one.gradient = add(one.gradient, multiply(factor, one.parameter, at), at);
  }
  return gradients;
}

}  // namespace troupe
