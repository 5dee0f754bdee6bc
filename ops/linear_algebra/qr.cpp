// Qr: a = q * r by Householder reflections, with signs as LAPACK has them.
//   a: [..., m, n], f32 or f64   q: [..., m, k] with orthonormal columns   r: [..., k, n], upper
//   triangular   k: min(m, n)
#include "ops/linear_algebra/householder.hpp"

namespace troupe {
namespace {

std::vector<Shape> shapes_of(const Shape& a) {
  const int64_t m = a[a.ndim() - 2], n = a[a.ndim() - 1];
  const int64_t k = m < 0 || n < 0 ? -1 : std::min(m, n);
  return {batch_shape(a, {m, k}), batch_shape(a, {k, n})};
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_matrices(ctx, 0);
  return shapes_of(ctx.input(0));
}

// For m >= n (Walter and Lehmann, Algorithmic differentiation of linear algebra functions, 2013).
// With h = r * transpose(dr) - transpose(dq) * q and P for the lower triangle with half its
// diagonal:
//   da = (dq + q * (P(h) + transpose(P(h)))) * transpose(r^-1).
Output tall_gradient(Output q, Output r, Output dq, Output dr) {
  Output h;
  if (dr.defined()) h = matmul(r, dr, {.transpose_b = true});
  if (dq.defined()) {
    const Output minus = matmul(dq, q, {.transpose_a = true});
    h = h.defined() ? h - minus : negate(minus);
  }
  const Output p = halved_triangle(h);
  Output left = matmul(q, p + transposed(p));
  if (dq.defined()) left = left + dq;
  return transposed(triangular_solve(r, transposed(left), {.lower = false}));
}

// Columns [begin, end) of x.
Output columns(Output x, int64_t begin, int64_t end) {
  std::vector<int64_t> from(static_cast<size_t>(x.shape().ndim()), 0), size(from.size(), -1);
  from.back() = begin;
  size.back() = end - begin;
  return slice(x, from, size);
}

// For m < n (Roberts and Roberts, QR and LQ decomposition matrix backpropagation algorithms, 2020):
// a = [x, y] with a square x = q * u, so that r = [u, v] with v = transpose(q) * y.
Output wide_gradient(Output a, Output q, Output r, Output dq, Output dr) {
  const int last = a.shape().ndim() - 1;
  const int64_t m = a.shape()[last - 1], n = a.shape()[last];
  const Output u = columns(r, 0, m);
  if (!dr.defined()) return concat({tall_gradient(q, u, dq, {}), zeros_like(columns(a, m, n))}, -1);
  const Output dv = columns(dr, m, n);
  const Output through_v = matmul(columns(a, m, n), dv, {.transpose_b = true});
  const Output dq_all = dq.defined() ? dq + through_v : through_v;
  return concat({tall_gradient(q, u, dq_all, columns(dr, 0, m)), matmul(q, dv)}, -1);
}

std::vector<Output> gradient(const GradientContext& ctx) {
  const Output a = ctx.input(0), q = ctx.output(0), r = ctx.output(1);
  const Output dq = ctx.output_gradient(0), dr = ctx.output_gradient(1);
  const int64_t m = a.shape()[a.shape().ndim() - 2], n = a.shape()[a.shape().ndim() - 1];
  // Sizes that are not known are taken for m >= n; else TriangularSolve refuses r in the step.
  if (m >= 0 && n >= 0 && m < n) return {wide_gradient(a, q, r, dq, dr)};
  return {tall_gradient(q, r, dq, dr)};
}

template <class T>
void cpu(KernelContext& ctx) {
  const Tensor& a = ctx.input(0);
  const Batch batch = batch_of(a);
  const int64_t m = batch.rows, n = batch.columns, k = std::min(m, n);
  const std::vector<Shape> shapes = shapes_of(a.shape());
  T* q = ctx.output(0, shapes[0]).mutable_data<T>();
  T* r = ctx.output(1, shapes[1]).mutable_data<T>();
  if (batch.count == 0) return;
  std::vector<T> work(a.data<T>(), a.data<T>() + batch.count * batch.size());
  std::vector<T> v(static_cast<size_t>(k * m)), tau(static_cast<size_t>(k)),
      w(static_cast<size_t>(std::max(n, k)));
  T* from = work.data();
  for (int64_t i = 0; i < batch.count; ++i, from += m * n, q += m * k, r += k * n) {
    in_isa<QrLoop>(from, v.data(), tau.data(), w.data(), m, n);
    for (int64_t row = 0; row < k; ++row) {
      std::fill_n(r + row * n, row, T{0});
      std::copy(from + row * n + row, from + row * n + n, r + row * n + row);
    }
    std::fill_n(q, m * k, T{0});
    for (int64_t j = 0; j < k; ++j) q[j * k + j] = 1;
    in_isa<ReflectLoop>(static_cast<const T*>(v.data()), static_cast<const T*>(tau.data()), q,
                        w.data(), m, k, k);
  }
}

}  // namespace

Op qr_op() {
  return matrix_op("Qr", {"a"}, {"q", "r"}, infer_shapes, gradient,
                   float_kernels(cpu<float>, cpu<double>));
}

Qr qr(Output a, Origin at) {
  const std::vector<Output> outputs = all_outputs(add_node({.op = "Qr", .inputs = {a}}, at));
  return {outputs[0], outputs[1]};
}

}  // namespace troupe
