// Exp: y = e^x, element-wise.
#include "ops/eigen_blocks.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = dy * y.
std::vector<Output> gradient(const GradientContext& ctx) {
  return {multiply(ctx.output_gradient(0), ctx.output(0))};
}

struct Exp {
  template <class Block>
  static auto apply(const Block& x) {
    return x.exp();
  }
};

}  // namespace

Op exp_op() {
  return {.name = "Exp",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = block_kernels<Exp>(),
          .in_place = true};
}

Output exp(Output x, Origin at) { return add_node({.op = "Exp", .inputs = {x}}, at); }

}  // namespace troupe
