// rows_of, gathered_rows_of: find the (indices, values) of a gradient that comes only from gathers.
#include "gradients/row_gradient.hpp"
#include "graph/base/refuse.hpp"
#include "troupe/op.hpp"
#include "troupe/ops.hpp"
#include "troupe/ops/parameters.hpp"

namespace troupe {
namespace {

// Collects the GatherGradient nodes whose sum is `gradient`, in the order of the sum; false if the
// sum has any other term.
bool collect(Output gradient, const Shape& like, std::vector<const Node*>& found) {
  const Node& node = gradient.graph->node(gradient.node);
  if (node.op->name == "Add")
    return collect(node.inputs[0], like, found) && collect(node.inputs[1], like, found);
  // A gather from a computed value has the same form but another size.
  if (node.op->name != "GatherGradient" || node.outputs[0].shape != like) return false;
  found.push_back(&node);
  return true;
}

}  // namespace

std::optional<RowSparse> gathered_rows_of(Output gradient, Output like, Origin at) {
  if (!gradient.defined() || !like.defined())
    throw refuse("rows_of", at, "got an undefined Output; pass a gradient and what it is for");
  const Shape& shape = like.shape();
  std::vector<const Node*> found;
  if (!shape.is_known() || shape.ndim() < 1 || !collect(gradient, shape, found))
    return std::nullopt;
  if (shape.size() == 0) return std::nullopt;  // no elements, so nothing to push
  std::vector<int64_t> flat(shape.begin(), shape.end());
  flat[0] = -1;
  std::vector<Output> indices, values;
  for (const Node* node : found) {
    Output one = node->inputs[1], rows = node->inputs[0];
    if (one.dtype() != DType::i64) one = cast(one, DType::i64, at);
    if (one.shape().ndim() != 1) {
      one = reshape(one, Shape{-1}, at);
      rows = reshape(rows, Shape(flat), at);
    }
    indices.push_back(one);
    values.push_back(rows);
  }
  if (found.size() == 1) return RowSparse{indices[0], values[0]};
  return RowSparse{concat(indices, 0, at), concat(values, 0, at)};
}

std::optional<RowSparse> rows_of(Output gradient, Output like, Origin at) {
  const auto gathered = gathered_rows_of(gradient, like, at);
  if (!gathered) return std::nullopt;
  // A result of sum_rows() is used as it is.
  const Output indices = gathered->indices;
  if (gradient.graph->node(indices.node).op->name == "SumRows" && indices.index == 0)
    return gathered;
  return sum_rows(indices, gathered->values, like.shape()[0], at);
}

}  // namespace troupe
