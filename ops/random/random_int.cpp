// RandomInt: y = uniform integers in [low, high).
//
// Element i is low + the upper half of bits * (high - low), with number i of the stream
// (RandomNumbers of ops/random/random.hpp).
#include <limits>

#include "ops/random/random.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

template <class T>
bool is_range(int64_t low, int64_t high) {
  return low < high && low >= int64_t{std::numeric_limits<T>::min()} &&
         high - 1 <= int64_t{std::numeric_limits<T>::max()};
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  const Shape& shape = drawn_shape(ctx);
  const int64_t low = ctx.attr<int64_t>("low"), high = ctx.attr<int64_t>("high");
  const DType dtype = ctx.attr<DType>("dtype");
  if (!(dtype == DType::i32 ? is_range<int32_t>(low, high) : is_range<int64_t>(low, high)))
    throw ctx.error("wants low < high whose numbers from low to high - 1 are ", dtype, ", got ",
                    low, " and ", high);
  return {shape};
}

template <class T>
void cpu(KernelContext& ctx) {
  RandomNumbers random(random_stream(ctx));
  const uint64_t low = static_cast<uint64_t>(ctx.attr<int64_t>("low"));
  const uint64_t range = static_cast<uint64_t>(ctx.attr<int64_t>("high")) - low;
  Tensor& output = ctx.output();
  T* y = output.mutable_data<T>();
  const int64_t n = output.size();
  for (int64_t i = 0; i < n; ++i)
    y[i] = static_cast<T>(low + random.below(static_cast<uint64_t>(i), range));
}

}  // namespace

Op random_int_op() {
  return drawing_op("RandomInt", {{"low", AttrKind::integer}, {"high", AttrKind::integer}},
                    infer_shapes, {DeviceKind::cpu, DType::i64, cpu<int64_t>},
                    {DeviceKind::cpu, DType::i32, cpu<int32_t>});
}

Output random_int(Graph& graph, Shape shape, int64_t low, int64_t high, int64_t seed, DType dtype,
                  std::string_view name, Origin at) {
  return add_drawing(
      graph,
      {.op = "RandomInt",
       .attrs = {{"shape", shape}, {"low", low}, {"high", high}, {"seed", seed}, {"dtype", dtype}},
       .name = name},
      at);
}

}  // namespace troupe
