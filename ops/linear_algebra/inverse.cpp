// Inverse: y with a * y = the identity, by LU with partial pivoting.
//   a, y: [..., n, n], f32 or f64. To solve equations, `solve` is faster and more accurate.
#include "ops/linear_algebra/lu.hpp"

namespace troupe {
namespace {

// Giles, An extended collection of matrix derivative results, 2008, section 2.2.3. Writing dy for
// dL/dy:  da = -transpose(y) * dy * transpose(y).
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output y = ctx.output(0), dy = ctx.output_gradient(0);
  const Output left = matmul(y, dy, {.transpose_a = true});
  return {negate(matmul(left, y, {.transpose_b = true}))};
}

template <class T>
void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const T* a = ctx.input(0).data<T>();
  const Batch batch = batch_of(ctx.input(0));
  T* y = ctx.output().mutable_data<T>();
  if (batch.count == 0) return;
  Lu<T> lu(ctx, batch.rows);
  for (int64_t i = 0; i < batch.count; ++i) {
    lu.factorize(a + i * batch.size());
    lu.require_regular(ctx, i, batch.count);
    lu.solve(nullptr, /*transpose=*/false, y + i * batch.size(), batch.rows);
  }
}

}  // namespace

Op inverse_op() {
  return {.name = "Inverse",
          .inputs = {"a"},
          .outputs = {"y"},
          .infer_shapes = infer_square,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::f32, cpu<float>},
                      {DeviceKind::cpu, DType::f64, cpu<double>}},
          .precision = Precision::wide};
}

Output inverse(Output a, Origin at) { return add_node({.op = "Inverse", .inputs = {a}}, at); }

}  // namespace troupe
