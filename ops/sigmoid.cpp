// Sigmoid: y = 1 / (1 + e^-x), element-wise.
#include "ops/eigen_blocks.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = dy * y * (1 - y).
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output y = ctx.output(0), dy = ctx.output_gradient(0);
  return {multiply(multiply(dy, y), subtract(constant_like(1, y), y))};
}

struct Sigmoid {
  template <class Block>
  static auto apply(const Block& x) {
    return x.logistic();
  }
};

}  // namespace

Op sigmoid_op() {
  return {.name = "Sigmoid",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = block_kernels<Sigmoid>(),
          .in_place = true};
}

Output sigmoid(Output x, Origin at) { return add_node({.op = "Sigmoid", .inputs = {x}}, at); }

}  // namespace troupe
