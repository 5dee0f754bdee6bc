// SoftmaxCrossEntropy: loss[i] = log(sum over j of e^logits[i, j]) - logits[i, labels[i]], which is
// -log(softmax(logits)[i, labels[i]]), of each row i. Finite for all finite logits.
//   logits: [..., classes], f32 or f64   labels: [...], i32 or i64, each in [0, classes)
//   loss: [...]
#include "ops/gradients.hpp"
#include "ops/nn/cross_entropy.hpp"
#include "ops/support/row.hpp"

namespace troupe {
namespace {

std::vector<DType> infer_dtypes(const InferContext& ctx) {
  require_label_dtype(ctx, 1);
  return {ctx.dtype(0)};
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  require_logits_and_labels(ctx, ctx.input(0), ctx.input(1));
  return {shape_of_rows(ctx.input(0), ctx.input(1))};
}

std::vector<Output> gradient(const GradientContext& ctx) {
  return {softmax_cross_entropy_gradient(ctx.output_gradient(0), ctx.input(0), ctx.input(1)),
          Output{}};
}

struct LossLoop {
  template <class T, class Label>
  static void run(const T* x, const Label* labels, T* loss, int64_t rows, int64_t classes) {
    for (int64_t row = 0; row < rows; ++row, x += classes) {
      const T max = row_max(x, classes), sum = row_exp_sum(x, classes, max);
      loss[row] = std::log(sum) + (max - x[labels[row]]);
    }
  }
};

template <class T>
void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const Tensor& logits = ctx.input(0);
  const int64_t rows = ctx.input(1).size(), classes = logits.dim(logits.ndim() - 1);
  const T* x = logits.data<T>();
  with_indices(ctx.input(1), [&](const auto* labels) {
    check_labels(ctx, labels, rows, classes);
    T* loss = ctx.output().template mutable_data<T>();
    in_rows(ctx, rows, classes, [=](int64_t first, int64_t count) {
      in_isa<LossLoop>(x + first * classes, labels + first, loss + first, count, classes);
    });
  });
}

}  // namespace

Op softmax_cross_entropy_op() {
  return {.name = "SoftmaxCrossEntropy",
          .inputs = {"logits", "labels"},
          .outputs = {"loss"},
          .infer_dtypes = infer_dtypes,
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::f32, cpu<float>},
                      {DeviceKind::cpu, DType::f64, cpu<double>}},
          .precision = Precision::wide};
}

Output softmax_cross_entropy(Output logits, Output labels, Origin at) {
  return add_node({.op = "SoftmaxCrossEntropy", .inputs = {logits, labels}}, at);
}

}  // namespace troupe
