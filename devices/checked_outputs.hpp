// Checks the outputs of a kernel against the types of its node. The library's own kernels are
// trusted; kernels of plugins and programs, and replacements by become(), are checked after each
// firing, since readers of a value take its type from the graph.
// Owner: none, free functions. Thread: any.
#pragma once

#include <optional>

#include "devices/kernel_call.hpp"

namespace troupe {

// The types of the inputs of the firing, if the graph leaves sizes open that the op's shape rule
// then knows. Call it before the kernel runs, which may take over an input.
std::optional<InferContext> types_to_check(const KernelContext& context, const NodeView& view);

// `outputs` are those of the node of `view`, whose kernel has run. Throws: Error(kernel_failed)
// naming the node for an output that is missing, or has another type than the graph or, for
// `inputs`, the shape rule gives; and any exception of that rule.
void check_outputs(const NodeView& view, const Tensor* outputs,
                   const std::optional<InferContext>& inputs);

// Output i with a shape that the kernel has from the shape rule of the op itself, which is not
// asked again: for a kernel whose rule costs much. Requires: the shape is known; the output is
// undefined.
Tensor& output_by_rule(KernelContext& context, int i, const Shape& shape);

}  // namespace troupe
