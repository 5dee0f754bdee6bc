// softmax_cross_entropy, its gradients and in_top_k.
//   logits: [..., classes], f32 or f64   labels: [...], i32 or i64, each in [0, classes)
// A row is the logits of one label; error texts count rows through all leading dimensions.
//
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
//
// InTopK: y[i] is true if fewer than k classes have a greater logit than labels[i], so all logits
// equal to the k-th greatest are in the top k. NaN counts as greater than all numbers, and a label
// whose own logit is NaN is never in the top k.
//   logits: [..., classes], f32 or f64   labels: [...], i32 or i64, each in [0, classes)
//   y: [...], bool
#include <algorithm>

#include "devices/threads/isa.hpp"
#include "graph/op.hpp"
#include "ops/gradients.hpp"
#include "ops/support/indices.hpp"
#include "ops/support/regroup.hpp"
#include "ops/support/row.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

// For infer_dtypes and infer_shapes; `i` is the index of the input.
void require_label_dtype(const InferContext& ctx, int i) {
  if (ctx.dtype(i) != DType::i32 && ctx.dtype(i) != DType::i64)
    throw ctx.error("wants labels of i32 or i64, got ", ctx.dtype(i),
                    "; cast them, or with a probability for each class call "
                    "softmax_cross_entropy_with_probabilities()");
}

// True if x, [...], has one element for each row of the logits.
bool has_row_for_each(const Shape& logits, const Shape& x) {
  bool fits = x.ndim() + 1 == logits.ndim();
  for (int d = 0; fits && d < x.ndim(); ++d) fits = may_equal(x[d], logits[d]);
  return fits;
}

void require_logits_and_labels(const InferContext& ctx, const Shape& logits, const Shape& labels) {
  if (!has_row_for_each(logits, labels))
    throw ctx.error("wants logits [..., classes] and a label for each row, [...], got ", logits,
                    " and ", labels,
                    labels.ndim() > 0 && labels.ndim() == logits.ndim() &&
                            may_equal(labels[labels.ndim() - 1], 1)
                        ? "; squeeze(labels, {-1}) takes a last dimension of 1 away"
                        : "");
}

// The shape [...], with the sizes known from logits or labels.
Shape shape_of_rows(const Shape& logits, const Shape& labels) {
  Shape shape = labels;
  for (int d = 0; d < shape.ndim(); ++d) shape.set(d, std::max(logits[d], labels[d]));
  return shape;
}

// Throws: Error with the row and the label if one is out of range.
template <class L>
void check_labels(const KernelContext& ctx, const L* labels, int64_t rows, int64_t classes) {
  for (int64_t row = 0; row < rows; ++row)
    if (labels[row] < 0 || labels[row] >= classes)
      throw ctx.error("row ", row, " has the label ", labels[row], ", but there are ", classes,
                      " classes, counted from 0");
}

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
  static void run(const T* x, const Label* labels, const T* dloss, T* y, T* loss, int64_t rows,
                  int64_t classes) {
    for (int64_t row = 0; row < rows; ++row, x += classes) {
      const T chosen = x[labels[row]], max = row_max(x, classes);  // y may be x
      T sum;
      if constexpr (kGradient)
        sum = row_exp(x, y, classes, max);
      else
        sum = row_exp_sum(x, classes, max);
      if constexpr (kLoss) loss[row] = std::log(sum) + (max - chosen);
      if constexpr (kGradient) {
        to_loss_slopes(y, sum, dloss[row], labels[row], classes);
        y += classes;
      }
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
      const int64_t at = first * classes;
      in_isa<LossLoop<kLoss, kGradient>>(
          x + at, labels + first, kGradient ? dloss + first : nullptr, kGradient ? y + at : nullptr,
          kLoss ? loss + first : nullptr, count, classes);
    });
  });
}

template <bool kLoss, bool kGradient>
std::vector<Kernel> kernels() {
  return float_kernels(cpu<kLoss, kGradient, float>, cpu<kLoss, kGradient, double>);
}

std::vector<DType> infer_top_k_dtypes(const InferContext& ctx) {
  require_label_dtype(ctx, 1);
  return {DType::boolean};
}

std::vector<Shape> infer_top_k(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  require_logits_and_labels(ctx, ctx.input(0), ctx.input(1));
  const int64_t k = ctx.attr<int64_t>("k");
  if (k < 1) throw ctx.error("wants a k of at least 1, got ", k);
  return {shape_of_rows(ctx.input(0), ctx.input(1))};
}

// !(logit <= x) counts the greater logits and NaN.
template <class T>
int64_t count_greater(const T* logits, int64_t classes, T x) {
  int64_t count = 0;
  for (int64_t j = 0; j < classes; ++j) count += !(logits[j] <= x);
  return count;
}

template <class T>
void is_in_top_k(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const int64_t rows = ctx.input(1).size(), classes = ctx.input(0).dim(ctx.input(0).ndim() - 1);
  const T* x = ctx.input(0).data<T>();
  const int64_t k = ctx.attr<int64_t>("k");
  with_indices(ctx.input(1), [&](const auto* labels) {
    check_labels(ctx, labels, rows, classes);
    bool* y = ctx.output().template mutable_data<bool>();
    for (int64_t row = 0; row < rows; ++row, x += classes) {
      const T own = x[labels[row]];
      y[row] = own == own && count_greater(x, classes, own) < k;
    }
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

Op in_top_k_op() {
  return {.name = "InTopK",
          .inputs = {"logits", "labels"},
          .outputs = {"y"},
          .attrs = {{"k", AttrKind::integer}},
          .infer_dtypes = infer_top_k_dtypes,
          .infer_shapes = infer_top_k,
          .no_gradient = "a comparison is constant wherever it has a slope",
          .kernels = float_kernels(is_in_top_k<float>, is_in_top_k<double>)};
}

Output in_top_k(Output logits, Output labels, int64_t k, Origin at) {
  return add_node({.op = "InTopK", .inputs = {logits, labels}, .attrs = {{"k", k}}}, at);
}

}  // namespace troupe
