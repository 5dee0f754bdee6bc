// Scans: running results along one axis. Results of f32 are kept in f64, so that a long scan does
// not lose precision. Each line along the axis is one chain in order, so the bits are the same on
// any thread.
//
// Cumsum: y[i] = x[0] + ... + x[i] along an axis; `exclusive`: without x[i], so y[0] = 0;
// `reverse`: from the other end.
//   x, y: any shape but a scalar. Integers wrap around.
//
// Cumprod: y[i] = x[0] * ... * x[i] along an axis; `exclusive`: without x[i], so y[0] = 1;
// `reverse`: from the other end.
//   x, y: any shape but a scalar. Integers wrap around.
//
// LinearRecurrence: y[0] = 0 and y[i] = u[i - 1] + w[i - 1] * y[i - 1] along an axis; `reverse`
// runs from the other end. With the empty product equal to 1, this is
//   y[i] = the sum over k < i of u[k] * w[k + 1] * ... * w[i - 1],
// the sum in the gradient of a running product.
//   u, w, y: one shape, f32 or f64, no scalars.
#include "ops/gradients.hpp"
#include "ops/support/axes.hpp"
#include "ops/support/elementwise.hpp"

namespace troupe {
namespace {

std::vector<AttrSpec> scan_attrs() {
  return {{"axis", AttrKind::integer, int64_t{-1}},
          {"exclusive", AttrKind::boolean, false},
          {"reverse", AttrKind::boolean, false}};
}

Attrs to_attrs(const ScanOptions& options) {
  return {{"axis", options.axis}, {"exclusive", options.exclusive}, {"reverse", options.reverse}};
}

ScanOptions scan_options(const Node& node) {
  return {node.attr<int64_t>("axis"), node.attr<bool>("exclusive"), node.attr<bool>("reverse")};
}

// For input 0, along "axis".
std::vector<Shape> infer_scan(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  if (ctx.input(0).ndim() == 0)
    throw ctx.error("runs along an axis, and a scalar has none; reshape it to [1]");
  checked_axis(ctx, ctx.attr<int64_t>("axis"), ctx.input(0).ndim());
  return {ctx.input(0)};
}

template <class T>
using running = std::conditional_t<std::is_same_v<T, float>, double, T>;

// A tensor as [outer, n, inner], walked backwards along n if `reverse`.
struct ScanView {
  int64_t outer, n, inner;
  bool reverse;
};
// Requires: x is not empty.
ScanView scan_view(const Shape& x, int64_t axis, bool reverse) {
  const int d = static_cast<int>(axis < 0 ? axis + x.ndim() : axis);
  return {size_between(x, 0, d), x[d], size_between(x, d + 1, x.ndim()), reverse};
}

constexpr int64_t kScanColumnsMax = 256;  // running results fit the nearest cache

// Calls run(offset of the first row, elements to the next row, columns) for blocks of columns.
template <class Run>
void for_each_scan(const ScanView& view, Run run) {
  const int64_t step = view.reverse ? -view.inner : view.inner;
  const int64_t first = view.reverse ? (view.n - 1) * view.inner : 0;
  for (int64_t o = 0; o < view.outer; ++o)
    for (int64_t j = 0; j < view.inner; j += kScanColumnsMax)
      run(o * view.n * view.inner + first + j, step, std::min(kScanColumnsMax, view.inner - j));
}

// Scans rows of `columns` <= kScanColumnsMax, each `step` after the last one; y may be x.
template <class F, bool kExclusive>
struct ScanLoop {
  template <class T>
  static void run(const T* x, T* y, int64_t rows, int64_t step, int64_t columns, T first) {
    using S = running<T>;
    if (columns == 1) {
      S state = first;
      for (int64_t r = 0; r < rows; ++r, x += step, y += step) {
        const S next = F::apply(state, static_cast<S>(*x));
        *y = static_cast<T>(kExclusive ? state : next);
        state = next;
      }
      return;
    }
    S states[kScanColumnsMax];
    std::fill_n(states, columns, S{first});
    for (int64_t r = 0; r < rows; ++r, x += step, y += step) {
      TROUPE_INDEPENDENT
      for (int64_t j = 0; j < columns; ++j) {
        const S next = F::apply(states[j], static_cast<S>(x[j]));
        y[j] = static_cast<T>(kExclusive ? states[j] : next);
        states[j] = next;
      }
    }
  }
};

// y = the running F::apply of x, starting with kFirst.
template <class F, int kFirst, class T>
void run_scan(KernelContext& ctx) {
  const ScanOptions options = scan_options(ctx.node());
  const Shape shape = ctx.input(0).shape();
  const T* x = ctx.input(0).data<T>();
  T* y = ctx.output_in_place().template mutable_data<T>();
  if (shape.size() == 0) return;
  const ScanView view = scan_view(shape, options.axis, options.reverse);
  for_each_scan(view, [&](int64_t at, int64_t step, int64_t columns) {
    if (options.exclusive)
      in_isa<ScanLoop<F, true>>(x + at, y + at, view.n, step, columns, T{kFirst});
    else
      in_isa<ScanLoop<F, false>>(x + at, y + at, view.n, step, columns, T{kFirst});
  });
}

template <class F, int kFirst, class... Ts>
std::vector<Kernel> scan_kernels() {
  return {{DeviceKind::cpu, dtype_of<Ts>, run_scan<F, kFirst, Ts>}...};
}

// Writing dy for dL/dy:  dx[i] = dy[i] + ... + dy[n - 1], the running sum from the other end.
std::vector<Output> sum_gradient(const GradientContext& ctx) {
  ScanOptions options = scan_options(ctx.node());
  options.reverse = !options.reverse;
  return {cumsum(ctx.output_gradient(0), options)};
}

// Writing dy for dL/dy, and before[i] = x[0] * ... * x[i - 1]:
//   dx[i] = before[i] * (dy[i] + the sum over k > i of dy[k] * x[i + 1] * ... * x[k]),
// without dy[i] and x[k] if exclusive. There is no division, so zero factors are handled.
std::vector<Output> product_gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), dy = ctx.output_gradient(0);
  ScanOptions options = scan_options(ctx.node());
  const Output before = cumprod(x, {options.axis, /*exclusive=*/true, options.reverse});
  if (options.exclusive)
    return {multiply(before, linear_recurrence(dy, x, options.axis, !options.reverse))};
  const Output later = linear_recurrence(multiply(dy, x), x, options.axis, !options.reverse);
  return {multiply(before, add(dy, later))};
}

