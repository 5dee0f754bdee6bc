// Determinant: y = det(a), the product of the pivots of LU. It runs over where log_det does not.
//   a: [..., n, n], f32 or f64   y: [...]; 1 for an empty matrix.
//
// LogDet: sign and log|det(a)|, from the pivots of LU, so that nothing overflows.
//   a: [..., n, n], f32 or f64   sign: [...], -1, 0 or 1   log: [...], -infinity for a singular a.
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

std::vector<Shape> infer_log(const InferContext& ctx) {
  require_square(ctx, 0);
  const Shape shape = batch_shape(ctx.input(0), {});
  return {shape, shape};
}

// Giles, An extended collection of matrix derivative results, 2008, section 2.2.4. Writing d for
// dL/d(log):  da = d * transpose(a^-1). The sign is constant.
std::vector<Output> gradient_of_log(const GradientContext& ctx) {
  const Output d = ctx.output_gradient(1);
  if (!d.defined()) return {Output{}};
  return {multiply(transposed(inverse(ctx.input(0))), with_axis(with_axis(d, -1), -1))};
}

template <class T>
void cpu_log(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const Tensor& input = ctx.input(0);
  const T* a = input.data<T>();
  const int64_t n = input.dim(input.ndim() - 1);
  const Shape shape = batch_shape(input.shape(), {});
  T* sign = ctx.output(0, shape).mutable_data<T>();
  T* log = ctx.output(1, shape).mutable_data<T>();
  if (shape.size() == 0) return;
  Lu<T> lu(ctx, n);
  for (int64_t i = 0; i < shape.size(); ++i) {
    lu.factorize(a + i * n * n);
    sign[i] = lu.swaps % 2 == 0 ? T{1} : T{-1};
    log[i] = 0;
    for (int64_t k = 0; k < n; ++k) {
      const T pivot = *lu.diagonal(k);
      log[i] += std::log(std::abs(pivot));
      sign[i] = pivot < 0 ? -sign[i] : pivot > 0 ? sign[i] : pivot * sign[i];  // 0 or NaN
    }
    sign[i] += T{0};  // no -0
  }
}

}  // namespace

Op determinant_op() {
  return matrix_op("Determinant", {"a"}, {"y"}, infer_shapes, gradient,
                   float_kernels(cpu<float>, cpu<double>));
}

Output determinant(Output a, Origin at) {
  return add_node({.op = "Determinant", .inputs = {a}}, at);
}

Op log_det_op() {
  return matrix_op("LogDet", {"a"}, {"sign", "log"}, infer_log, gradient_of_log,
                   float_kernels(cpu_log<float>, cpu_log<double>));
}

LogDet log_det(Output a, Origin at) {
  const std::vector<Output> outputs = all_outputs(add_node({.op = "LogDet", .inputs = {a}}, at));
  return {outputs[0], outputs[1]};
}

}  // namespace troupe
