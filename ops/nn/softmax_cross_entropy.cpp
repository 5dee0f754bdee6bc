// SoftmaxCrossEntropy: loss[i] = log(sum over j of e^logits[i, j]) - logits[i, labels[i]], which is
// -log(softmax(logits)[i, labels[i]]), of each row i. Finite for all finite logits.
//   logits: [..., classes], f32 or f64   labels: [...], i32 or i64, each in [0, classes)
//   loss: [...]
//
// SoftmaxCrossEntropyGradient: dlogits[i, j] = dloss[i] * (softmax(logits)[i, j] - (j ==
// labels[i])) for each row i, in one kernel.
//   dloss: [...]   logits, dlogits: [..., classes], f32 or f64   labels: [...], i32 or i64, each in
//   [0, classes)
//
// SoftmaxCrossEntropyAndGradient: computes SoftmaxCrossEntropy and SoftmaxCrossEntropyGradient,
// with the same bits, while reading the logits once; dlogits may reuse their memory. A pass makes
// such nodes (placement/passes/join.cpp).
//   logits, dlogits: [..., classes], f32 or f64   labels: [...], i32 or i64, each in [0, classes)
//   dloss, loss: [...]
#include "graph/op.hpp"
#include "ops/gradients.hpp"
#include "ops/nn/cross_entropy.hpp"
#include "ops/support/regroup.hpp"
#include "ops/support/row.hpp"

namespace troupe {
namespace {

// Checks dloss: [...], of the dtype of the logits.
void require_loss_dtype(const InferContext& ctx, int logits, int dloss) {
  if (ctx.dtype(dloss) != ctx.dtype(logits))
    throw ctx.error("dloss and logits must have one dtype, got ", ctx.dtype(dloss), " and ",
                    ctx.dtype(logits), "; cast one of them");
}

void require_loss_gradient(const InferContext& ctx, const Shape& dloss, const Shape& logits) {
  if (!has_row_for_each(logits, dloss))
    throw ctx.error("wants dloss [...] and logits [..., classes], got ", dloss, " and ", logits);
}

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

std::vector<DType> infer_gradient_dtypes(const InferContext& ctx) {
  require_label_dtype(ctx, 2);
  require_loss_dtype(ctx, /*logits=*/1, /*dloss=*/0);
  return {ctx.dtype(0)};
}

std::vector<Shape> infer_gradient_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  const Shape &dloss = ctx.input(0), &logits = ctx.input(1);
  require_logits_and_labels(ctx, logits, ctx.input(2));
  require_loss_gradient(ctx, dloss, logits);
  return {logits};
}

// Writing g for dL/d(dlogits), p = softmax(logits) and sums over classes:
//   ddloss = sum(g * (p - onehot))   and   the gradient of logits = (h - sum(h * p)) * p with h = g
//   * dloss.
std::vector<Output> gradient_of_gradient(const GradientContext& ctx) {
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

std::vector<DType> infer_joined_dtypes(const InferContext& ctx) {
  require_label_dtype(ctx, 1);
  require_loss_dtype(ctx, /*logits=*/0, /*dloss=*/2);
  return {ctx.dtype(0), ctx.dtype(0)};
}

std::vector<Shape> infer_joined_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  const Shape &logits = ctx.input(0), &labels = ctx.input(1);
  require_logits_and_labels(ctx, logits, labels);
  require_loss_gradient(ctx, ctx.input(2), logits);
  return {logits, shape_of_rows(logits, labels)};
}

// One row of dL/d(logits). In: y = e^(x - max) of each class, and their `sum`. Out: y = dloss *
// (softmax(x) - one_hot(label)).
template <class T>
void to_loss_slopes(T* y, T sum, T dloss, int64_t label, int64_t classes) {
  const T share = dloss / sum;
  TROUPE_INDEPENDENT
  for (int64_t j = 0; j < classes; ++j) y[j] *= share;
  y[label] -= dloss;
}

// Makes the losses of rows, the gradients of their logits, or both.
template <bool kLoss, bool kGradient>
struct LossLoop {
  template <class T, class Label>
  static void run(const T* logits, const Label* labels, const T* dloss, T* dlogits, T* loss,
                  int64_t begin, int64_t end, int64_t classes) {
    for (int64_t row = begin; row < end; ++row) {
      const T* const x = logits + row * classes;
      const T chosen = x[labels[row]], max = row_max(x, classes);  // dlogits may be logits
      T sum;
      if constexpr (kGradient)
        sum = row_exp(x, dlogits + row * classes, classes, max);
      else
        sum = row_exp_sum(x, classes, max);
      if constexpr (kLoss) loss[row] = std::log(sum) + (max - chosen);
      if constexpr (kGradient)
        to_loss_slopes(dlogits + row * classes, sum, dloss[row], labels[row], classes);
    }
  }
};

template <bool kLoss, bool kGradient, class T>
void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  constexpr int kLogits = kLoss ? 0 : 1, kDloss = kLoss ? 2 : 0;
  const Tensor &logits = ctx.input(kLogits), &given = ctx.input(kLogits + 1);
  const int64_t rows = given.size(), classes = logits.dim(logits.ndim() - 1);
  const T *x = logits.data<T>(), *dloss = kGradient ? ctx.input(kDloss).data<T>() : nullptr;
  with_indices(given, [&](const auto* labels) {
    check_labels(ctx, labels, rows, classes);
    T* loss = kLoss ? ctx.output(kGradient ? 1 : 0).template mutable_data<T>() : nullptr;
    T* y = kGradient ? ctx.output_in_place().template mutable_data<T>() : nullptr;
    in_rows(ctx, rows, classes, [=](int64_t first, int64_t count) {
      in_isa<LossLoop<kLoss, kGradient>>(x, labels, dloss, y, loss, first, first + count, classes);
    });
  });
}

