// Bernoulli: y = 1 with probability p, otherwise 0, independently for each element.
//   p, y: any shape, f32 or f64; every p in [0, 1]
//
// Element i is 1 if number i of the stream (RandomNumbers of ops/random/random.hpp) is less than
// p[i].
#include "ops/random/random.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  check_random_attrs(ctx);
  return infer_same_shape(ctx);
}

template <class T>
void cpu(KernelContext& ctx) {
  RandomNumbers random(random_stream(ctx), ctx.input(0).size());
  const T* p = ctx.input(0).data<T>();
  const int64_t n = ctx.input(0).size();
  for (int64_t i = 0; i < n; ++i)
    if (!(p[i] >= 0 && p[i] <= 1))
      throw ctx.error("wants probabilities from 0 to 1, got ", p[i], " (number ", i, " of ", n,
                      ")");
  T* y = ctx.output().mutable_data<T>();
  for (int64_t i = 0; i < n; ++i)
    y[i] = random.unit(static_cast<uint64_t>(i)) < static_cast<double>(p[i]) ? 1 : 0;
}

}  // namespace

Op bernoulli_op() {
  return {.name = "Bernoulli",
          .inputs = {"p", kPathInput},
          .outputs = {"y"},
          .attrs = with_random_attrs({}),
          .infer_dtypes = infer_dtype_of_first,
          .infer_shapes = infer_shapes,
          .no_gradient = "what is drawn is constant wherever it has a slope in p",
          .kernels = float_kernels(cpu<float>, cpu<double>),
          .stateful = true,
          .properties = &kRandom};
}

Output bernoulli(Output p, int64_t seed, std::string_view name, Origin at) {
  return add_drawing({.op = "Bernoulli", .inputs = {p}, .attrs = {{"seed", seed}}, .name = name},
                     at);
}

}  // namespace troupe
