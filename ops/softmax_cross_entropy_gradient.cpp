// SoftmaxCrossEntropyGradient: dlogits[i, j] = dloss[i] * (softmax(logits)[i, j] - (j ==
// labels[i])), in one pass.
//   dloss: [batch]   logits, dlogits: [batch, classes], f32 or f64   labels: [batch], i32 or i64,
//   each in [0, classes)
#include "ops/cross_entropy.hpp"
#include "ops/row.hpp"

namespace troupe {
namespace {

std::vector<DType> infer_dtypes(const InferContext& ctx) {
  require_label_dtype(ctx, 2);
  if (ctx.dtype(0) != ctx.dtype(1))
    throw ctx.error("dloss and logits must have one dtype, got ", ctx.dtype(0), " and ",
                    ctx.dtype(1), "; cast one of them");
  return {ctx.dtype(0)};
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  const Shape &dloss = ctx.input(0), &logits = ctx.input(1);
  require_logits_and_labels(ctx, logits, ctx.input(2));
  if (dloss.ndim() != 1 || (dloss[0] != logits[0] && dloss[0] >= 0 && logits[0] >= 0))
    throw ctx.error("wants dloss [batch] and logits [batch, classes], got ", dloss, " and ",
                    logits);
  return {logits};
}

// Writing g for dL/d(dlogits), p = softmax(logits) and sums over classes:
//   ddloss = sum(g * (p - onehot))   and   the gradient of logits = (h - sum(h * p)) * p with h = g
//   * dloss.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output dloss = ctx.input(0), logits = ctx.input(1), labels = ctx.input(2);
  const Output g = ctx.output_gradient(0);
  const Output ones = broadcast_like(constant_like(1, dloss), dloss);
  const Output p_minus_onehot = softmax_cross_entropy_gradient(ones, logits, labels);
  const Output p = softmax(logits);
  const Output h = multiply(g, reshape(dloss, Shape{-1, 1}));
  const Output sum = reduce_sum(multiply(h, p), {.axes = {-1}, .keep_dims = true});
  return {reduce_sum(multiply(g, p_minus_onehot), {.axes = {-1}}), multiply(subtract(h, sum), p),
          Output{}};
}

template <class T>
void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const Tensor& logits = ctx.input(1);
  const int64_t rows = logits.dim(0), classes = logits.dim(1);
  const T *dloss = ctx.input(0).data<T>(), *x = logits.data<T>();
  with_indices(ctx.input(2), [&](const auto* labels) {
    check_labels(ctx, labels, rows, classes);
    T* y = ctx.output().template mutable_data<T>();
    for_rows(ctx, rows, classes, [=](int64_t row) {
      const T* from = x + row * classes;
      T* to = y + row * classes;
      const T sum = row_exp(from, to, classes, in_isa<RowMaxLoop>(from, classes));
      in_isa<RowScaleLoop>(to, classes, dloss[row], sum);
      to[labels[row]] -= dloss[row];
    });
  });
}

}  // namespace

Op softmax_cross_entropy_gradient_op() {
  return {.name = "SoftmaxCrossEntropyGradient",
          .inputs = {"dloss", "logits", "labels"},
          .outputs = {"dlogits"},
          .infer_dtypes = infer_dtypes,
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::f32, cpu<float>},
                      {DeviceKind::cpu, DType::f64, cpu<double>}}};
}

Output softmax_cross_entropy_gradient(Output dloss, Output logits, Output labels, Origin at) {
  return add_node({.op = "SoftmaxCrossEntropyGradient", .inputs = {dloss, logits, labels}}, at);
}

}  // namespace troupe