Op scan_op(const char* name, decltype(Op::gradient) gradient, std::vector<Kernel> kernels) {
  return {.name = name,
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = scan_attrs(),
          .infer_shapes = infer_scan,
          .gradient = gradient,
          .kernels = std::move(kernels),
          .in_place = true,
          .precision = Precision::wide};
}

template <class Context>
void check_same(const Context& ctx, const Shape& u, const Shape& w) {
  if (!may_equal(u, w)) throw ctx.error("wants u and w of one shape, got ", u, " and ", w);
}

std::vector<Shape> infer_recurrence(const InferContext& ctx) {
  check_same(ctx, ctx.input(0), ctx.input(1));
  return infer_scan(ctx);
}

// Writing dy for dL/dy:  du[k] = the sum over i > k of dy[i] * w[k + 1] * ... * w[i - 1], the same
// recurrence from the other end, and  dw = y * du: each product that contains w[j] has one factor
// before j and one after it.
std::vector<Output> gradient_of_recurrence(const GradientContext& ctx) {
  const Output w = ctx.input(1), y = ctx.output(0), dy = ctx.output_gradient(0);
  const Output du = linear_recurrence(dy, w, ctx.attr<int64_t>("axis"), !ctx.attr<bool>("reverse"));
  return {du, multiply(y, du)};
}

struct RecurrenceLoop {
  template <class T>
  static void run(const T* u, const T* w, T* y, int64_t rows, int64_t step, int64_t columns) {
    using S = running<T>;
    if (columns == 1) {
      S state = 0;
      for (int64_t r = 0; r < rows; ++r, u += step, w += step, y += step) {
        const S next = *u + *w * state;
        *y = static_cast<T>(state);
        state = next;
      }
      return;
    }
    S states[kScanColumnsMax];
    std::fill_n(states, columns, S{0});
    for (int64_t r = 0; r < rows; ++r, u += step, w += step, y += step) {
      TROUPE_INDEPENDENT
      for (int64_t j = 0; j < columns; ++j) {
        const S state = states[j];
        states[j] = u[j] + w[j] * state;
        y[j] = static_cast<T>(state);
      }
    }
  }
};

template <class T>
void run_recurrence(KernelContext& ctx) {
  const Shape shape = ctx.input(0).shape();
  check_same(ctx, shape, ctx.input(1).shape());
  const T *u = ctx.input(0).data<T>(), *w = ctx.input(1).data<T>();
  T* y = ctx.output_in_place().template mutable_data<T>();
  if (shape.size() == 0) return;
  const ScanView view = scan_view(shape, ctx.attr<int64_t>("axis"), ctx.attr<bool>("reverse"));
  for_each_scan(view, [&](int64_t at, int64_t step, int64_t columns) {
    in_isa<RecurrenceLoop>(u + at, w + at, y + at, view.n, step, columns);
  });
}

}  // namespace

Op cumsum_op() {
  return scan_op("Cumsum", sum_gradient, scan_kernels<Add, 0, float, double, int32_t, int64_t>());
}

Output cumsum(Output x, ScanOptions options, Origin at) {
  return add_node({.op = "Cumsum", .inputs = {x}, .attrs = to_attrs(options)}, at);
}

Op cumprod_op() {
  return scan_op("Cumprod", product_gradient,
                 scan_kernels<Multiply, 1, float, double, int32_t, int64_t>());
}

Output cumprod(Output x, ScanOptions options, Origin at) {
  return add_node({.op = "Cumprod", .inputs = {x}, .attrs = to_attrs(options)}, at);
}

Op linear_recurrence_op() {
  return {
      .name = "LinearRecurrence",
      .inputs = {"u", "w"},
      .outputs = {"y"},
      .attrs = {{"axis", AttrKind::integer, int64_t{-1}}, {"reverse", AttrKind::boolean, false}},
      .infer_shapes = infer_recurrence,
      .gradient = gradient_of_recurrence,
      .kernels = float_kernels(run_recurrence<float>, run_recurrence<double>),
      .in_place = true,
      .precision = Precision::wide};
}

Output linear_recurrence(Output u, Output w, int64_t axis, bool reverse, Origin at) {
  return add_node(
      {.op = "LinearRecurrence", .inputs = {u, w}, .attrs = {{"axis", axis}, {"reverse", reverse}}},
      at);
}

}  // namespace troupe
