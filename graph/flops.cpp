// The lookup of an op's flops for a node whose shapes the graph knows.
#include "graph/flops.hpp"

#include <algorithm>

namespace troupe {

int64_t known_flops(const Node& node) {
  if (!node.op->flops) return 0;
  std::vector<Shape> inputs, outputs;
  for (const Output& input : node.inputs) inputs.push_back(input.shape());
  for (const TensorType& output : node.outputs) outputs.push_back(output.shape);
  const auto known = [](const Shape& shape) { return shape.is_known(); };
  const bool all = std::all_of(inputs.begin(), inputs.end(), known) &&
                   std::all_of(outputs.begin(), outputs.end(), known);
  return all ? node.op->flops(node, inputs, outputs) : 0;
}

}  // namespace troupe
