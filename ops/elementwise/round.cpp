// Round: y = the integer next to x, of two the even one, element-wise: 0.5 gives 0, 1.5 and 2.5
// give 2. The sign of zero is kept.
#include <cmath>

#include "ops/support/elementwise.hpp"

namespace troupe {
namespace {

// A step function has no slope but at its steps, so nothing is passed on, as in TensorFlow and
// PyTorch.
std::vector<Output> gradient(const GradientContext&) { return {Output{}}; }

struct Round {
  template <class T>
  static T apply(T x) {
    return std::rint(x);  // rounds as the processor does by default: half to even
  }
};

}  // namespace

Op round_op() {
  return {.name = "Round",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = unary_kernels<Round, float, double>(),
          .in_place = true};
}

Output round(Output x, Origin at) { return add_node({.op = "Round", .inputs = {x}}, at); }

}  // namespace troupe