template <bool kLoss, bool kGradient>
std::vector<Kernel> kernels() {
  return float_kernels(cpu<kLoss, kGradient, float>, cpu<kLoss, kGradient, double>);
}

}  // namespace

Op softmax_cross_entropy_op() {
  return {.name = "SoftmaxCrossEntropy",
          .inputs = {"logits", "labels"},
          .outputs = {"loss"},
          .infer_dtypes = infer_dtypes,
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = kernels<true, false>(),
          .precision = Precision::wide};
}

Output softmax_cross_entropy(Output logits, Output labels, Origin at) {
  return add_node({.op = "SoftmaxCrossEntropy", .inputs = {logits, labels}}, at);
}

Op softmax_cross_entropy_gradient_op() {
  return {.name = "SoftmaxCrossEntropyGradient",
          .inputs = {"dloss", "logits", "labels"},
          .outputs = {"dlogits"},
          .infer_dtypes = infer_gradient_dtypes,
          .infer_shapes = infer_gradient_shapes,
          .gradient = gradient_of_gradient,
          .kernels = kernels<false, true>(),
          .join = std::make_shared<const OpJoin>(OpJoin{
              .with = "SoftmaxCrossEntropy", .like = 1, .into = "SoftmaxCrossEntropyAndGradient"})};
}

Output softmax_cross_entropy_gradient(Output dloss, Output logits, Output labels, Origin at) {
  return add_node({.op = "SoftmaxCrossEntropyGradient", .inputs = {dloss, logits, labels}}, at);
}

Op softmax_cross_entropy_and_gradient_op() {
  return {.name = "SoftmaxCrossEntropyAndGradient",
          .inputs = {"logits", "labels", "dloss"},
          .outputs = {"dlogits", "loss"},
          .infer_dtypes = infer_joined_dtypes,
          .infer_shapes = infer_joined_shapes,
          .no_gradient = "passes make it, when gradients have been built",
          .kernels = kernels<true, true>(),
          .in_place = true};
}

}  // namespace troupe
