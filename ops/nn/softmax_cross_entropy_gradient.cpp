// SoftmaxCrossEntropyGradient: dlogits[i, j] = dloss[i] * (softmax(logits)[i, j] - (j ==
// labels[i])) for each row i, in one kernel.
//   dloss: [...]   logits, dlogits: [..., classes], f32 or f64   labels: [...], i32 or i64, each in
//   [0, classes)
#include "graph/op.hpp"
#include "ops/gradients.hpp"
#include "ops/nn/cross_entropy.hpp"
#include "ops/support/regroup.hpp"
#include "ops/support/row.hpp"

namespace troupe {
namespace {

std::vector<DType> infer_dtypes(const InferContext& ctx) {
  require_label_dtype(ctx, 2);
  require_loss_dtype(ctx, /*logits=*/1, /*dloss=*/0);
  return {ctx.dtype(0)};
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  const Shape &dloss = ctx.input(0), &logits = ctx.input(1);
  require_logits_and_labels(ctx, logits, ctx.input(2));
  require_loss_gradient(ctx, dloss, logits);
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
  const Output h = multiply(g, with_axis(dloss, -1));
  const Output sum = reduce_sum(multiply(h, p), {.axes = {-1}, .keep_dims = true});
  return {reduce_sum(multiply(g, p_minus_onehot), {.axes = {-1}}), multiply(subtract(h, sum), p),
          Output{}};
}

struct LossGradientLoop {
  template <class T, class Label>
  static void run(const T* dloss, const T* x, const Label* labels, T* y, int64_t rows,
                  int64_t classes) {
    for (int64_t row = 0; row < rows; ++row, x += classes, y += classes) {
      const T sum = row_exp(x, y, classes, row_max(x, classes));
      to_loss_slopes(y, sum, dloss[row], labels[row], classes);
    }
  }
};

template <class T>
void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const Tensor& logits = ctx.input(1);
  const int64_t rows = ctx.input(2).size(), classes = logits.dim(logits.ndim() - 1);
  const T *dloss = ctx.input(0).data<T>(), *x = logits.data<T>();
  with_indices(ctx.input(2), [&](const auto* labels) {
    check_labels(ctx, labels, rows, classes);
    T* y = ctx.output().template mutable_data<T>();
    in_rows(ctx, rows, classes, [=](int64_t first, int64_t count) {
      const int64_t at = first * classes;
      in_isa<LossGradientLoop>(dloss + first, x + at, labels + first, y + at, count, classes);
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
                      {DeviceKind::cpu, DType::f64, cpu<double>}},
          .join = std::make_shared<const OpJoin>(OpJoin{
              .with = "SoftmaxCrossEntropy", .like = 1, .into = "SoftmaxCrossEntropyAndGradient"})};
}

Output softmax_cross_entropy_gradient(Output dloss, Output logits, Output labels, Origin at) {
  return add_node({.op = "SoftmaxCrossEntropyGradient", .inputs = {dloss, logits, labels}}, at);
}

}  // namespace troupe
