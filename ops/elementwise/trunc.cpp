// Trunc: y = x without its fraction, that is cut towards zero, element-wise. The sign of zero is
// kept.
#include <cmath>

#include "ops/support/elementwise.hpp"

namespace troupe {
namespace {

// A step function has no slope but at its steps, so nothing is passed on, as in TensorFlow and
// PyTorch.
std::vector<Output> gradient(const GradientContext&) { return {Output{}}; }

struct Trunc {
  template <class T>
  static T apply(T x) {
    return std::trunc(x);
  }
};

}  // namespace

Op trunc_op() {
  return {.name = "Trunc",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = unary_kernels<Trunc, float, double>(),
          .in_place = true};
}

Output trunc(Output x, Origin at) { return add_node({.op = "Trunc", .inputs = {x}}, at); }

}  // namespace troupe
