// ArgMin: y = the index of the least x along `axis`; the first of equals. NaN counts as
// less than all numbers.
//   x: [..., n, ...], n >= 1   y: i64, the shape of x without `axis`. Negative axes count from the
//   end.
#include "ops/extremes.hpp"
#include "ops/narrow.hpp"

namespace troupe {

Op argmin_op() {
  return {.name = "ArgMin",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = {{"axis", AttrKind::integer, int64_t{-1}}},
          .infer_dtypes = infer_index,
          .infer_shapes = infer_index_of_extreme,
          .no_gradient = "an index is constant wherever it has a slope",
          .kernels = with_i8(index_kernels<Minimum, float, double, int32_t, int64_t, uint8_t>())};
}

Output argmin(Output x, int64_t axis, Origin at) {
  return add_node({.op = "ArgMin", .inputs = {x}, .attrs = {{"axis", axis}}}, at);
}

}  // namespace troupe
