// Ceil: y = the least integer that is not below x, element-wise. The sign of zero is kept.
#include <cmath>

#include "ops/support/elementwise.hpp"

namespace troupe {
namespace {

// A step function has no slope but at its steps, so nothing is passed on, as in TensorFlow and
// PyTorch.
std::vector<Output> gradient(const GradientContext&) { return {Output{}}; }

struct Ceil {
  template <class T>
  static T apply(T x) {
    return std::ceil(x);
  }
};

}  // namespace

Op ceil_op() {
  return {.name = "Ceil",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = unary_kernels<Ceil, float, double>(),
          .in_place = true};
}

Output ceil(Output x, Origin at) { return add_node({.op = "Ceil", .inputs = {x}}, at); }

}  // namespace troupe
