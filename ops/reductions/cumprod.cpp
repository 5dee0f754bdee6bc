// Cumprod: y[i] = x[0] * ... * x[i] along an axis; `exclusive`: without x[i], so y[0] = 1;
// `reverse`: from the other end.
//   x, y: any shape but a scalar. Integers wrap around.
#include "ops/gradients.hpp"
#include "ops/reductions/scan.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy, and before[i] = x[0] * ... * x[i - 1]:
//   dx[i] = before[i] * (dy[i] + the sum over k > i of dy[k] * x[i + 1] * ... * x[k]),
// without dy[i] and x[k] if exclusive. There is no division, so zero factors are handled.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), dy = ctx.output_gradient(0);
  ScanOptions options = scan_options(ctx.node());
  const Output before = cumprod(x, {options.axis, /*exclusive=*/true, options.reverse});
  if (options.exclusive)
    return {multiply(before, linear_recurrence(dy, x, options.axis, !options.reverse))};
  const Output later = linear_recurrence(multiply(dy, x), x, options.axis, !options.reverse);
  return {multiply(before, add(dy, later))};
}

}  // namespace

Op cumprod_op() {
  return {.name = "Cumprod",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = scan_attrs(),
          .infer_shapes = infer_scan,
          .gradient = gradient,
          .kernels = scan_kernels<Multiply, 1, float, double, int32_t, int64_t>(),
          .in_place = true,
          .precision = Precision::wide};
}

Output cumprod(Output x, ScanOptions options, Origin at) {
  return add_node({.op = "Cumprod", .inputs = {x}, .attrs = to_attrs(options)}, at);
}

}  // namespace troupe
