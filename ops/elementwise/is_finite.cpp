// IsFinite: y = whether x is neither infinite nor NaN, as bool, element-wise.
#include "ops/support/elementwise.hpp"

namespace troupe {
namespace {

struct IsFinite {
  template <class T>
  static bool apply(T x) {
    return x - x == T{0};  // else NaN
  }
};

}  // namespace

Op is_finite_op() {
  return {.name = "IsFinite",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_dtypes = infer_predicate,
          .infer_shapes = infer_same_shape,
          .no_gradient = "a test is constant wherever it has a slope",
          .kernels = predicate_kernels<IsFinite, float, double>()};
}

Output is_finite(Output x, Origin at) { return add_node({.op = "IsFinite", .inputs = {x}}, at); }

}  // namespace troupe
