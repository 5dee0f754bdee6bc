// Signbit: y = the sign bit of x, as bool, element-wise: true of what is below zero, of -0, and of
// a NaN that has it.
#include <cmath>

#include "ops/support/elementwise.hpp"

namespace troupe {
namespace {

struct Signbit {
  template <class T>
  static bool apply(T x) {
    return std::signbit(x);
  }
};

}  // namespace

Op signbit_op() {
  return {.name = "Signbit",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_dtypes = infer_predicate,
          .infer_shapes = infer_same_shape,
          .no_gradient = "a test is constant wherever it has a slope",
          .kernels = predicate_kernels<Signbit, float, double>()};
}

Output signbit(Output x, Origin at) { return add_node({.op = "Signbit", .inputs = {x}}, at); }

}  // namespace troupe
