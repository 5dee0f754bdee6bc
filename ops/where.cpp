// Where: y = a where the condition holds, else b; element-wise, all three broadcast.
//   condition: bool.   a, b: one dtype.
#include "ops/elementwise.hpp"

namespace troupe {
namespace {

std::vector<DType> infer_dtypes(const InferContext& ctx) {
  if (ctx.dtype(0) != DType::boolean)
    throw ctx.error("wants a bool condition, got ", ctx.dtype(0), "; compare it with something");
  if (ctx.dtype(1) != ctx.dtype(2))
    throw ctx.error("chooses between values of one dtype, got ", ctx.dtype(1), " and ",
                    ctx.dtype(2), "; cast one of them");
  return {ctx.dtype(1)};
}

std::vector<Shape> infer_shapes(const InferContext& ctx) { return {broadcast_inputs(ctx)}; }

// Writing dy for dL/dy:  da = dy where the condition holds, else 0;  db = dy where it does not,
// else 0.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output condition = ctx.input(0), dy = ctx.output_gradient(0), zero = constant_like(0, dy);
  return {Output{}, undo_broadcast(where(condition, dy, zero), ctx.input(1)),
          undo_broadcast(where(condition, zero, dy), ctx.input(2))};
}

// kC, kA, kB: how far the inputs advance with each element, 0 or 1.
template <class T, int kC, int kA, int kB>
void choose(const uint8_t* condition, const T* a, const T* b, T* y, int64_t n) {
  const uint8_t first_condition = *condition;
  const T first_a = *a, first_b = *b;
  for (int64_t i = 0; i < n; ++i) {
    const T value_a = kA ? a[i] : first_a, value_b = kB ? b[i] : first_b;
    y[i] = (kC ? condition[i] : first_condition) ? value_a : value_b;
  }
}

// T: any type of the elements' size; they are only copied.
template <class T>
void cpu(KernelContext& ctx) {
  static constexpr decltype(&choose<T, 0, 0, 0>) kChoices[] = {
      choose<T, 0, 0, 0>, choose<T, 0, 0, 1>, choose<T, 0, 1, 0>, choose<T, 0, 1, 1>,
      choose<T, 1, 0, 0>, choose<T, 1, 0, 1>, choose<T, 1, 1, 0>, choose<T, 1, 1, 1>};
  const auto* condition = static_cast<const uint8_t*>(ctx.input(0).raw());
  const auto* a = static_cast<const T*>(ctx.input(1).raw());
  const auto* b = static_cast<const T*>(ctx.input(2).raw());
  const BroadcastWalk walk = walk_inputs(ctx);
  auto* y = static_cast<T*>(ctx.output().mutable_raw());
  const int inner = walk.ndim - 1;
  const auto choice =
      kChoices[4 * walk.strides[0][inner] + 2 * walk.strides[1][inner] + walk.strides[2][inner]];
  for_each_row<3>(walk, [&](int64_t to, const int64_t* at, int64_t n) {
    choice(condition + at[0], a + at[1], b + at[2], y + to, n);
  });
}

}  // namespace

Op where_op() {
  return {.name = "Where",
          .inputs = {"condition", "a", "b"},
          .outputs = {"y"},
          .infer_dtypes = infer_dtypes,
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::f32, cpu<uint32_t>},
                      {DeviceKind::cpu, DType::f64, cpu<uint64_t>},
                      {DeviceKind::cpu, DType::i32, cpu<uint32_t>},
                      {DeviceKind::cpu, DType::i64, cpu<uint64_t>},
                      {DeviceKind::cpu, DType::u8, cpu<uint8_t>},
                      {DeviceKind::cpu, DType::boolean, cpu<uint8_t>}},
          .dispatch = 1};
}

Output where(Output condition, Output a, Output b, Origin at) {
  return add_node({.op = "Where", .inputs = {condition, a, b}}, at);
}

}  // namespace troupe
