// Implements devices/work.hpp.
#include "devices/work.hpp"

namespace troupe {

WorkCount::WorkCount(const KernelCall& call) : node_(*call.view().node) {
  for (int i = 0; i < call.context.input_count(); ++i) {
    const Tensor& input = call.context.input(i);
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
  if (node_.op->flops) out.flops = node_.op->flops(node_, inputs_, shapes);
  return out;
}

}  // namespace troupe
