// Check: y = x; the step fails with Errc::bad_data if an element of the condition is false. The
// error gives `what` should hold, the number of false elements, and the position of the first one.
//   x, y: any dtype and shape   condition: bool, any shape; an empty one holds
//
// CheckFinite: y = x; the step fails with Errc::bad_data if an element is NaN or infinite. The
// error gives the number of such elements, the position and value of the first one, and `what` x
// is.
//   x, y: any shape, f32 or f64.
#include <algorithm>
#include <cmath>
#include <string>
#include <type_traits>

#include "ops/support/node.hpp"
#include "troupe/ops.hpp"
#include "troupe/ops/control_flow.hpp"

namespace troupe {
namespace {

// The indices of element i, in row-major order.
Shape place_of_element(const Shape& shape, int64_t i) {
  Shape at = shape;
  for (int d = shape.ndim() - 1; d >= 0; --d) {
    at.set(d, i % shape[d]);
    i /= shape[d];
  }
  return at;
}

// " in step 7"; nothing outside of training steps.
std::string in_step(const KernelContext& ctx) {
  const int64_t step = ctx.step();
  return step < 0 ? std::string() : detail::concat(" in step ", step);
}

std::vector<DType> infer_dtypes(const InferContext& ctx) {
  if (ctx.dtype(1) != DType::boolean)
    throw ctx.error("wants a bool condition, got ", ctx.dtype(1), "; compare it with something");
  return {ctx.dtype(0)};
}

std::vector<Shape> infer_shapes(const InferContext& ctx) { return {ctx.input(0)}; }

// Writing dy for dL/dy:  dx = dy.
std::vector<Output> gradient(const GradientContext& ctx) {
  return {is_floating(ctx.input(0).dtype()) ? ctx.output_gradient(0) : Output{}, Output{}};
}

[[noreturn]] void refuse(const KernelContext& ctx, const Tensor& condition) {
  const bool* holds = condition.data<bool>();
  const int64_t n = condition.size();
  const int64_t first = std::find(holds, holds + n, false) - holds;
  const int64_t count = std::count(holds, holds + n, false);
  const auto& what = ctx.attr<std::string>("what");
  throw Error(Errc::bad_data, describe(ctx.node()), ": ", what.empty() ? "" : what + ": ", count,
              " of ", n, n == 1 ? " element does" : " elements do", " not hold, the first is at ",
              place_of_element(condition.shape(), first), in_step(ctx));
}

void cpu(KernelContext& ctx) {
  const Tensor& condition = ctx.input(1);
  const bool* holds = condition.data<bool>();
  if (!std::all_of(holds, holds + condition.size(), [](bool one) { return one; }))
    refuse(ctx, condition);
  ctx.set_output(0, ctx.input(0));
}

// Writing dy for dL/dy:  dx = dy.
std::vector<Output> gradient_of_finite(const GradientContext& ctx) {
  return {ctx.output_gradient(0)};
}

template <class T>
[[noreturn]] void refuse_infinite(const KernelContext& ctx, const T* x, int64_t n) {
  int64_t count = 0, first = -1;
  for (int64_t i = 0; i < n; ++i) {
    if (std::isfinite(x[i])) continue;
    if (count++ == 0) first = i;
  }
  const auto& what = ctx.attr<std::string>("what");
  throw Error(Errc::bad_data, describe(ctx.node()), ": ", what.empty() ? "" : what + ": ", count,
              " of ", n, count == 1 ? " element is" : " elements are", " not finite, the first is ",
              x[first], " at ", place_of_element(ctx.input(0).shape(), first), in_step(ctx),
              "; try a smaller learning rate, or look at the data");
}

template <class T>
void check_elements(KernelContext& ctx) {
  const T* x = ctx.input(0).data<T>();
  const int64_t n = ctx.input(0).size();
  // x * 0 is 0 for finite x and NaN otherwise. Flags as wide as an element allow vectorisation.
  std::conditional_t<sizeof(T) == 4, int32_t, int64_t> bad = 0;
  for (int64_t i = 0; i < n; ++i) bad |= x[i] * T{0} != T{0};
  if (bad) refuse_infinite(ctx, x, n);
  ctx.set_output(0, ctx.input(0));
}

}  // namespace

Op check_op() {
  return {.name = "Check",
          .inputs = {"x", "condition"},
          .outputs = {"y"},
          .attrs = {{"what", AttrKind::text, std::string()}},
          .infer_dtypes = infer_dtypes,
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::none, cpu}},
          .precision = Precision::kept};
}

Output check(Output x, Output condition, std::string_view what, Origin at) {
  return add_node({.op = "Check", .inputs = {x, condition}, .attrs = {{"what", std::string(what)}}},
                  at);
}

Op check_finite_op() {
  return {.name = "CheckFinite",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = {{"what", AttrKind::text, std::string()}},
          .infer_shapes = infer_same_shape,
          .gradient = gradient_of_finite,
          .kernels = float_kernels(check_elements<float>, check_elements<double>)};
}

Output check_finite(Output x, std::string_view what, Origin at) {
  return add_node({.op = "CheckFinite", .inputs = {x}, .attrs = {{"what", std::string(what)}}}, at);
}

}  // namespace troupe
