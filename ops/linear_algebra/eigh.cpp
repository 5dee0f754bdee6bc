// Eigh: a = v * diag(w) * transpose(v), the eigenvalues and eigenvectors of a symmetric matrix.
//   a: [..., n, n], f32 or f64, of which only the lower triangle is read   w: [..., n], ascending
//   v: [..., n, n], vectors in columns; the greatest element of each is positive.
// Householder reflections make a tridiagonal, Eigen's QR iteration does the rest; all in f64. A
// matrix with NaN or infinity gives NaN.
#include <Eigen/Eigenvalues>

#include "ops/linear_algebra/householder.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_square(ctx, 0);
  const Shape vectors = square_shape(ctx.input(0));
  return {batch_shape(vectors, {vectors[vectors.ndim() - 1]}), vectors};
}

// Giles, An extended collection of matrix derivative results, 2008, section 3.1. With f[i, j] = 1 /
// (w[j] - w[i]), and 0 where they are equal, where the vectors have no derivative:
//   s = v * (diag(dw) + f . (transpose(v) * dv)) * transpose(v),
// and da = the lower triangle of s + transpose(s), its diagonal halved, as only that of a is read.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output w = ctx.output(0), v = ctx.output(1);
  const Output dw = ctx.output_gradient(0), dv = ctx.output_gradient(1);
  Output left;  // v * (...)
  if (dw.defined()) left = multiply(v, with_axis(dw, -2));
  if (dv.defined()) {
    const Output f = reciprocal_or_zero(with_axis(w, -2) - with_axis(w, -1));
    const Output turned = matmul(v, multiply(f, matmul(v, dv, {.transpose_a = true})));
    left = left.defined() ? left + turned : turned;
  }
  return {lower_gradient(matmul(left, v, {.transpose_b = true}))};
}

struct TridiagonalLoop {
  // a [n, n] becomes diagonal[n] and beside[n - 1] with the reflections that were applied, which
  // stand as QrLoop leaves them in the rows and columns from 1 on: v [n - 1, n - 1], tau [n - 1].
  static void run(double* a, double* diagonal, double* beside, double* v, double* tau, double* w,
                  int64_t n) {
    for (int64_t k = 0; k + 1 < n; ++k) {
      diagonal[k] = a[k * n + k];
      const int64_t m = n - k - 1;
      double* one = v + k * (n - 1) + k;
      for (int64_t i = 0; i < m; ++i) one[i] = a[(k + 1 + i) * n + k];
      const Reflection<double> reflection = reflect(one, m);
      tau[k] = reflection.tau;
      beside[k] = reflection.beta;
      double* rest = a + (k + 1) * (n + 1);  // [m, m]; becomes h * rest * h
      for (int64_t i = 0; i < m; ++i) w[i] = tau[k] * row_dot(rest + i * n, one, m);
      const double half = tau[k] / 2 * row_dot(w, one, m);
      subtract_row(half, one, w, m);
      for (int64_t i = 0; i < m; ++i) {
        subtract_row(one[i], w, rest + i * n, m);
        subtract_row(w[i], one, rest + i * n, m);
      }
    }
    diagonal[n - 1] = a[n * n - 1];
  }
};

// One decomposition after the other of n x n matrices; w and v hold the last one.
class Decomposition {
 public:
  explicit Decomposition(int64_t n)
      : w(static_cast<size_t>(n)),
        v(static_cast<size_t>(n * n)),
        n_(n),
        a_(v.size()),
        beside_(w.size()),
        reflections_(v.size()),
        tau_(w.size()),
        row_(w.size()) {}

  // Returns false if the iteration does not end.
  template <class T>
  bool decompose(const T* a) {
    for (int64_t i = 0; i < n_; ++i)
      for (int64_t j = 0; j <= i; ++j)
        a_[at(i, j)] = a_[at(j, i)] = static_cast<double>(a[i * n_ + j]);
    const double scale = scale_down(a_);
    if (std::isnan(scale)) {
      std::fill(w.begin(), w.end(), std::nan(""));
      std::fill(v.begin(), v.end(), std::nan(""));
      return true;
    }
    in_isa<TridiagonalLoop>(a_.data(), w.data(), beside_.data(), reflections_.data(), tau_.data(),
                            row_.data(), n_);
    Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver;
    solver.computeFromTridiagonal(Eigen::Map<const Eigen::VectorXd>(w.data(), n_),
                                  Eigen::Map<const Eigen::VectorXd>(beside_.data(), n_ - 1));
    if (solver.info() != Eigen::Success) return false;
    for (int64_t i = 0; i < n_; ++i) {
      w[static_cast<size_t>(i)] = scale * solver.eigenvalues()[i];
      for (int64_t j = 0; j < n_; ++j) v[at(i, j)] = solver.eigenvectors()(i, j);
    }
    in_isa<ReflectLoop>(static_cast<const double*>(reflections_.data()),
                        static_cast<const double*>(tau_.data()), v.data() + n_, row_.data(), n_ - 1,
                        n_, n_ - 1);
    for (int64_t j = 0; j < n_; ++j)
      if (points_down(v.data(), n_, n_, j)) negate_column(v.data(), n_, n_, j);
    return true;
  }

  std::vector<double> w, v;

 private:
  size_t at(int64_t i, int64_t j) const { return static_cast<size_t>(i * n_ + j); }

  int64_t n_;
  std::vector<double> a_, beside_, reflections_, tau_, row_;
};

template <class T>
void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const T* a = ctx.input(0).data<T>();
  const Batch batch = batch_of(ctx.input(0));
  const int64_t n = batch.rows;
  const Shape shape = ctx.input(0).shape();
  T* w = ctx.output(0, batch_shape(shape, {n})).mutable_data<T>();
  T* v = ctx.output(1, shape).mutable_data<T>();
  if (batch.count == 0) return;
  Decomposition one(n);
  for (int64_t i = 0; i < batch.count; ++i) {
    if (!one.decompose(a + i * n * n))
      throw ctx.error(which_matrix(i, batch.count), " has eigenvalues that the QR iteration does ",
                      "not find; scale it, or add a multiple of the identity");
    std::transform(one.w.begin(), one.w.end(), w + i * n,
                   [](double x) { return static_cast<T>(x); });
    std::transform(one.v.begin(), one.v.end(), v + i * n * n,
                   [](double x) { return static_cast<T>(x); });
  }
}

}  // namespace

Op eigh_op() {
  return matrix_op("Eigh", {"a"}, {"values", "vectors"}, infer_shapes, gradient,
                   float_kernels(cpu<float>, cpu<double>));
}

Eigh eigh(Output a, Origin at) {
  const std::vector<Output> outputs = all_outputs(add_node({.op = "Eigh", .inputs = {a}}, at));
  return {outputs[0], outputs[1]};
}

}  // namespace troupe
