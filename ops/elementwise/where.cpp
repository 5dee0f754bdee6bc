// Where: y = a where the condition holds, else b; element-wise, all three broadcast.
//   condition: bool.   a, b: one dtype.
#include "graph/op.hpp"
#include "ops/elementwise/number.hpp"
#include "ops/support/elementwise.hpp"

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

// kA, kB: how far the inputs advance with each element, 0 or 1. y may be a or b.
template <int kA, int kB>
struct ChooseLoop {
  template <class T>
  static void run(const uint8_t* condition, const T* a, const T* b, T* y, int64_t n) {
    const T first_a = *a, first_b = *b;
    TROUPE_INDEPENDENT
    for (int64_t i = 0; i < n; ++i)
      y[i] = condition[i] ? (kA ? a[i] : first_a) : (kB ? b[i] : first_b);
  }
};

// The next n elements; `once`: an input has but one for all.
template <class T>
void choose(const uint8_t* condition, const T* a, const T* b, T* y, int64_t n, bool once_condition,
            bool once_a, bool once_b) {
  if (once_condition) {
    const bool once = *condition ? once_a : once_b;
    const T* from = *condition ? a : b;
    if (once)
      std::fill_n(y, n, *from);
    else if (y != from)
      std::copy_n(from, n, y);
    return;
  }
  if (once_a)
    once_b ? in_isa<ChooseLoop<0, 0>>(condition, a, b, y, n)
           : in_isa<ChooseLoop<0, 1>>(condition, a, b, y, n);
  else
    once_b ? in_isa<ChooseLoop<1, 0>>(condition, a, b, y, n)
           : in_isa<ChooseLoop<1, 1>>(condition, a, b, y, n);
}

// T: any type of the elements' size; they are only copied.
template <class T>
void cpu(KernelContext& ctx) {
  const auto* condition = static_cast<const uint8_t*>(ctx.input(0).raw());
  const auto* a = static_cast<const T*>(ctx.input(1).raw());
  const auto* b = static_cast<const T*>(ctx.input(2).raw());
  const BroadcastWalk walk = walk_inputs(ctx);
  auto* y = static_cast<T*>(ctx.output().mutable_raw());
  const int inner = walk.ndim - 1;
  const auto* const steps = walk.strides;
  const bool once_condition = !steps[0][inner], once_a = !steps[1][inner],
             once_b = !steps[2][inner];
  const auto row = [&](int64_t to, const int64_t* at, int64_t n) {
    choose(condition + at[0], a + at[1], b + at[2], y + to, n, once_condition, once_a, once_b);
  };
  if (walk.ndim > 1 || walk.sizes[0] == 0) return for_each_row<3>(walk, row);
  in_parts(ctx, walk.sizes[0], [&](int64_t begin, int64_t n) {
    const int64_t at[] = {once_condition ? 0 : begin, once_a ? 0 : begin, once_b ? 0 : begin};
    row(begin, at, n);
  });
}

template <class T>
void elements(const ElementRun& run) {
  choose(static_cast<const uint8_t*>(run.inputs[0]), static_cast<const T*>(run.inputs[1]),
         static_cast<const T*>(run.inputs[2]), static_cast<T*>(run.output), run.n, run.once[0],
         run.once[1], run.once[2]);
}

template <class T>
Kernel kernel(DType dtype) {
  return {.dtype = dtype, .run = cpu<T>, .elements = elements<T>};
}

}  // namespace

Op where_op() {
  return {.name = "Where",
          .inputs = {"condition", "a", "b"},
          .outputs = {"y"},
          .infer_dtypes = infer_dtypes,
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {kernel<uint32_t>(DType::f32), kernel<uint64_t>(DType::f64),
                      kernel<uint32_t>(DType::i32), kernel<uint64_t>(DType::i64),
                      kernel<uint8_t>(DType::u8), kernel<uint8_t>(DType::boolean),
                      kernel<uint8_t>(DType::i8), kernel<uint16_t>(DType::f16),
                      kernel<uint16_t>(DType::bf16)},
          .dispatch = 1};
}

Output where(Output condition, Operand a, Operand b, Origin at) {
  const auto [taken, other] = outputs_of("Where", a, b, at);
  return add_node({.op = "Where", .inputs = {condition, taken, other}}, at);
}

}  // namespace troupe
