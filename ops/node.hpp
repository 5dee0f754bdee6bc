// What the op functions share: adding a node, and refusing a dtype that no kernel takes.
#pragma once

#include "troupe/op.hpp"

namespace troupe {

// Adds a node to the graph of its inputs. Throws: Error(invalid_argument), also when no input is
// defined.
inline Output add_node(NodeSpec spec, Origin at) {
  for (const Output& input : spec.inputs)
    if (input.defined()) return input.graph->add(std::move(spec), at);
  throw Error(Errc::invalid_argument, spec.op, " made at ", at.file, ":", at.line,
              ": its inputs are undefined Outputs; pass the results of ops");
}

// For infer_shapes. Throws: Error(invalid_argument) that lists the dtypes of the op's kernels, if
// `dtype` is not one.
inline void require_kernel(const InferContext& ctx, DType dtype) {
  std::string known;
  for (const Kernel& kernel : ctx.node().op->kernels) {
    if (kernel.dtype == dtype || kernel.dtype == DType::none) return;
    if (kernel.device == DeviceKind::cpu)
      known += (known.empty() ? "" : ", ") + std::string(to_string(kernel.dtype));
  }
  throw ctx.error("has no kernel for ", dtype, "; cast to one of ", known);
}

}  // namespace troupe
