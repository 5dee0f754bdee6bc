// Cumsum: y[i] = x[0] + ... + x[i] along an axis; `exclusive`: without x[i], so y[0] = 0;
// `reverse`: from the other end.
//   x, y: any shape but a scalar. Integers wrap around.
//
// Cumprod: y[i] = x[0] * ... * x[i] along an axis; `exclusive`: without x[i], so y[0] = 1;
// `reverse`: from the other end.
//   x, y: any shape but a scalar. Integers wrap around.
#include "ops/gradients.hpp"
#include "ops/reductions/scan.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx[i] = dy[i] + ... + dy[n - 1], the running sum from the other end.
std::vector<Output> sum_gradient(const GradientContext& ctx) {
  ScanOptions options = scan_options(ctx.node());
  options.reverse = !options.reverse;
  return {cumsum(ctx.output_gradient(0), options)};
}

// Writing dy for dL/dy, and before[i] = x[0] * ... * x[i - 1]:
//   dx[i] = before[i] * (dy[i] + the sum over k > i of dy[k] * x[i + 1] * ... * x[k]),
// without dy[i] and x[k] if exclusive. There is no division, so zero factors are handled.
std::vector<Output> product_gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), dy = ctx.output_gradient(0);
  ScanOptions options = scan_options(ctx.node());
  const Output before = cumprod(x, {options.axis, /*exclusive=*/true, options.reverse});
  if (options.exclusive)
    return {multiply(before, linear_recurrence(dy, x, options.axis, !options.reverse))};
  const Output later = linear_recurrence(multiply(dy, x), x, options.axis, !options.reverse);
  return {multiply(before, add(dy, later))};
}

Op scan_op(const char* name, decltype(Op::gradient) gradient, std::vector<Kernel> kernels) {
  return {.name = name,
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = scan_attrs(),
          .infer_shapes = infer_scan,
          .gradient = gradient,
          .kernels = std::move(kernels),
          .in_place = true,
          .precision = Precision::wide};
}

}  // namespace

Op cumsum_op() {
  return scan_op("Cumsum", sum_gradient, scan_kernels<Add, 0, float, double, int32_t, int64_t>());
}

Output cumsum(Output x, ScanOptions options, Origin at) {
  return add_node({.op = "Cumsum", .inputs = {x}, .attrs = to_attrs(options)}, at);
}

Op cumprod_op() {
  return scan_op("Cumprod", product_gradient,
                 scan_kernels<Multiply, 1, float, double, int32_t, int64_t>());
}

Output cumprod(Output x, ScanOptions options, Origin at) {
  return add_node({.op = "Cumprod", .inputs = {x}, .attrs = to_attrs(options)}, at);
}

}  // namespace troupe
