// What a kernel has made, held against what its node says. The library's own kernels are trusted;
// those of plugins and of programs, and whatever became() of a node, are looked at after each
// firing, since who reads a value takes its type from the graph.
#pragma once

#include "devices/kernel_call.hpp"

namespace troupe {

// `outputs`: those of the node of `view`, whose kernel has run. Throws: Error(kernel_failed) naming
// the node for one that is missing or of another type.
void check_outputs(const NodeView& view, const Tensor* outputs);

}  // namespace troupe
