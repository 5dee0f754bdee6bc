// IsInf: y = whether x is infinity or -infinity, as bool, element-wise.
#include <cmath>
#include <limits>

#include "ops/support/elementwise.hpp"

namespace troupe {
namespace {

struct IsInf {
  template <class T>
  static bool apply(T x) {
    return std::abs(x) == std::numeric_limits<T>::infinity();
  }
};

}  // namespace

Op is_inf_op() {
  return {.name = "IsInf",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_dtypes = infer_predicate,
          .infer_shapes = infer_same_shape,
          .no_gradient = "a test is constant wherever it has a slope",
          .kernels = predicate_kernels<IsInf, float, double>()};
}

Output is_inf(Output x, Origin at) { return add_node({.op = "IsInf", .inputs = {x}}, at); }

}  // namespace troupe
