// Sign: y = 1 where x > 0, -1 where x < 0, 0 at 0, element-wise; NaN stays NaN. Signed numbers.
#include "ops/support/elementwise.hpp"
#include "ops/support/narrow.hpp"

namespace troupe {
namespace {

// A step function has no slope but at its steps, so nothing is passed on, as in TensorFlow and
// PyTorch.
std::vector<Output> gradient(const GradientContext&) { return {Output{}}; }

struct Sign {
  template <class T>
  static T apply(T x) {
    const T sign = static_cast<T>(static_cast<T>(x > 0) - static_cast<T>(x < 0));
    return x != x ? x : sign;
  }
};

}  // namespace

Op sign_op() {
  return {.name = "Sign",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = with_i8(unary_kernels<Sign, float, double, int32_t, int64_t>()),
          .in_place = true};
}

Output sign(Output x, Origin at) { return add_node({.op = "Sign", .inputs = {x}}, at); }

}  // namespace troupe
