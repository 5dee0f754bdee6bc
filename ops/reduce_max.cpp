// ReduceMax: y = the greatest of x over axes (all of them when none is named); NaN if there is one.
// Refuses to choose from nothing.
//   x: any shape   y: x without the axes, or with size 1 there if keep_dims.
#include "ops/extremes.hpp"
#include "ops/narrow.hpp"

namespace troupe {

Op reduce_max_op() {
  return {.name = "ReduceMax",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = reduce_attrs(),
          .infer_shapes = infer_extreme<Maximum>,
          .gradient = gradient_of_extreme,
          .kernels = with_i8(extreme_kernels<Maximum, float, double, int32_t, int64_t, uint8_t>())};
}

Output reduce_max(Output x, ReduceOptions options, Origin at) {
  return add_node({.op = "ReduceMax", .inputs = {x}, .attrs = to_attrs(options)}, at);
}

}  // namespace troupe
