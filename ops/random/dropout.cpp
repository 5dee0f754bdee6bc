// Dropout: y = x / (1 - rate) for kept elements, otherwise 0. Each element is kept with probability
// 1 - rate, independently (Srivastava et al. 2014). The mask is a function of (seed, key, step,
// replica), the iteration and the element's position alone, so it is not stored: the gradient draws
// it again.
//   x, y: any shape, f32 or f64.
//
// Bits (ops/random/philox.hpp defines blocks): element i is kept if word i % 4 of block i / 4 is at
// least rate * 2^32.
#include <algorithm>
#include <cstring>

#include "ops/random/random.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  check_random_attrs(ctx);
  const double rate = ctx.attr<double>("rate");
  if (!(rate >= 0 && rate < 1))
    throw ctx.error("wants a rate in [0, 1), the part that is dropped, got ", rate);
  return {ctx.input(0)};
}

// Writing dy for dL/dy:  dx = dropout(dy) with the same mask.
std::vector<Output> gradient(const GradientContext& ctx) {
  std::vector<Output> inputs = {ctx.output_gradient(0)};
  for (int i = 1; i < ctx.input_count(); ++i) inputs.push_back(ctx.input(i));  // the path
  std::vector<Output> gradients(inputs.size());
  gradients[0] = add_node({.op = "Dropout",
                           .inputs = std::move(inputs),
                           .attrs = {{"rate", ctx.attr<double>("rate")},
                                     {"seed", ctx.attr<int64_t>("seed")},
                                     {"key", random_key(ctx.node())},
                                     {"replica", ctx.attr<int64_t>("replica")}}},
                          Origin::here());
  return gradients;
}

template <class T>
void cpu(KernelContext& ctx) {
  const RandomStream random = random_stream(ctx);
  const double rate = ctx.attr<double>("rate");
  const uint64_t dropped_below = static_cast<uint64_t>(rate * 0x1p32);
  const T kept = static_cast<T>(1 - rate);
  const T* x = ctx.input(0).data<T>();
  const int64_t n = ctx.input(0).size();
  T* y = ctx.output_in_place().template mutable_data<T>();
  for (int64_t i = 0; i < n; i += 4) {
    const auto words = random.block(static_cast<uint64_t>(i / 4));
    T four[4] = {};
    const size_t bytes = sizeof(T) * static_cast<size_t>(std::min<int64_t>(4, n - i));
    std::memcpy(four, x + i, bytes);
    for (size_t j = 0; j < 4; ++j) {  // computes both sides, to avoid branches
      const T scaled = four[j] / kept;
      four[j] = words[j] < dropped_below ? T{0} : scaled;
    }
    std::memcpy(y + i, four, bytes);
  }
}

}  // namespace

Op dropout_op() {
  return {.name = "Dropout",
          .inputs = {"x", kPathInput},
          .outputs = {"y"},
          .attrs = with_random_attrs({{"rate", AttrKind::real}}),
          .infer_dtypes = infer_dtype_of_first,
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = float_kernels(cpu<float>, cpu<double>),
          .in_place = true,
          .stateful = true};
}

Output dropout(Output x, double rate, int64_t seed, Origin at) {
  return add_drawing({.op = "Dropout", .inputs = {x}, .attrs = {{"rate", rate}, {"seed", seed}}},
                     at);
}

}  // namespace troupe
