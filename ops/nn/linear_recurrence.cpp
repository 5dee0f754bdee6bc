// LinearRecurrence: y[0] = 0 and y[i] = u[i - 1] + w[i - 1] * y[i - 1] along an axis; `reverse`
// runs from the other end. With the empty product equal to 1, this is
//   y[i] = the sum over k < i of u[k] * w[k + 1] * ... * w[i - 1],
// the sum in the gradient of a running product.
//   u, w, y: one shape, f32 or f64, no scalars.
#include "ops/gradients.hpp"
#include "ops/reductions/scan.hpp"

namespace troupe {
namespace {

template <class Context>
void check_same(const Context& ctx, const Shape& u, const Shape& w) {
  if (!may_equal(u, w)) throw ctx.error("wants u and w of one shape, got ", u, " and ", w);
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  check_same(ctx, ctx.input(0), ctx.input(1));
  return infer_scan(ctx);
}

// Writing dy for dL/dy:  du[k] = the sum over i > k of dy[i] * w[k + 1] * ... * w[i - 1], the same
// recurrence from the other end, and  dw = y * du: each product that contains w[j] has one factor
// before j and one after it.
std::vector<Output> gradient(const GradientContext& ctx) {
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
void cpu(KernelContext& ctx) {
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

Op linear_recurrence_op() {
  return {
      .name = "LinearRecurrence",
      .inputs = {"u", "w"},
      .outputs = {"y"},
      .attrs = {{"axis", AttrKind::integer, int64_t{-1}}, {"reverse", AttrKind::boolean, false}},
      .infer_shapes = infer_shapes,
      .gradient = gradient,
      .kernels = float_kernels(cpu<float>, cpu<double>),
      .in_place = true,
      .precision = Precision::wide};
}

Output linear_recurrence(Output u, Output w, int64_t axis, bool reverse, Origin at) {
  return add_node(
      {.op = "LinearRecurrence", .inputs = {u, w}, .attrs = {{"axis", axis}, {"reverse", reverse}}},
      at);
}

}  // namespace troupe
