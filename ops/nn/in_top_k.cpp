// InTopK: y[i] is true if fewer than k classes have a greater logit than labels[i], so all logits
// equal to the k-th greatest are in the top k. NaN counts as greater than all numbers, and a label
// whose own logit is NaN is never in the top k.
//   logits: [..., classes], f32 or f64   labels: [...], i32 or i64, each in [0, classes)
//   y: [...], bool
#include "ops/nn/cross_entropy.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

std::vector<DType> infer_dtypes(const InferContext& ctx) {
  require_label_dtype(ctx, 1);
  return {DType::boolean};
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
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
void cpu(KernelContext& ctx) {
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

Op in_top_k_op() {
  return {.name = "InTopK",
          .inputs = {"logits", "labels"},
          .outputs = {"y"},
          .attrs = {{"k", AttrKind::integer}},
          .infer_dtypes = infer_dtypes,
          .infer_shapes = infer_shapes,
          .no_gradient = "a comparison is constant wherever it has a slope",
          .kernels = float_kernels(cpu<float>, cpu<double>)};
}

Output in_top_k(Output logits, Output labels, int64_t k, Origin at) {
  return add_node({.op = "InTopK", .inputs = {logits, labels}, .attrs = {{"k", k}}}, at);
}

}  // namespace troupe
