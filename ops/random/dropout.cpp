// Dropout: y = x / (1 - rate) for kept elements, otherwise 0. Each element is kept with probability
// 1 - rate, independently (Srivastava et al. 2014). The mask is a function of (seed, key, step,
// replica), the iteration and the element's position alone, so it is not stored: the gradient draws
// it again.
//   x, y: any shape, f32 or f64.
//
// Bits (graph/base/philox.hpp defines blocks): element i is kept if word i % 4 of block i / 4 is at
// least rate * 2^32.
#include <algorithm>

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

// Elements from that of word 0 of `block` on; y may be x.
struct DropoutLoop {
  template <class T>
  static void run(const RandomStream* stream, uint64_t block, uint32_t dropped_below, T kept,
                  const T* x, T* y, int64_t n) {
    constexpr int64_t kAtOnce = 4 * RandomStream::kBlocks;
    uint32_t words[kAtOnce];
    for (; n > 0; n -= kAtOnce, x += kAtOnce, y += kAtOnce, block += RandomStream::kBlocks) {
      stream->blocks(block, words);
      const int64_t count = std::min(n, kAtOnce);
      TROUPE_INDEPENDENT
      for (int64_t i = 0; i < count; ++i) {  // computes both sides, to avoid branches
        const T scaled = x[i] / kept;
        y[i] = words[i] < dropped_below ? T{0} : scaled;
      }
    }
  }
};

template <class T>
void cpu(KernelContext& ctx) {
  const RandomStream random = random_stream(ctx);
  const double rate = ctx.attr<double>("rate");
  const auto dropped_below = static_cast<uint32_t>(rate * 0x1p32);
  const T kept = static_cast<T>(1 - rate);
  const T* x = ctx.input(0).data<T>();
  const int64_t n = ctx.input(0).size();
  T* y = ctx.output_in_place().template mutable_data<T>();
  constexpr int64_t kJob = 1 << 16;  // some 30 us
  ctx.parallel((n + kJob - 1) / kJob, [&](int64_t job) {
    const int64_t first = job * kJob;
    in_isa<DropoutLoop>(&random, static_cast<uint64_t>(first / 4), dropped_below, kept, x + first,
                        y + first, std::min(kJob, n - first));
  });
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
          .stateful = true,
          .properties = &kRandom};
}

Output dropout(Output x, double rate, int64_t seed, Origin at) {
  return add_drawing({.op = "Dropout", .inputs = {x}, .attrs = {{"rate", rate}, {"seed", seed}}},
                     at);
}

}  // namespace troupe
