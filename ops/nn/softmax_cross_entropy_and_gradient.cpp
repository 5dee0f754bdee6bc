// SoftmaxCrossEntropyAndGradient: computes SoftmaxCrossEntropy and SoftmaxCrossEntropyGradient,
// with the same bits, while reading the logits once; dlogits may reuse their memory. A pass makes
// such nodes (placement/passes/join.cpp).
//   logits, dlogits: [..., classes], f32 or f64   labels: [...], i32 or i64, each in [0, classes)
//   dloss, loss: [...]
#include "ops/nn/cross_entropy.hpp"
#include "ops/support/row.hpp"

namespace troupe {
namespace {

std::vector<DType> infer_dtypes(const InferContext& ctx) {
  require_label_dtype(ctx, 1);
  require_loss_dtype(ctx, /*logits=*/0, /*dloss=*/2);
  return {ctx.dtype(0), ctx.dtype(0)};
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  const Shape &logits = ctx.input(0), &labels = ctx.input(1);
  require_logits_and_labels(ctx, logits, labels);
  require_loss_gradient(ctx, ctx.input(2), logits);
  return {logits, shape_of_rows(logits, labels)};
}

struct LossAndGradientLoop {
  template <class T, class Label>
  static void run(const T* x, const Label* labels, const T* dloss, T* y, T* loss, int64_t rows,
                  int64_t classes) {
    for (int64_t row = 0; row < rows; ++row, x += classes, y += classes) {
      const T chosen = x[labels[row]], max = row_max(x, classes);  // y may be x
      const T sum = row_exp(x, y, classes, max);
      loss[row] = std::log(sum) + (max - chosen);
      to_loss_slopes(y, sum, dloss[row], labels[row], classes);
    }
  }
};

template <class T>
void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const Tensor& logits = ctx.input(0);
  const int64_t rows = ctx.input(1).size(), classes = logits.dim(logits.ndim() - 1);
  const T *x = logits.data<T>(), *dloss = ctx.input(2).data<T>();
  with_indices(ctx.input(1), [&](const auto* labels) {
    check_labels(ctx, labels, rows, classes);
    T* loss = ctx.output(1).template mutable_data<T>();
    T* y = ctx.output_in_place().template mutable_data<T>();
    in_rows(ctx, rows, classes, [=](int64_t first, int64_t count) {
      const int64_t at = first * classes;
      in_isa<LossAndGradientLoop>(x + at, labels + first, dloss + first, y + at, loss + first,
                                  count, classes);
    });
  });
}

}  // namespace

Op softmax_cross_entropy_and_gradient_op() {
  return {.name = "SoftmaxCrossEntropyAndGradient",
          .inputs = {"logits", "labels", "dloss"},
          .outputs = {"dlogits", "loss"},
          .infer_dtypes = infer_dtypes,
          .infer_shapes = infer_shapes,
          .no_gradient = "passes make it, when gradients have been built",
          .kernels = {{DeviceKind::cpu, DType::f32, cpu<float>},
                      {DeviceKind::cpu, DType::f64, cpu<double>}},
          .in_place = true};
}

}  // namespace troupe
