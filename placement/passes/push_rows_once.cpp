// push_rows_once: if the gradient of a sum repeats rows of a gradient by rows, as for a sum of
// gathered rows, each row is pushed once, for all the consecutive indices that it serves.
#include <bit>
#include <optional>

#include "graph/op_properties.hpp"
#include "placement/passes/passes.hpp"
#include "troupe/op.hpp"

namespace troupe {
namespace {

// The repeated rows of a gradient: each row is repeated `times` times.
struct Repeated {
  Output rows;
  int64_t times = 0, row_size = 0;
};

// Number of elements in dimensions [begin, end); -1 if it is unknown or 0.
int64_t known_size(const Shape& shape, int begin, int end) {
  int64_t n = 1;
  for (int d = begin; d < end; ++d) {
    if (shape[d] < 1) return -1;
    n *= shape[d];
  }
  return n;
}

// Finds repeated rows in the values of `push`, [n, row...].
std::optional<Repeated> repeated_in(const Graph& graph, const Node& push,
                                    const std::vector<NodeRoles>& roles) {
  const Output& values = push.inputs[1];
  const int64_t row = known_size(values.shape(), 1, values.shape().ndim());
  const Node* node = &graph.node(values.node);
  const auto passes = [&] {  // the push need not read this node itself
    return !roles[static_cast<size_t>(node->id)].fed && node->frame == push.frame &&
           node->control_inputs.empty();
  };
  while (node->op->aliases && passes()) node = &graph.node(node->inputs[0].node);
  const auto repeated = properties_of(*node).arrangement.repeated;
  if (!repeated || !passes()) return {};
  const auto [dimensions, shares] = repeated(*node);
  if (row < 1 || dimensions == 0 || shares) return {};
  const Shape& all = node->outputs[0].shape;
  const int begin = std::countr_zero(dimensions), end = std::bit_width(dimensions);
  const int64_t times = known_size(all, begin, end);
  const bool behind_each_other = end - begin == std::popcount(dimensions);
  if (!behind_each_other || times < 2 || known_size(all, end, all.ndim()) != row) return {};
  return Repeated{node->inputs[0], times, row};
}

}  // namespace

Edits push_rows_once(const CallGraph& call) {
  const Graph& graph = *call.graph;
  std::vector<NodeRoles> roles;  // computed on demand: most graphs have no such node
  Edits edits(call);
  for (const auto& push : graph.nodes()) {
    const auto repeat = properties_of(*push).parameter.repeated;
    if (!repeat) continue;
    if (roles.empty()) roles = roles_of(call);
    const std::optional<Repeated> repeated = repeated_in(graph, *push, roles);
    if (!repeated) continue;
    if (auto attrs = repeat(*push, repeated->times, repeated->row_size))
      edits.change(*push, *push->op, {push->inputs[0], repeated->rows}, std::move(*attrs));
  }
  return edits;
}

}  // namespace troupe
