// Fields that the rows of one kind have in common.
#include "ops/elementwise/rows.hpp"

#include <utility>

#include "ops/elementwise/number.hpp"

namespace troupe {
namespace {

// Names and shapes that the row does not say itself.
Op with_defaults(Op row, std::vector<std::string> inputs, const char* output,
                 decltype(Op::infer_shapes) infer_shapes) {
  if (row.inputs.empty()) row.inputs = std::move(inputs);
  if (row.outputs.empty()) row.outputs = {output};
  if (!row.infer_shapes) row.infer_shapes = infer_shapes;
  return row;
}

}  // namespace

std::vector<Output> no_slope(const GradientContext& ctx) {
  return std::vector<Output>(static_cast<size_t>(ctx.input_count()));
}

Op unary(Op row) {
  row.in_place = true;
  return with_defaults(std::move(row), {"x"}, "y", infer_same_shape);
}

Op binary(Op row) {
  row.in_place = true;
  return with_defaults(std::move(row), {"a", "b"}, "c", infer_broadcast);
}

Op predicate(Op row) {
  row.infer_dtypes = infer_predicate;
  row.no_gradient = "a test is constant wherever it has a slope";
  return with_defaults(std::move(row), {"x"}, "y", infer_same_shape);
}

Op comparison(Op row) {
  row.infer_dtypes = infer_comparison;
  row.no_gradient = "a comparison is constant wherever it has a slope";
  return with_defaults(std::move(row), {"a", "b"}, "c", infer_broadcast);
}

Output node_of(const char* op, std::vector<Output> inputs, Origin at) {
  return add_node({.op = op, .inputs = std::move(inputs)}, at);
}

Output node_of(const char* op, const Operand& a, const Operand& b, Origin at) {
  const auto [first, second] = outputs_of(op, a, b, at);
  return node_of(op, {first, second}, at);
}

}  // namespace troupe
