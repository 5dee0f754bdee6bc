// ReduceMax: y = the greatest of x over axes (all of them if none is named); NaN if x contains NaN.
// Throws for no elements.
//   x: any shape   y: x without the axes, or with size 1 there if keep_dims.
#include <limits>

#include "ops/reductions/extremes.hpp"
#include "ops/reductions/reduction.hpp"

namespace troupe {
namespace {

struct Greatest : Maximum {
  template <class T>
  static constexpr T nothing = std::numeric_limits<T>::has_infinity
                                   ? -std::numeric_limits<T>::infinity()
                                   : std::numeric_limits<T>::lowest();
};

}  // namespace

const Reduction& greatest_reduction(DType dtype) {
  return find_reduction<Greatest, float, double, int32_t, int64_t, uint8_t>(dtype);
}

Op reduce_max_op() {
  return reduce_op("ReduceMax", infer_extreme<Maximum>, gradient_of_extreme,
                   with_i8(reduce_kernels<run_extreme<Maximum, greatest_reduction>, float, double,
                                          int32_t, int64_t, uint8_t>()),
                   Precision::same);
}

Output reduce_max(Output x, ReduceOptions options, Origin at) {
  return add_node({.op = "ReduceMax", .inputs = {x}, .attrs = to_attrs(options)}, at);
}

}  // namespace troupe
