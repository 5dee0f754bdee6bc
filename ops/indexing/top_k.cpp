// TopK: values = the k greatest of x along the last dimension in descending order, equal ones in
// their order in x; indices = their positions. NaN counts as greater than all numbers.
//   x: [..., n], n >= k   values: [..., k]   indices: [..., k], i64
#include <algorithm>
#include <vector>

#include "ops/gradients.hpp"
#include "ops/support/narrow.hpp"
#include "ops/support/order.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

std::vector<DType> infer_dtypes(const InferContext& ctx) { return {ctx.dtype(0), DType::i64}; }

// Context: InferContext or KernelContext.
template <class Context>
Shape checked_shape(const Context& ctx, const Shape& x) {
  const int64_t k = ctx.template attr<int64_t>("k");
  if (x.ndim() < 1) throw ctx.error("wants lines to choose from, [..., n], got a scalar");
  Shape y = x;
  const int last = x.ndim() - 1;
  if (k < 0 || (x[last] >= 0 && k > x[last]))
    throw ctx.error("wants a k from 0 to the size of the last dimension, got ", k, " for ", x);
  y.set(last, k);
  return y;
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  const Shape y = checked_shape(ctx, ctx.input(0));
  return {y, y};
}

// Writing dy for dL/d(values):  dx = dy at the positions of the values, otherwise 0.
std::vector<Output> gradient(const GradientContext& ctx) {
  return {take_along_gradient(ctx.output_gradient(0), ctx.output(1), ctx.input(0))};
}

// `at` counts down, so that the first of equal elements is the greatest. The k greatest so far are
// a heap with the least of them on top: most elements are compared with that one only.
template <class T>
void choose(const T* x, int64_t n, std::vector<Placed<T>>& best) {
  const auto greater = [](const Placed<T>& a, const Placed<T>& b) { return b < a; };
  const int64_t k = static_cast<int64_t>(best.size());
  for (int64_t i = 0; i < k; ++i) best[static_cast<size_t>(i)] = {x[i], -i};
  std::make_heap(best.begin(), best.end(), greater);
  for (int64_t i = k; i < n; ++i) {
    if (!rises(best.front().value, x[i])) continue;
    std::pop_heap(best.begin(), best.end(), greater);
    best.back() = {x[i], -i};
    std::push_heap(best.begin(), best.end(), greater);
  }
  std::sort_heap(best.begin(), best.end(), greater);
}

template <class T>
void cpu(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  const Shape y = checked_shape(ctx, x.shape());
  T* values = ctx.output(0, y).template mutable_data<T>();
  int64_t* indices = ctx.output(1, y).template mutable_data<int64_t>();
  const int64_t n = x.dim(x.ndim() - 1), k = ctx.attr<int64_t>("k");
  if (k == 0 || x.size() == 0) return;
  std::vector<Placed<T>> best(static_cast<size_t>(k));
  const T* line = x.data<T>();
  for (const T* end = line + x.size(); line < end; line += n) {
    choose(line, n, best);
    for (const Placed<T>& p : best) {
      *values++ = p.value;
      *indices++ = -p.at;
    }
  }
}

}  // namespace

Op top_k_op() {
  return {.name = "TopK",
          .inputs = {"x"},
          .outputs = {"values", "indices"},
          .attrs = {{"k", AttrKind::integer}},
          .infer_dtypes = infer_dtypes,
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = with_i8(
              number_kernels(cpu<float>, cpu<double>, cpu<int32_t>, cpu<int64_t>, cpu<uint8_t>))};
}

TopK top_k(Output x, int64_t k, Origin at) {
  const auto outputs =
      all_outputs(add_node({.op = "TopK", .inputs = {x}, .attrs = {{"k", k}}}, at));
  return {outputs[0], outputs[1]};
}

}  // namespace troupe
