// ArgMax: y = the index of the greatest x along `axis`; the first of equals. NaN counts as
// greater than all numbers.
//   x: [..., n, ...], n >= 1   y: i64, the shape of x without `axis`. Negative axes count from the
//   end.
#include "ops/extremes.hpp"
#include "ops/narrow.hpp"

namespace troupe {

Op argmax_op() {
  return {.name = "ArgMax",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = {{"axis", AttrKind::integer, int64_t{-1}}},
          .infer_dtypes = infer_index,
          .infer_shapes = infer_index_of_extreme,
          .no_gradient = "an index is constant wherever it has a slope",
          .kernels = with_i8(index_kernels<Maximum, float, double, int32_t, int64_t, uint8_t>())};
}

Output argmax(Output x, int64_t axis, Origin at) {
  return add_node({.op = "ArgMax", .inputs = {x}, .attrs = {{"axis", axis}}}, at);
}

}  // namespace troupe
