// Check: y = x; the step fails with Errc::bad_data if an element of the condition is false. The
// error gives `what` should hold, the number of false elements, and the position of the first one.
//   x, y: any dtype and shape   condition: bool, any shape; an empty one holds
#include <algorithm>

#include "ops/elementwise/element_place.hpp"
#include "ops/support/node.hpp"
#include "troupe/ops/control_flow.hpp"

namespace troupe {
namespace {

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

}  // namespace troupe
