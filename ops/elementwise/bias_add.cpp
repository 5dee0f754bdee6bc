// BiasAdd: y[..., j] = x[..., j] + bias[j].
//   x, y: [..., c]   bias: [c]. Integers wrap around.
#include "ops/support/elementwise.hpp"
#include "ops/support/narrow.hpp"
#include "ops/support/row_groups.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  const Shape &x = ctx.input(0), &bias = ctx.input(1);
  if (x.ndim() < 1 || bias.ndim() != 1)
    throw ctx.error("wants x [..., channels] and bias [channels], got ", x, " and ", bias);
  const int64_t channels = x[x.ndim() - 1];
  if (channels != bias[0] && channels >= 0 && bias[0] >= 0)
    throw ctx.error("x has ", channels, " channels and the bias ", bias[0], ": ", x, " plus ",
                    bias);
  Shape y = x;
  if (channels < 0) y.set(x.ndim() - 1, bias[0]);
  return {y};
}

// Writing dy for dL/dy:  dx = dy  and  dbias = the sum of dy over all dimensions but the last.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output dy = ctx.output_gradient(0);
  std::vector<int64_t> axes;
  for (int d = 0; d + 1 < dy.shape().ndim(); ++d) axes.push_back(d);
  return {dy, axes.empty() ? dy : reduce_sum(dy, {.axes = axes})};
}

struct AddRowLoop {
  template <class T>
  static void run(const T* x, const T* bias, T* y, int64_t rows, int64_t channels) {
    for (int64_t row = 0; row < rows; ++row, x += channels, y += channels) {
      TROUPE_INDEPENDENT
      for (int64_t j = 0; j < channels; ++j) y[j] = Add::apply(x[j], bias[j]);
    }
  }
};

template <class T>
void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const T *x = ctx.input(0).data<T>(), *bias = ctx.input(1).data<T>();
  const int64_t size = ctx.input(0).size(), channels = ctx.input(1).size();
  T* y = ctx.output_in_place().template mutable_data<T>();
  if (size == 0) return;
  in_row_groups(ctx, size / channels, channels, /*elements=*/1 << 16,
                [=](int64_t first, int64_t count) {
                  const int64_t at = first * channels;
                  in_isa<AddRowLoop>(x + at, bias, y + at, count, channels);
                });
}

template <class T>
Kernel kernel() {
  return {.dtype = dtype_of<T>, .run = cpu<T>, .elements = binary_elements<Add, T>};
}

constexpr OpProperties kProperties = {.arrangement = {.by_dimension = true}};

}  // namespace

Op bias_add_op() {
  return {
      .name = "BiasAdd",
      .inputs = {"x", "bias"},
      .outputs = {"y"},
      .infer_shapes = infer_shapes,
      .gradient = gradient,
      .kernels = with_i8({kernel<float>(), kernel<double>(), kernel<int32_t>(), kernel<int64_t>()}),
      .in_place = true,
      .precision = Precision::low,
      .properties = &kProperties};
}

Output bias_add(Output x, Output bias, Origin at) {
  return add_node({.op = "BiasAdd", .inputs = {x, bias}}, at);
}

}  // namespace troupe
