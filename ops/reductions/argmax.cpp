// ArgMax: y = the index of the greatest x along `axis`; the first one if several are equal. NaN
// counts as greater than all numbers.
//   x: [..., n, ...], n >= 1   y: i64, the shape of x without `axis`. Negative axes count from the
//   end.
//
// ArgMin: the same for the least x; NaN counts as less than all numbers.
#include "ops/reductions/reduce.hpp"
#include "ops/support/narrow.hpp"

namespace troupe {
namespace {

// F is Maximum or Minimum.

// Context: InferContext or KernelContext.
template <class Context>
int axis_with_choice(const Context& ctx, const Shape& x) {
  const int axis = checked_axis(ctx, ctx.template attr<int64_t>("axis"), x.ndim());
  if (x[axis] == 0)
    throw ctx.error("has nothing to choose from along axis ", axis, " of ", x,
                    "; name an axis with elements");
  return axis;
}

std::vector<Shape> infer_index_of_extreme(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  const Shape& x = ctx.input(0);
  const int axis = axis_with_choice(ctx, x);
  std::vector<int64_t> y(x.begin(), x.end());
  y.erase(y.begin() + axis);
  return {Shape(y)};
}

// True if v replaces the earlier choice b.
template <class F, class T>
bool wins(T v, T b) {
  const bool beyond = std::is_same_v<F, Maximum> ? v > b : v < b;
  return beyond | ((v != v) & (b == b));
}

// Lane j chooses among the elements j, j + kIndexLanes, j + 2 * kIndexLanes, ...; then the best
// lane is chosen.
template <class F, class T>
int64_t index_in_line(const T* x, int64_t n) {
  constexpr int kIndexLanes = 32;
  if (n < 2 * kIndexLanes) {
    int64_t best = 0;
    for (int64_t j = 1; j < n; ++j)
      if (wins<F>(x[j], x[best])) best = j;
    return best;
  }
  using Round = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;  // as wide as T, for vectors
  T best[kIndexLanes];
  Round round[kIndexLanes] = {};
  std::copy_n(x, kIndexLanes, best);
  const auto choose = [&](Round r, int j) {
    const T v = x[int64_t{r} * kIndexLanes + j];
    const bool won = wins<F>(v, best[j]);
    round[j] = won ? r : round[j];
    best[j] = won ? v : best[j];
  };
  const auto rounds = static_cast<Round>(n / kIndexLanes);
  for (Round r = 1; r < rounds; ++r) {
    TROUPE_INDEPENDENT
    for (int j = 0; j < kIndexLanes; ++j) choose(r, j);
  }
  for (int j = 0; j < n % kIndexLanes; ++j) choose(rounds, j);
  int64_t at = int64_t{round[0]} * kIndexLanes;
  for (int j = 1; j < kIndexLanes; ++j) {
    const int64_t other = int64_t{round[j]} * kIndexLanes + j;
    if (wins<F>(best[j], x[at]) || (other < at && !wins<F>(x[at], best[j]))) at = other;
  }
  return at;
}

template <class F>
struct IndexOfLines {
  template <class T>
  static void run(const T* x, int64_t lines, int64_t n, int64_t* y) {
    for (int64_t i = 0; i < lines; ++i) y[i] = index_in_line<F>(x + i * n, n);
  }
};

// Handles up to kColumnsMax columns of n rows, row by row.
template <class F>
struct IndexOfColumns {
  template <class T>
  static void run(const T* x, int64_t n, int64_t stride, int64_t columns, int64_t* y) {
    T best[kColumnsMax];
    std::copy_n(x, columns, best);
    std::fill_n(y, columns, int64_t{0});
    for (int64_t j = 1; j < n; ++j) {
      const T* row = x + j * stride;
      TROUPE_INDEPENDENT
      for (int64_t i = 0; i < columns; ++i) {
        const bool won = wins<F>(row[i], best[i]);
        best[i] = won ? row[i] : best[i];
        y[i] = won ? j : y[i];
      }
    }
  }
};

template <class F, class T>
void run_index_of_extreme(KernelContext& ctx) {
  const Shape shape = ctx.input(0).shape();
  const T* x = ctx.input(0).data<T>();
  const int axis = axis_with_choice(ctx, shape);
  Tensor& output = ctx.output();
  if (output.size() == 0) return;
  int64_t* y = output.mutable_data<int64_t>();
  const int64_t outer = size_between(shape, 0, axis), n = shape[axis];
  const int64_t inner = size_between(shape, axis + 1, shape.ndim());
  if (inner == 1)
    return in_row_groups(ctx, outer, n, [=](int64_t first, int64_t count) {
      in_isa<IndexOfLines<F>>(x + first * n, count, n, y + first);
    });
  const int64_t blocks = ceil_div(inner, kColumnsMax);
  in_row_groups(ctx, outer * blocks, n * std::min(inner, kColumnsMax),
                [=](int64_t first, int64_t count) {
                  for (int64_t i = first; i < first + count; ++i) {
                    const int64_t o = i / blocks, j = i % blocks * kColumnsMax;
                    in_isa<IndexOfColumns<F>>(x + o * n * inner + j, n, inner,
                                              std::min(kColumnsMax, inner - j), y + o * inner + j);
                  }
                });
}

template <class F, class... Ts>
std::vector<Kernel> kernels_of_index() {
  return with_i8({{DeviceKind::cpu, dtype_of<Ts>, run_index_of_extreme<F, Ts>}...});
}

// ArgMax for Maximum, ArgMin for Minimum.
template <class F>
Op index_of_extreme_op(std::string name) {
  return {.name = std::move(name),
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = {{"axis", AttrKind::integer, int64_t{-1}}},
          .infer_dtypes = infer_i64,
          .infer_shapes = infer_index_of_extreme,
          .no_gradient = "an index is constant wherever it has a slope",
          .kernels = kernels_of_index<F, float, double, int32_t, int64_t, uint8_t>()};
}

}  // namespace

Op argmax_op() { return index_of_extreme_op<Maximum>("ArgMax"); }

Output argmax(Output x, int64_t axis, Origin at) {
  return add_node({.op = "ArgMax", .inputs = {x}, .attrs = {{"axis", axis}}}, at);
}

Op argmin_op() { return index_of_extreme_op<Minimum>("ArgMin"); }

Output argmin(Output x, int64_t axis, Origin at) {
  return add_node({.op = "ArgMin", .inputs = {x}, .attrs = {{"axis", axis}}}, at);
}

}  // namespace troupe
