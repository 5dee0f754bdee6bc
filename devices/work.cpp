// The counts of a firing's bytes and flops, for traces.
#include "devices/work.hpp"

#include <algorithm>

namespace troupe {
namespace {

// The sum over all nodes of the program that count flops; -1 if none does.
int64_t program_flops(const Graph& program, const std::vector<Shape>& inputs) {
  std::vector<Shape> shapes = inputs;  // by node: each has one output
  int64_t flops = -1;
  for (size_t id = shapes.size(); id < program.nodes().size(); ++id) {
    const Node& node = *program.nodes()[id];
    std::vector<Shape> in;
    std::vector<TensorType> types;
    for (const Output& input : node.inputs) {
      in.push_back(shapes[static_cast<size_t>(input.node)]);
      types.push_back({input.dtype(), in.back()});
    }
    shapes.push_back(node.outputs[0].shape);
    if (!shapes.back().is_known())
      shapes.back() = node.op->infer_shapes(InferContext(node, std::move(types)))[0];
    if (node.op->flops)
      flops = std::max<int64_t>(flops, 0) + node.op->flops(node, in, {shapes.back()});
  }
  return flops;
}

}  // namespace

WorkCount::WorkCount(const KernelCall& call)
    : node_(*call.view().node), program_(program_of(call.view())) {
  for (int i = 0; i < call.input_count(); ++i) {
    const Tensor& input = call.input(i);
    inputs_.push_back(input.shape());
    bytes_ += input.byte_size();
  }
}

KernelWork WorkCount::after(const Tensor* outputs) const {
  KernelWork out{bytes_, -1};
  std::vector<Shape> shapes;
  for (size_t i = 0; i < node_.outputs.size(); ++i) {
    if (!outputs[i].defined()) return out;  // the kernel has failed
    shapes.push_back(outputs[i].shape());
    out.bytes += outputs[i].byte_size();
  }
  if (program_)
    out.flops = program_flops(*program_, inputs_);
  else if (node_.op->flops)
    out.flops = node_.op->flops(node_, inputs_, shapes);
  return out;
}

}  // namespace troupe
