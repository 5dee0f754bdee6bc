// Determinant: y = det(a), the product of the pivots of LU. It runs over where log_det does not.
//   a: [..., n, n], f32 or f64   y: [...]; 1 for an empty matrix.
#include "ops/linear_algebra/lu.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_square(ctx, 0);
  return {batch_shape(ctx.input(0), {})};
}

// Giles, An extended collection of matrix derivative results, 2008, section 2.2.4. Writing dy for
// dL/dy:  da = dy * y * transpose(a^-1).
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output factor = multiply(ctx.output_gradient(0), ctx.output(0));
  return {multiply(transposed(inverse(ctx.input(0))), with_axis(with_axis(factor, -1), -1))};
}

template <class T>
void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const Tensor& input = ctx.input(0);
  const T* a = input.data<T>();
  const int64_t n = input.dim(input.ndim() - 1);
  Tensor& output = ctx.output(0, batch_shape(input.shape(), {}));
  T* y = output.mutable_data<T>();
  if (output.size() == 0) return;
  Lu<T> lu(ctx, n);
  for (int64_t i = 0; i < output.size(); ++i) {
    lu.factorize(a + i * n * n);
    y[i] = lu.swaps % 2 == 0 ? T{1} : T{-1};
    for (int64_t k = 0; k < n; ++k) y[i] *= *lu.diagonal(k);
  }
}

}  // namespace

Op determinant_op() {
  return {.name = "Determinant",
          .inputs = {"a"},
          .outputs = {"y"},
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::f32, cpu<float>},
                      {DeviceKind::cpu, DType::f64, cpu<double>}},
          .precision = Precision::wide};
}

Output determinant(Output a, Origin at) {
  return add_node({.op = "Determinant", .inputs = {a}}, at);
}

}  // namespace troupe
