// Cast: y = x in another dtype.
//   float to float, integer to float: to nearest, ties to even, once.
//   float to integer: cut towards zero; NaN gives 0, what is out of range the nearest end.
//   integer to integer: modulo 2^bits, as in C++20.
//   to bool: x != 0; from bool: 0 or 1.
#include <algorithm>
#include <limits>

#include "graph/op.hpp"
#include "ops/support/elementwise.hpp"
#include "ops/support/narrow.hpp"
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

// n elements. f32 to f16 and bf16, and back, are loops for each instruction set.
template <class From>
void convert_all(const void* from, DType dtype, void* to, int64_t n) {
  const From* x = static_cast<const From*>(from);
  if constexpr (std::is_same_v<From, float>)
    if (is_half(dtype)) return narrow(dtype, from, to, n);
  with_type(dtype, [&]<class To>(To) {
    To* y = static_cast<To*>(to);
    for (int64_t i = 0; i < n; ++i) y[i] = convert<To>(x[i]);
  });
}

// Every f16 and bf16 is an f32.
template <DType kHalf>
void convert_half(const void* from, DType dtype, void* to, int64_t n) {
  constexpr int64_t kBlock = 512;
  if (dtype == DType::f32) return widen(kHalf, from, to, n);
  alignas(64) float block[kBlock];
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t length = std::min(kBlock, n - i);
    widen(kHalf, static_cast<const char*>(from) + i * size_of(kHalf), block, length);
    convert_all<float>(block, dtype, static_cast<char*>(to) + i * size_of(dtype), length);
  }
}

using Convert = void(const void* from, DType dtype, void* to, int64_t n);

template <Convert* kConvert>
void cpu(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  if (ctx.attr<DType>("dtype") == x.dtype()) return ctx.set_output(0, x);
  Tensor& y = ctx.output();
  const DType dtype = y.dtype();
  const int64_t x_size = size_of(x.dtype()), y_size = size_of(dtype);
  const char* from = static_cast<const char*>(x.raw());
  char* to = static_cast<char*>(y.mutable_raw());
  in_parts(ctx, x.size(), [=](int64_t begin, int64_t n) {
    kConvert(from + begin * x_size, dtype, to + begin * y_size, n);
  });
}

template <Convert* kConvert>
void elements(const ElementRun& run) {
  const DType dtype = run.node->outputs[0].dtype;
  if (dtype == run.node->inputs[0].dtype()) return repeat_elements(run);
  kConvert(run.inputs[0], dtype, run.output, run.once[0] ? 1 : run.n);
  if (!run.once[0]) return;
  const int64_t size = size_of(dtype);
  char* y = static_cast<char*>(run.output);
  for (int64_t i = 1; i < run.n; ++i) std::memcpy(y + i * size, y, static_cast<size_t>(size));
}

template <Convert* kConvert>
Kernel kernel(DType dtype) {
  return {.dtype = dtype, .run = cpu<kConvert>, .elements = elements<kConvert>};
}

template <class T>
Kernel kernel() {
  return kernel<convert_all<T>>(dtype_of<T>);
}

// True if `to` has a distinct value for each value of `from`, so that a cast back restores it.
bool holds(DType to, DType from) {
  switch (from) {
    case DType::boolean:
      return to != DType::none;
    case DType::u8:
      return to == DType::i32 || to == DType::i64 || is_floating(to);
    case DType::i32:
      return to == DType::i64 || to == DType::f64;
    case DType::f32:
      return to == DType::f64;
    default:
      return false;
  }
}

constexpr OpProperties kProperties = {.identities = {.passes_on = [](const Node&) { return true; },
                                                     .undoes =
                                                         [](const Node&, const Node& inner) {
                                                           return holds(inner.outputs[0].dtype,
                                                                        inner.inputs[0].dtype());
                                                         }}};

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
                      kernel<uint8_t>(), kernel<bool>(), kernel<int8_t>(),
                      kernel<convert_half<DType::f16>>(DType::f16),
                      kernel<convert_half<DType::bf16>>(DType::bf16)},
          .precision = Precision::kept,
          .properties = &kProperties};
}

Output cast(Output x, DType dtype, Origin at) {
  return add_node({.op = "Cast", .inputs = {x}, .attrs = {{"dtype", dtype}}}, at);
}

}  // namespace troupe
