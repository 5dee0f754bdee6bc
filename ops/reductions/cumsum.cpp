// Cumsum: y[i] = x[0] + ... + x[i] along an axis; `exclusive`: without x[i], so y[0] = 0;
// `reverse`: from the other end.
//   x, y: any shape but a scalar. Integers wrap around.
#include "ops/reductions/scan.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx[i] = dy[i] + ... + dy[n - 1], the running sum from the other end.
std::vector<Output> gradient(const GradientContext& ctx) {
  ScanOptions options = scan_options(ctx.node());
  options.reverse = !options.reverse;
  return {cumsum(ctx.output_gradient(0), options)};
}

}  // namespace

Op cumsum_op() {
  return {.name = "Cumsum",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = scan_attrs(),
          .infer_shapes = infer_scan,
          .gradient = gradient,
          .kernels = scan_kernels<Add, 0, float, double, int32_t, int64_t>(),
          .in_place = true,
          .precision = Precision::wide};
}

Output cumsum(Output x, ScanOptions options, Origin at) {
  return add_node({.op = "Cumsum", .inputs = {x}, .attrs = to_attrs(options)}, at);
}

}  // namespace troupe
