// Casts before the inputs of a node in a scope of mixed precision, as its op's Precision says
// (troupe/op.hpp). They are ordinary nodes, so a graph shows them, a gradient comes back through
// them as f32, and two casts of one value become one (merge_common). The Precision of the ops
// follows Micikevicius et al., "Mixed Precision Training" (2018), and PyTorch's autocast: products
// low, since they are most of the work and sum in f32 inside; ops that sum many elements, or
// stretch them (powers, exponentials, logarithms, quotients), wide; all others in the dtype of
// their inputs.
#include <algorithm>

#include "graph/graph_state.hpp"
#include "graph/made_nodes.hpp"
#include "troupe/op.hpp"
#include "troupe/optimizer.hpp"

namespace troupe {
namespace {

// False for an op that has a kernel for f32 and none for `low`: it would have no kernel to run.
bool computes_in(const Op& op, DType low) {
  const auto has = [&](DType dtype) {
    return std::any_of(op.kernels.begin(), op.kernels.end(),
                       [dtype](const Kernel& kernel) { return kernel.dtype == dtype; });
  };
  return has(low) || has(DType::none) || !has(DType::f32);
}

}  // namespace

void cast_inputs(Graph& graph, const Op& op, std::vector<Output>& inputs, Origin at) {
  const DType low = graph.state().scopes.back().compute;
  if (op.precision == Precision::kept) return;
  const auto is = [](const Output& x, DType dtype) { return x.defined() && x.dtype() == dtype; };
  bool narrow = op.precision == Precision::low;
  if (op.precision == Precision::same)
    narrow = std::none_of(inputs.begin(), inputs.end(),
                          [&](const Output& x) { return is(x, DType::f32); });
  const DType to = narrow && computes_in(op, low) ? low : DType::f32;
  for (Output& x : inputs)
    if (x.graph == &graph && x.dtype() != to && (is(x, DType::f32) || is(x, low)))
      x = graph.add(cast_node(x, to), at);
}

Graph::Scope mixed_precision(Graph& graph, DType compute, Origin at) {
  return graph.scope({.compute = compute}, at);
}

}  // namespace troupe
