// Floor: y = the greatest integer that is not above x, element-wise. The sign of zero is kept.
#include <cmath>

#include "ops/support/elementwise.hpp"

namespace troupe {
namespace {

// A step function has no slope but at its steps, so nothing is passed on, as in TensorFlow and
// PyTorch.
std::vector<Output> gradient(const GradientContext&) { return {Output{}}; }

struct Floor {
  template <class T>
  static T apply(T x) {
    return std::floor(x);
  }
};

}  // namespace

Op floor_op() {
  return {.name = "Floor",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = unary_kernels<Floor, float, double>(),
          .in_place = true};
}

Output floor(Output x, Origin at) { return add_node({.op = "Floor", .inputs = {x}}, at); }

}  // namespace troupe
