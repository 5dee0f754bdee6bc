// Range: y = start, start + delta, start + 2 * delta, ..., up to but excluding limit.
//   start, limit, delta: scalars   y: [ceil((limit - start) / delta)], empty if limit is not ahead
//   Element i is start + i * delta, in f64 for floats: errors do not accumulate.
#include <cmath>
#include <optional>

#include "ops/support/elementwise.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  for (int i = 0; i < 3; ++i)
    if (ctx.input(i).ndim() != 0)
      throw ctx.error("wants three scalars, got ", ctx.input(0), ", ", ctx.input(1), " and ",
                      ctx.input(2), "; reshape them to {}");
  return {Shape{-1}};
}

// The number of elements; nothing if delta is 0, an argument is not finite, or there are too many.
template <class T>
std::optional<int64_t> range_size(T start, T limit, T delta) {
  constexpr int64_t kSizeMax = int64_t{1} << 40;  // more than any memory holds
  if constexpr (std::is_integral_v<T>) {
    if (delta == 0) return {};
    if (delta > 0 ? start >= limit : start <= limit) return 0;
    const uint64_t from = static_cast<uint64_t>(start), to = static_cast<uint64_t>(limit);
    const uint64_t distance = delta > 0 ? to - from : from - to;
    const uint64_t step = delta > 0 ? static_cast<uint64_t>(delta) : -static_cast<uint64_t>(delta);
    const uint64_t size = (distance - 1) / step + 1;
    if (size > static_cast<uint64_t>(kSizeMax)) return {};
    return static_cast<int64_t>(size);
  } else {
    const double size = std::ceil((double{limit} - double{start}) / double{delta});
    if (!std::isfinite(start) || !std::isfinite(limit) || !std::isfinite(delta) || delta == 0 ||
        size > static_cast<double>(kSizeMax))
      return {};
    return size > 0 ? static_cast<int64_t>(size) : 0;
  }
}

template <class T>
void cpu(KernelContext& ctx) {
  const T start = ctx.input(0).item<T>(), limit = ctx.input(1).item<T>();
  const T delta = ctx.input(2).item<T>();
  const std::optional<int64_t> size = range_size(start, limit, delta);
  if (!size)
    throw ctx.error("wants finite numbers, a delta other than 0 and at most 2^40 elements, got ",
                    start, " to ", limit, " by ", delta);
  T* y = ctx.output(0, Shape{*size}).template mutable_data<T>();
  for (int64_t i = 0; i < *size; ++i) {
    if constexpr (std::is_integral_v<T>)
      y[i] = static_cast<T>(wrapping<T>(start) + static_cast<wrapping<T>>(i) * wrapping<T>(delta));
    else
      y[i] = static_cast<T>(double{start} + static_cast<double>(i) * double{delta});
  }
}

}  // namespace

Op range_op() {
  return {.name = "Range",
          .inputs = {"start", "limit", "delta"},
          .outputs = {"y"},
          .infer_shapes = infer_shapes,
          .no_gradient = "the number of its elements depends on its inputs",
          .kernels = number_kernels(cpu<float>, cpu<double>, cpu<int32_t>, cpu<int64_t>),
          .value_shapes = true};
}

Output range(Output start, Output limit, Output delta, Origin at) {
  return add_node({.op = "Range", .inputs = {start, limit, delta}}, at);
}

Output range(Graph& graph, double start, double limit, double delta, DType dtype, Origin at) {
  const auto number = [&](double value) { return fill(graph, {}, value, dtype, "", at); };
  const Output y = range(number(start), number(limit), number(delta), at);
  int64_t size = -1;  // the op throws for arguments without a size
  with_type(dtype, [&]<class T>(T) {
    if constexpr (sizeof(T) >= 4)
      size = range_size(static_cast<T>(start), static_cast<T>(limit), static_cast<T>(delta))
                 .value_or(-1);
  });
  return size < 0 ? y : reshape(y, {size}, at);
}

}  // namespace troupe
