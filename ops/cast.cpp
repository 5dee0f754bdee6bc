// Cast: y = x in another dtype.
//   float to float, integer to float: to nearest.
//   float to integer: cut towards zero; NaN gives 0, what is out of range the nearest end.
//   integer to integer: modulo 2^bits, as in C++20.
//   to bool: x != 0; from bool: 0 or 1.
#include <algorithm>
#include <limits>

#include "ops/node.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) { return {ctx.input(0)}; }

// Writing dy for dL/dy:  dx = dy in x's dtype. A cast from or to an integer has no slope.
std::vector<Output> gradient(const GradientContext& ctx) {
  const DType dtype = ctx.input(0).dtype();
  const Output dy = ctx.output_gradient(0);
  if (!is_floating(dtype) || !is_floating(dy.dtype())) return {Output{}};
  return {dtype == dy.dtype() ? dy : cast(dy, dtype)};
}

template <class To, class From>
To convert(From x) {
  if constexpr (std::is_same_v<To, bool>) {
    return x != From{0};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    // As floats: the ends are powers of two, so that nothing is rounded; high is the first value
    // out of range.
    constexpr int kBits = std::numeric_limits<To>::digits;
    constexpr From kHigh = From(uint64_t{1} << (kBits - 1)) * 2;
    constexpr From kLow = static_cast<From>(std::numeric_limits<To>::min());
    if (x >= kHigh) return std::numeric_limits<To>::max();
    if (x >= kLow) return static_cast<To>(x);
    return x != x ? To{0} : std::numeric_limits<To>::min();
  } else {
    return static_cast<To>(x);
  }
}

template <class To, class From>
void convert_all(const Tensor& x, Tensor& y) {
  const From* from = x.data<From>();
  To* to = y.mutable_data<To>();
  const int64_t n = x.size();
  for (int64_t i = 0; i < n; ++i) to[i] = convert<To>(from[i]);
}

template <class From>
void cpu(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  if (ctx.attr<DType>("dtype") == x.dtype()) return ctx.set_output(0, x);
  Tensor& y = ctx.output();
  with_type(y.dtype(), [&]<class To>(To) { convert_all<To, From>(x, y); });
}

template <class From>
void elements(const ElementRun& run) {
  const From* x = static_cast<const From*>(run.inputs[0]);
  with_type(run.node->outputs[0].dtype, [&]<class To>(To) {
    To* y = static_cast<To*>(run.output);
    if (run.once[0])
      std::fill_n(y, run.n, convert<To>(*x));
    else
      for (int64_t i = 0; i < run.n; ++i) y[i] = convert<To>(x[i]);
  });
}

template <class T>
Kernel kernel() {
  return {.dtype = dtype_of<T>, .run = cpu<T>, .elements = elements<T>};
}

}  // namespace

Op cast_op() {
  return {.name = "Cast",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = {{"dtype", AttrKind::dtype}},
          .infer_dtypes = infer_dtype_attr,
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {kernel<float>(), kernel<double>(), kernel<int32_t>(), kernel<int64_t>(),
                      kernel<uint8_t>(), kernel<bool>()}};
}

Output cast(Output x, DType dtype, Origin at) {
  return add_node({.op = "Cast", .inputs = {x}, .attrs = {{"dtype", dtype}}}, at);
}

}  // namespace troupe
