// Svd: a = u * diag(s) * transpose(v), the singular value decomposition; outputs in TensorFlow's
// order.
//   a: [..., m, n], f32 or f64   s: [..., k], descending   u: [..., m, k]   v: [..., n, k]
//   k: min(m, n). u and v have orthonormal columns; the greatest element of each of u is positive.
// Householder reflections make a square, Eigen's two-sided Jacobi rotations do the rest; all in
// f64. A matrix with NaN or infinity gives NaN.
#include <Eigen/SVD>

#include "ops/linear_algebra/householder.hpp"

namespace troupe {
namespace {

std::vector<Shape> shapes_of(const Shape& a) {
  const int64_t m = a[a.ndim() - 2], n = a[a.ndim() - 1];
  const int64_t k = m < 0 || n < 0 ? -1 : std::min(m, n);
  return {batch_shape(a, {k}), batch_shape(a, {m, k}), batch_shape(a, {n, k})};
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_matrices(ctx, 0);
  return shapes_of(ctx.input(0));
}

// f . (transpose(x) * dx - transpose(dx) * x)
Output turned(Output f, Output x, Output dx) {
  const Output product = matmul(x, dx, {.transpose_a = true});
  return multiply(f, product - transposed(product));
}

// (dx - x * transpose(x) * dx) * diag(s^-1): what leaves the space of x.
Output leaving(Output x, Output dx, Output inverse_s) {
  const Output within = matmul(x, matmul(x, dx, {.transpose_a = true}));
  return multiply(dx - within, inverse_s);
}

Output sum_of(Output a, Output b) { return a.defined() ? a + b : b; }

// Townsend, Differentiating the singular value decomposition, 2016; Giles 2008, section 3.4, has
// the term of s. With f[i, j] = 1 / (s[j]^2 - s[i]^2), and 0 where they are equal:
//   da = (u * (f . (ut du - dut u) * diag(s) + diag(ds) + diag(s) * f . (vt dv - dvt v))
//         + (du - u ut du) / s) * vt + u * transpose((dv - v vt dv) / s).
// Equal singular values have vectors without a derivative, and so has 0: these terms are left out.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output s = ctx.output(0), u = ctx.output(1), v = ctx.output(2);
  const Output ds = ctx.output_gradient(0), du = ctx.output_gradient(1);
  const Output dv = ctx.output_gradient(2);
  const Output row = with_axis(s, -2), column = with_axis(s, -1);
  Output inner, left, right;
  if (du.defined() || dv.defined()) {
    const Output f = reciprocal_or_zero(square(row) - square(column));
    const Output inverse_s = reciprocal_or_zero(row);
    if (du.defined()) {
      inner = multiply(turned(f, u, du), row);
      left = leaving(u, du, inverse_s);
    }
    if (dv.defined()) {
      inner = sum_of(inner, multiply(column, turned(f, v, dv)));
      right = leaving(v, dv, inverse_s);
    }
    left = sum_of(left, matmul(u, inner));
  }
  if (ds.defined()) left = sum_of(left, multiply(u, with_axis(ds, -2)));
  Output da = matmul(left, v, {.transpose_b = true});
  if (right.defined()) da = da + matmul(u, right, {.transpose_b = true});
  return {da};
}

// One decomposition after the other of m x n matrices; s, u and v hold the last one.
class Decomposition {
 public:
  Decomposition(int64_t m, int64_t n)
      : m_(std::max(m, n)),
        k_(std::min(m, n)),
        is_wide_(m < n),
        a_(static_cast<size_t>(m * n)),
        reflections_(a_.size()),
        tau_(static_cast<size_t>(k_)),
        row_(tau_.size()),
        s_(tau_.size()),
        tall_(a_.size()),
        square_(static_cast<size_t>(k_ * k_)) {}

