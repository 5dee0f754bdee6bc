// The nodes that a graph and the passes add themselves. The names of these ops and of their
// attributes stand here; ops/ defines them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "troupe/graph.hpp"

namespace troupe {

inline NodeSpec capture_node(Output x) { return {.op = "Capture", .inputs = {x}}; }
inline NodeSpec cast_node(Output x, DType dtype) {
  return {.op = "Cast", .inputs = {x}, .attrs = {{"dtype", dtype}}};
}
inline NodeSpec constant_node(Tensor value) {
  return {.op = "Constant", .attrs = {{"value", std::move(value)}}};
}
inline NodeSpec divide_node(Output a, Output b) { return {.op = "Divide", .inputs = {a, b}}; }
inline NodeSpec placeholder_node(const TensorType& type) {
  return {.op = "Placeholder", .attrs = {{"dtype", type.dtype}, {"shape", type.shape}}};
}
inline NodeSpec reshape_node(Output x, Shape shape) {
  return {.op = "Reshape", .inputs = {x}, .attrs = {{"shape", shape}}};
}
inline NodeSpec slice_node(Output x, std::vector<int64_t> begin, std::vector<int64_t> size) {
  return {.op = "Slice",
          .inputs = {x},
          .attrs = {{"begin", std::move(begin)}, {"size", std::move(size)}}};
}
inline NodeSpec transpose_node(Output x, std::vector<int64_t> permutation) {
  return {.op = "Transpose", .inputs = {x}, .attrs = {{"permutation", std::move(permutation)}}};
}
// The element-wise node that does the work of `program`, a graph as text that begins with a
// placeholder for each of `inputs`. `outputs`: values of it, by number.
inline NodeSpec fused_node(std::vector<Output> inputs, std::string program,
                           std::vector<int64_t> outputs) {
  return {.op = "Fused",
          .inputs = std::move(inputs),
          .attrs = {{"program", std::move(program)}, {"outputs", std::move(outputs)}}};
}

}  // namespace troupe
