// ReduceMin: y = the least of x over axes (all of them if none is named); NaN if x contains NaN.
// Throws for no elements.
//   x: any shape   y: x without the axes, or with size 1 there if keep_dims.
#include <limits>

#include "ops/reductions/extremes.hpp"
#include "ops/reductions/reduction.hpp"

namespace troupe {
namespace {

struct Least : Minimum {
  template <class T>
  static constexpr T nothing = std::numeric_limits<T>::has_infinity
                                   ? std::numeric_limits<T>::infinity()
                                   : std::numeric_limits<T>::max();
};

}  // namespace

const Reduction& least_reduction(DType dtype) {
  return find_reduction<Least, float, double, int32_t, int64_t, uint8_t>(dtype);
}

Op reduce_min_op() {
  return reduce_op("ReduceMin", infer_extreme<Minimum>, gradient_of_extreme,
                   with_i8(reduce_kernels<run_extreme<Minimum, least_reduction>, float, double,
                                          int32_t, int64_t, uint8_t>()),
                   Precision::same);
}

Output reduce_min(Output x, ReduceOptions options, Origin at) {
  return add_node({.op = "ReduceMin", .inputs = {x}, .attrs = to_attrs(options)}, at);
}

}  // namespace troupe
