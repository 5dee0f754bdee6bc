// Log: y = the natural logarithm of x, element-wise; -infinity at 0, NaN below.
#include "ops/eigen_blocks.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = dy / x.
std::vector<Output> gradient(const GradientContext& ctx) {
  return {divide(ctx.output_gradient(0), ctx.input(0))};
}

struct Log {
  template <class Block>
  static auto apply(const Block& x) {
    return x.log();
  }
};

}  // namespace

Op log_op() {
  return {.name = "Log",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = block_kernels<Log>(),
          .in_place = true};
}

Output log(Output x, Origin at) { return add_node({.op = "Log", .inputs = {x}}, at); }

}  // namespace troupe
