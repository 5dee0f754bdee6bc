// What a kernel has made, held against what its node says. The library's own kernels are trusted;
// those of plugins and of programs, and whatever became() of a node, are looked at after each
// firing, since who reads a value takes its type from the graph.
#pragma once

#include <optional>

#include "devices/kernel_call.hpp"

namespace troupe {

// What `context` will fire on, where the graph leaves sizes open that the op's shape rule knows by
// then. Asked for before the kernel runs, which may take an input over.
std::optional<InferContext> types_to_check(const KernelContext& context, const NodeView& view);

// `outputs`: those of the node of `view`, whose kernel has run. Throws: Error(kernel_failed) naming
// the node for one that is missing, or of another type than the graph or, for `inputs`, the shape
// rule says; and what that rule throws.
void check_outputs(const NodeView& view, const Tensor* outputs,
                   const std::optional<InferContext>& inputs);

}  // namespace troupe
