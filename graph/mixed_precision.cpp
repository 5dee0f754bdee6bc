// What a scope of mixed precision does to a node: casts before its inputs, as its op's Precision
// says (troupe/op.hpp). They are ordinary nodes, so a graph shows them, a gradient comes back
// through them as f32, and those that are made twice of one value become one (merge_common).
#include <algorithm>

#include "graph/open_scope.hpp"
#include "troupe/op.hpp"
#include "troupe/training/mixed_precision.hpp"

namespace troupe {

void Graph::cast_inputs(const Op& op, std::vector<Output>& inputs, Origin at) {
  const DType low = compute();
  if (op.precision == Precision::kept) return;
  const auto is = [](const Output& x, DType dtype) { return x.defined() && x.dtype() == dtype; };
  DType to = op.precision == Precision::low ? low : DType::f32;
  if (op.precision == Precision::same) {
    const bool wide = std::any_of(inputs.begin(), inputs.end(),
                                  [&](const Output& x) { return is(x, DType::f32); });
    if (!wide) to = low;
  }
  for (Output& x : inputs)
    if (x.graph == this && x.dtype() != to && (is(x, DType::f32) || is(x, low)))
      x = add({.op = "Cast", .inputs = {x}, .attrs = {{"dtype", to}}}, at);
}

Graph::Scope mixed_precision(Graph& graph, DType compute, Origin at) {
  return graph.scope({.compute = compute}, at);
}

}  // namespace troupe
