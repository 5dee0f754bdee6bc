// CheckFinite: y = x; the step fails with Errc::bad_data if an element is NaN or infinite. The
// error gives the number of such elements, the position and value of the first one, and `what` x
// is.
//   x, y: any shape, f32 or f64.
#include <cmath>
#include <type_traits>

#include "ops/elementwise/element_place.hpp"
#include "ops/support/node.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = dy.
std::vector<Output> gradient(const GradientContext& ctx) { return {ctx.output_gradient(0)}; }

template <class T>
[[noreturn]] void refuse(const KernelContext& ctx, const T* x, int64_t n) {
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
void cpu(KernelContext& ctx) {
  const T* x = ctx.input(0).data<T>();
  const int64_t n = ctx.input(0).size();
  // x * 0 is 0 for finite x and NaN otherwise. Flags as wide as an element allow vectorisation.
  std::conditional_t<sizeof(T) == 4, int32_t, int64_t> bad = 0;
  for (int64_t i = 0; i < n; ++i) bad |= x[i] * T{0} != T{0};
  if (bad) refuse(ctx, x, n);
  ctx.set_output(0, ctx.input(0));
}

}  // namespace

Op check_finite_op() {
  return {.name = "CheckFinite",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = {{"what", AttrKind::text, std::string()}},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = float_kernels(cpu<float>, cpu<double>)};
}

Output check_finite(Output x, std::string_view what, Origin at) {
  return add_node({.op = "CheckFinite", .inputs = {x}, .attrs = {{"what", std::string(what)}}}, at);
}

}  // namespace troupe
