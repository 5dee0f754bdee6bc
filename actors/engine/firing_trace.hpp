// Spans of a trace for the nodes of an executor's program. They cost nothing while the tracer of
// the process is off.
//
// Owner: none, functions. Thread: any.
#pragma once

#include <cstdint>

#include "devices/work.hpp"
#include "troupe/tensor.hpp"

namespace troupe {

class PartitionExecutor;

// A span of `node` from `begin_ns` until now.
void trace(const PartitionExecutor& executor, const char* category, uint32_t node, int64_t begin_ns,
           int64_t run, int64_t bytes = -1, int64_t flops = -1);
// The same of a kernel that has run, with its work; `outputs` are the node's values.
void trace_kernel(const PartitionExecutor& executor, const char* category, uint32_t node,
                  int64_t begin_ns, int64_t run, const WorkCount& work, const Tensor* outputs);

}  // namespace troupe
