// SearchSorted: y[..., i] = the position in sorted[..., :] at which values[..., i] keeps it in
// ascending order: before equal elements, or after them if `right`. NaN counts as greater than all
// numbers. The order of `sorted` is not checked.
//   sorted: [n] and values: any shape; or [..., n] and [..., m]   y: the shape of values, i64
#include <algorithm>

#include "ops/support/order.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

std::vector<DType> infer_dtypes(const InferContext& ctx) {
  if (ctx.dtype(0) != ctx.dtype(1))
    throw ctx.error("compares values of one dtype, got ", ctx.dtype(0), " and ", ctx.dtype(1),
                    "; cast one of them");
  return {DType::i64};
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  const Shape &sorted = ctx.input(0), &values = ctx.input(1);
  bool fits = sorted.ndim() == 1 || (sorted.ndim() > 1 && sorted.ndim() == values.ndim());
  for (int d = 0; fits && d < sorted.ndim() - 1; ++d) fits = may_equal(sorted[d], values[d]);
  if (!fits)
    throw ctx.error("wants sorted [n], or sorted [..., n] and values [..., m], got ", sorted,
                    " and ", values);
  return {values};
}

template <class T>
void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const Tensor &sorted = ctx.input(0), &values = ctx.input(1);
  const T *line = sorted.data<T>(), *x = values.data<T>();
  const bool right = ctx.attr<bool>("right");
  const auto before = [](T a, T b) { return rises(a, b); };
  const int64_t n = sorted.dim(sorted.ndim() - 1), size = values.size();
  const int64_t m = sorted.ndim() == 1 ? size : values.dim(values.ndim() - 1);
  int64_t* y = ctx.output().mutable_data<int64_t>();
  for (int64_t first = 0; first < size; first += m, line += n)
    for (int64_t i = first; i < first + m; ++i)
      y[i] = (right ? std::upper_bound(line, line + n, x[i], before)
                    : std::lower_bound(line, line + n, x[i], before)) -
             line;
}

}  // namespace

Op search_sorted_op() {
  return {
      .name = "SearchSorted",
      .inputs = {"sorted", "values"},
      .outputs = {"y"},
      .attrs = {{"right", AttrKind::boolean, false}},
      .infer_dtypes = infer_dtypes,
      .infer_shapes = infer_shapes,
      .no_gradient = "an index is constant wherever it has a slope",
      .kernels = number_kernels(cpu<float>, cpu<double>, cpu<int32_t>, cpu<int64_t>, cpu<uint8_t>)};
}

Output search_sorted(Output sorted, Output values, bool right, Origin at) {
  return add_node({.op = "SearchSorted", .inputs = {sorted, values}, .attrs = {{"right", right}}},
                  at);
}

}  // namespace troupe
