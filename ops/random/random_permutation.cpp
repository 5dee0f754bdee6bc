// RandomPermutation: y = the numbers from 0 to n - 1 in uniformly random order.
//   x_like: [n, ...] of any dtype, of which only the number of rows is used   y: [n], i64
//
// From y = 0, 1, ..., for i from n - 1 down to 1, swaps y[i] and y[j] with j in [0, i]
// (Durstenfeld, CACM 7, 1964): j = the upper half of bits * (i + 1), with number i of the stream
// (RandomNumbers of ops/random/random.hpp).
#include <numeric>
#include <utility>

#include "ops/random/random.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  check_random_attrs(ctx);
  if (ctx.input(0).ndim() < 1) throw ctx.error("wants rows to put in an order, got a scalar");
  return {Shape{ctx.input(0)[0]}};
}

void cpu(KernelContext& ctx) {
  RandomNumbers random(random_stream(ctx), ctx.output().size());
  Tensor& output = ctx.output();
  const int64_t n = output.size();
  int64_t* y = output.mutable_data<int64_t>();
  std::iota(y, y + n, int64_t{0});
  for (uint64_t i = static_cast<uint64_t>(n); i-- > 1;) std::swap(y[i], y[random.below(i, i + 1)]);
}

Output add_permutation(Output x_like, int64_t seed, std::string_view name, Origin at) {
  return add_drawing(
      {.op = "RandomPermutation", .inputs = {x_like}, .attrs = {{"seed", seed}}, .name = name}, at);
}

}  // namespace

Op random_permutation_op() {
  return {.name = "RandomPermutation",
          .inputs = {"x_like", kPathInput},
          .outputs = {"y"},
          .attrs = with_random_attrs({}),
          .infer_dtypes = infer_i64,
          .infer_shapes = infer_shapes,
          .no_gradient = "only the number of rows is used",
          .kernels = {{DeviceKind::cpu, DType::none, cpu}},
          .dispatch = -1,
          .stateful = true,
          .properties = &kRandom};
}

Output random_permutation(Graph& graph, int64_t n, int64_t seed, std::string_view name, Origin at) {
  const Output rows = fill(graph, Shape{n}, 0, DType::u8, "rows", at);
  return add_permutation(rows, seed, name, at);
}

Output shuffle(Output x, int64_t seed, Origin at) {
  return gather(x, add_permutation(x, seed, "", at), at);
}

}  // namespace troupe
