// IsNan: y = whether x is NaN, as bool, element-wise.
#include "ops/support/elementwise.hpp"

namespace troupe {
namespace {

struct IsNan {
  template <class T>
  static bool apply(T x) {
    return x != x;
  }
};

}  // namespace

Op is_nan_op() {
  return {.name = "IsNan",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_dtypes = infer_predicate,
          .infer_shapes = infer_same_shape,
          .no_gradient = "a test is constant wherever it has a slope",
          .kernels = predicate_kernels<IsNan, float, double>()};
}

Output is_nan(Output x, Origin at) { return add_node({.op = "IsNan", .inputs = {x}}, at); }

}  // namespace troupe