  template <class T>
  void decompose(const T* a) {
    for (int64_t i = 0; i < m_; ++i)
      for (int64_t j = 0; j < k_; ++j)
        a_[at(i, j)] = static_cast<double>(is_wide_ ? a[j * m_ + i] : a[i * k_ + j]);
    const double scale = scale_down(a_);
    if (std::isnan(scale)) {
      for (std::vector<double>* part : {&s_, &tall_, &square_})
        std::fill(part->begin(), part->end(), std::nan(""));
      return;
    }
    in_isa<QrLoop>(a_.data(), reflections_.data(), tau_.data(), row_.data(), m_, k_);
    Eigen::MatrixXd r = Eigen::MatrixXd::Zero(k_, k_);
    for (int64_t i = 0; i < k_; ++i)
      for (int64_t j = i; j < k_; ++j) r(i, j) = a_[at(i, j)];
    const Eigen::JacobiSVD<Eigen::MatrixXd, Eigen::NoQRPreconditioner> svd(
        r, Eigen::ComputeFullU | Eigen::ComputeFullV);
    std::fill(tall_.begin(), tall_.end(), 0.0);
    for (int64_t i = 0; i < k_; ++i) {
      s_[static_cast<size_t>(i)] = scale * svd.singularValues()[i];
      for (int64_t j = 0; j < k_; ++j) {
        tall_[at(i, j)] = svd.matrixU()(i, j);
        square_[at(i, j)] = svd.matrixV()(i, j);
      }
    }
    in_isa<ReflectLoop>(static_cast<const double*>(reflections_.data()),
                        static_cast<const double*>(tau_.data()), tall_.data(), row_.data(), m_, k_,
                        k_);
    for (int64_t j = 0; j < k_; ++j) {
      if (!points_down(u().data(), is_wide_ ? k_ : m_, k_, j)) continue;
      negate_column(tall_.data(), m_, k_, j);
      negate_column(square_.data(), k_, k_, j);
    }
  }

  const std::vector<double>& s() const { return s_; }
  const std::vector<double>& u() const { return is_wide_ ? square_ : tall_; }
  const std::vector<double>& v() const { return is_wide_ ? tall_ : square_; }

 private:
  size_t at(int64_t i, int64_t j) const { return static_cast<size_t>(i * k_ + j); }

  int64_t m_, k_;  // of a, or of its transpose if it is wide
  bool is_wide_;
  std::vector<double> a_, reflections_, tau_, row_;
  std::vector<double> s_, tall_, square_;  // tall: [m, k]   square: [k, k]
};

template <class T>
T* copied(const std::vector<double>& from, T* to) {
  return std::transform(from.begin(), from.end(), to, [](double x) { return static_cast<T>(x); });
}

template <class T>
void cpu(KernelContext& ctx) {
  const T* a = ctx.input(0).data<T>();
  const Batch batch = batch_of(ctx.input(0));
  const std::vector<Shape> shapes = shapes_of(ctx.input(0).shape());
  T* s = ctx.output(0, shapes[0]).mutable_data<T>();
  T* u = ctx.output(1, shapes[1]).mutable_data<T>();
  T* v = ctx.output(2, shapes[2]).mutable_data<T>();
  if (batch.count == 0) return;
  Decomposition one(batch.rows, batch.columns);
  for (int64_t i = 0; i < batch.count; ++i) {
    one.decompose(a + i * batch.size());
    s = copied(one.s(), s);
    u = copied(one.u(), u);
    v = copied(one.v(), v);
  }
}

}  // namespace

Op svd_op() {
  return matrix_op("Svd", {"a"}, {"s", "u", "v"}, infer_shapes, gradient,
                   float_kernels(cpu<float>, cpu<double>));
}

Svd svd(Output a, Origin at) {
  const std::vector<Output> outputs = all_outputs(add_node({.op = "Svd", .inputs = {a}}, at));
  return {outputs[0], outputs[1], outputs[2]};
}

}  // namespace troupe
