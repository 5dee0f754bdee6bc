// Group: completes when all of its control inputs have completed. No inputs, no outputs, no work: a
// name for "all of these".
#include "ops/support/node.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

void cpu(KernelContext&) {}

}  // namespace

Op group_op() {
  return {.name = "Group",
          .no_gradient = "it has no outputs",
          .kernels = {{DeviceKind::cpu, DType::none, cpu}},
          .dispatch = -1,
          .precision = Precision::kept};
}

Output group(Graph& graph, const std::vector<Output>& outputs, std::string_view name, Origin at) {
  std::vector<int32_t> nodes;
  for (const Output& output : outputs) {
    if (output.graph != &graph)
      throw Error(Errc::invalid_argument, "Group made at ", at.file, ":", at.line, ": ",
                  output.defined() ? "an output comes from another graph; build both in one Graph"
                                   : "an output is undefined; pass the results of ops");
    nodes.push_back(output.node);
  }
  return graph.add({.op = "Group", .name = name, .control_inputs = std::move(nodes)}, at);
}

}  // namespace troupe
